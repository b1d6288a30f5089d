from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config_values import (
    parse_addresses,
    parse_boolean,
    parse_duration,
    parse_fraction,
    parse_memory_size,
    parse_positive_duration,
    parse_positive_memory_size,
)

SIZES = st.integers(min_value=0, max_value=(1 << 63) - 1)
UNITS = {0: ("", "b", "bytes"), 10: ("k", "kb", "kibibytes"), 20: ("m", "mb", "mebibytes")}
UNITS |= {30: ("g", "gb", "gibibytes"), 40: ("t", "tb", "tebibytes")}


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        ("1M", 1 << 20),
        ("512 kb", 512 << 10),
        ("64 mb", 64 << 20),
        ("  3 Gibibytes ", 3 << 30),
        ("2tb", 2 << 40),
        ("1 kibibytes", 1024),
        ("1048576", 1 << 20),
        ("12 b", 12),
        ("12 bytes", 12),
        ("0", 0),
        (0, 0),
        (4096, 4096),
    ],
)
def test_a_memory_size_is_read_as_flink_reads_it(given_value: object, expected: int) -> None:
    assert parse_memory_size(given_value) == expected


@given(SIZES)
def test_a_memory_size_is_a_number_of_bytes_or_that_number_s_text(size: int) -> None:
    assert parse_memory_size(size) == parse_memory_size(str(size)) == size


@pytest.mark.parametrize("shift", UNITS)
@given(number=st.integers(min_value=0, max_value=(1 << 22) - 1), space=st.sampled_from(["", " "]))
def test_every_unit_is_binary_in_any_case(shift: int, number: int, space: str) -> None:
    for unit in UNITS[shift]:
        for written in (unit, unit.upper(), unit.title()):
            assert parse_memory_size(f"{number}{space}{written}") == number << shift


@pytest.mark.parametrize(
    "wrong",
    [
        *("", " ", "M", "-1", "-1 mb", "1.5 mb", "1e3", "1 mib", "1 kib", "1 m b", "1 megabytes"),
        *("1 mb 2", "0x10", "1_000", "١ mb", None, True, False, 1.5, -1, b"1", ["1M"]),
        *(str(1 << 63), "9999999999 tb", "8388608 tb"),
    ],
)
def test_what_is_no_memory_size_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError):
        parse_memory_size(wrong)


def test_the_largest_memory_size_is_java_s() -> None:
    assert parse_memory_size(str((1 << 63) - 1)) == (1 << 63) - 1
    assert parse_memory_size("8388607 tb") == 8_388_607 << 40


def test_a_positive_memory_size_is_above_zero() -> None:
    assert parse_positive_memory_size("1 b") == 1
    for nothing in ("0", 0, "0 mb", "-1"):
        with pytest.raises(ValueError):
            parse_positive_memory_size(nothing)


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        ("30 s", timedelta(seconds=30)),
        ("3 min", timedelta(minutes=3)),
        ("3m", timedelta(minutes=3)),
        ("2 HOURS", timedelta(hours=2)),
        ("1d", timedelta(days=1)),
        ("500", timedelta(milliseconds=500)),
        (500, timedelta(milliseconds=500)),
        ("7 µs", timedelta(microseconds=7)),
        ("3000 ns", timedelta(microseconds=3)),
        (" 0 ", timedelta(0)),
        (timedelta(seconds=5), timedelta(seconds=5)),
    ],
)
def test_a_duration_is_read_as_flink_reads_it(given_value: object, expected: timedelta) -> None:
    assert parse_duration(given_value) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "s", "-1 s", "1.5 s", "1 fortnight", "1 min 2 s", None, True, 1.5, -1),
        *(timedelta(seconds=-1), "99999999999999 d"),
    ],
)
def test_what_is_no_duration_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError):
        parse_duration(wrong)


@given(st.integers(min_value=0, max_value=10**9))
def test_a_duration_without_a_unit_is_in_milliseconds(number: int) -> None:
    assert parse_duration(number) == parse_duration(f"{number} ms")
    assert parse_duration(f"{number} ms") == timedelta(milliseconds=number)


@pytest.mark.parametrize("parse", [parse_duration, parse_positive_duration])
def test_a_duration_is_kept_as_it_is(parse: Callable[[object], timedelta]) -> None:
    assert parse(timedelta(seconds=3)) == timedelta(seconds=3)


def test_a_positive_duration_is_above_zero() -> None:
    assert parse_positive_duration("1 ms") == timedelta(milliseconds=1)
    for nothing in ("0", "0 s", timedelta(0)):
        with pytest.raises(ValueError):
            parse_positive_duration(nothing)


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        ("10.0.0.1:7000", ("10.0.0.1:7000",)),
        (" left:1 , right:65535,", ("left:1", "right:65535")),
        (["left:1", " right:2 "], ("left:1", "right:2")),
        ("[::1]:7000", ("[::1]:7000",)),
        ("", ()),
        ([], ()),
    ],
)
def test_addresses_are_read_with_commas_in_between(
    given_value: object, expected: tuple[str, ...]
) -> None:
    assert parse_addresses(given_value) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        *("left", "left:", ":7000", "left:0", "left:65536", "left:123456", "le ft:1"),
        *("http://left:1", "me@left:1", "left:1,left:1", "::1:7000", ["left"], 7, None),
    ],
)
def test_what_is_no_address_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError):
        parse_addresses(wrong)


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [(True, True), (False, False), ("true", True), (" FALSE ", False), ("True", True)],
)
def test_a_boolean_is_read_as_flink_reads_it(given_value: object, expected: bool) -> None:
    assert parse_boolean(given_value) is expected


@pytest.mark.parametrize("wrong", ["", "yes", "1", 1, 0, None, "truefalse", b"true", ["true"]])
def test_what_is_no_boolean_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError):
        parse_boolean(wrong)


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [("0.01", 0.01), (0, 0.0), ("1", 1.0), (" 1e-3 ", 0.001), (0.5, 0.5)],
)
def test_fractions(given_value: object, expected: float) -> None:
    assert parse_fraction(given_value) == expected


@pytest.mark.parametrize("value", [-0.1, 1.1, "2", "nan", "50%", "", True, None, [0.5]])
def test_what_is_no_fraction(value: object) -> None:
    with pytest.raises(ValueError):
        parse_fraction(value)

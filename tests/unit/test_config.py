"""Options of the configuration: their defaults, where they are set, and how values are read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config import (
    ALL_OPTIONS,
    INTERMEDIATE_RESULT_COMPRESSION,
    INTERMEDIATE_RESULT_DIRECTORY,
    JOB_RECOVERY_ENABLED,
    Compression,
    Configuration,
)
from holdfast.config_values import (
    parse_addresses,
    parse_boolean,
    parse_duration,
    parse_fraction,
    parse_memory_size,
    parse_positive_duration,
    parse_positive_memory_size,
)
from holdfast.errors import ConfigurationError

DIRECTORY = "intermediate-result-storage.directory"
COMPRESSION = "intermediate-result-storage.compression"
RECOVERY = "execution.batch.job-recovery"
BUFFER = "job-event.store.write-buffer"
STORAGE_DIR = "high-availability.storageDir"
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
OPTIONS = {option.key: option for option in ALL_OPTIONS}


@pytest.mark.parametrize(
    ("key", "default", "written", "expected"),
    [
        (COMPRESSION, Compression.ZSTD, "LZ4_RAW", Compression.LZ4_RAW),
        (f"{RECOVERY}.enabled", False, "False", False),
        (f"{RECOVERY}.previous-worker.recovery.timeout", 30 * SECOND, "1 min", MINUTE),
        (f"{RECOVERY}.operator-coordinator-snapshot.min-pause", 3 * MINUTE, "0", 0 * SECOND),
        (f"{RECOVERY}.retention", 24 * HOUR, "2 d", 48 * HOUR),
        (f"{BUFFER}.size", 1_048_576, "512 kb", 524_288),
        (f"{BUFFER}.flush-interval", SECOND, "200 ms", SECOND / 5),
        (STORAGE_DIR, None, "file:///data/ha", Path("/data/ha")),
        ("pipeline.name", None, " nightly ", "nightly"),
    ],
)
def test_options_have_the_seeds_names_types_and_defaults(
    key: str, default: object, written: str, expected: object
) -> None:
    option = OPTIONS[key]
    assert Configuration.merged({}, {}).get(option) == default
    assert Configuration.merged({}, {key: written}).get(option) == expected
    assert Configuration.merged({f"spark.holdfast.{key}": written}, {}).get(option) == expected


def test_every_option_is_named_once_described_and_reads_its_own_default() -> None:
    assert len(OPTIONS) == len(ALL_OPTIONS)
    for option in ALL_OPTIONS:
        assert option.parse(option.default()) == option.default()
        assert option.description.endswith(".") and option.shown_default and option.expected


def test_recovery_needs_a_place_to_record_jobs() -> None:
    enabled = f"{RECOVERY}.enabled"
    for spark, explicit in (
        ({f"spark.holdfast.{enabled}": "true"}, {}),
        ({}, {enabled: True, STORAGE_DIR: None}),
    ):
        with pytest.raises(
            ConfigurationError, match=f"{enabled} is enabled, which requires"
        ) as bad:
            Configuration.merged(spark, explicit)
        assert (bad.value.key, bad.value.value) == (STORAGE_DIR, None)
    conf = Configuration.merged({f"spark.holdfast.{STORAGE_DIR}": "/ha"}, {enabled: "true"})
    assert conf.get(JOB_RECOVERY_ENABLED)


def test_the_directory_is_the_user_s_unless_one_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", "/home/somebody")
    for given_options, expected in (
        ({}, str(tmp_path / f"holdfast-{os.getuid()}")),
        ({DIRECTORY: "~/kept"}, "/home/somebody/kept"),
        ({DIRECTORY: Path("~/kept")}, "/home/somebody/kept"),
    ):
        conf = Configuration.merged({}, given_options)
        assert conf.get(INTERMEDIATE_RESULT_DIRECTORY) == expected


def test_what_is_explicit_comes_before_what_spark_has_with_the_prefix() -> None:
    spark = {f"spark.holdfast.{COMPRESSION}": "snappy", DIRECTORY: "/other", "spark.app.name": "x"}
    explicit = {COMPRESSION: Compression.UNCOMPRESSED}
    for given_options, expected in ({}, Compression.SNAPPY), (explicit, Compression.UNCOMPRESSED):
        conf = Configuration.merged(spark, given_options)
        assert conf.get(INTERMEDIATE_RESULT_COMPRESSION) is expected
        assert conf.get(INTERMEDIATE_RESULT_DIRECTORY) != "/other"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (COMPRESSION, "gzip", "zstd, lz4_raw, snappy, uncompressed"),
        (DIRECTORY, 7, "the path of a directory"),
        (f"{RECOVERY}.enabled", "yes", "true or false"),
        (f"{RECOVERY}.operator-coordinator-snapshot.min-pause", "soon", "such as 3 min"),
        (f"{RECOVERY}.retention", 0, "above zero, such as 24 h"),
        (f"{BUFFER}.size", "0", "above zero, such as 1M or 512 kb"),
        (STORAGE_DIR, "hdfs://name/ha", "a directory accessible from every machine"),
        ("pipeline.name", " ", "a name that is not empty"),
    ],
)
def test_an_ill_typed_value_is_named_with_its_key_and_what_was_expected(
    key: str, value: object, expected: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Configuration.merged({}, {key: value})
    assert (raised.value.key, raised.value.value) == (key, value)
    assert all(part in str(raised.value) for part in (key, repr(value), expected))


def test_an_unknown_key_is_named_with_the_nearest_known_one_or_all() -> None:
    with pytest.raises(ConfigurationError, match=f"did you mean '{DIRECTORY}'"):
        Configuration.merged({"spark.holdfast.intermediate-result.directory": "/x"}, {})
    with pytest.raises(ConfigurationError) as raised:
        Configuration.merged({}, {"zzz": 1})
    assert all(key in str(raised.value) for key in OPTIONS)


# -- values, as Flink reads them -------------------------------------------------------------------

Parse = Callable[[object], object]
READ: dict[Parse, list[tuple[object, object]]] = {
    parse_memory_size: [
        *(("  3 Gibibytes ", 3 << 30), ("12 bytes", 12), ("0", 0), (9, 9)),
        *((str((1 << 63) - 1), (1 << 63) - 1), ("8388607 tb", 8388607 << 40)),
    ],
    parse_positive_memory_size: [("1 b", 1)],
    parse_duration: [
        *(("30 s", 30 * SECOND), ("3m", 3 * MINUTE), ("1d", 24 * HOUR), ("2 HOURS", 2 * HOUR)),
        *(("500", SECOND / 2), (500, SECOND / 2), ("3000 ns", SECOND * 3e-6), (HOUR, HOUR)),
        *(("7 µs", SECOND * 7e-6), (" 0 ", 0 * SECOND)),
    ],
    parse_positive_duration: [("1 ms", SECOND / 1000)],
    parse_addresses: [
        *(("10.0.0.1:7000", ("10.0.0.1:7000",)), ("", ()), ([], ()), ("[::1]:7", ("[::1]:7",))),
        *((" left:1 , b:65535,", ("left:1", "b:65535")), (["a:1", " b:2 "], ("a:1", "b:2"))),
    ],
    parse_boolean: [(True, True), (False, False), (" FALSE ", False), ("True", True)],
    parse_fraction: [("0.01", 0.01), (0, 0.0), ("1", 1.0), (" 1e-3 ", 0.001), (0.5, 0.5)],
}
REFUSED: dict[Parse, list[object]] = {
    parse_memory_size: [
        *("", " ", "M", "-1", "1.5 mb", "1e3", "1 mib", "1 m b", "1 megabytes", "1 mb 2", "0x10"),
        *("1_000", "١ mb", None, True, 1.5, -1, b"1", ["1M"], str(1 << 63), "8388608 tb"),
    ],
    parse_positive_memory_size: ["0", 0, "0 mb", "-1"],
    parse_duration: [
        *("", "s", "-1 s", "1.5 s", "1 fortnight", "1 min 2 s", None, True, 1.5, -1),
        *(timedelta(seconds=-1), "99999999999999 d"),
    ],
    parse_positive_duration: ["0", "0 s", timedelta(0)],
    parse_addresses: [
        *("left", "left:", ":7000", "left:0", "left:65536", "left:123456", "le ft:1"),
        *("http://left:1", "me@left:1", "left:1,left:1", "::1:7000", ["left"], 7, None),
    ],
    parse_boolean: ["", "yes", "1", 1, 0, None, "truefalse", b"true", ["true"]],
    parse_fraction: [-0.1, 1.1, "2", "nan", "50%", "", True, None, [0.5]],
}


@pytest.mark.parametrize("parse", READ)
def test_a_value_is_read_or_refused(parse: Parse) -> None:
    values = [value for value, _ in READ[parse]]
    assert [(value, parse(value)) for value in values] == READ[parse]
    for wrong in REFUSED[parse]:
        with pytest.raises(ValueError):
            parse(wrong)
            pytest.fail(f"read {wrong!r}")


UNITS = {0: "b bytes", 10: "k kb kibibytes", 20: "m mb mebibytes", 30: "g gb gibibytes"}


@given(number=st.integers(0, (1 << 22) - 1), space=st.sampled_from(["", " "]))
def test_units_are_binary_in_any_case(number: int, space: str) -> None:
    for shift, units in {**UNITS, 40: "t tb tebibytes"}.items():
        for unit in units.split():
            for written in (unit, unit.upper(), unit.title()):
                assert parse_memory_size(f"{number}{space}{written}") == number << shift

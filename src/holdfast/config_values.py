"""How values of configuration keys are written: booleans, durations, memory sizes, addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta

_DURATION = re.compile(r"\s*(\d+)\s*([a-zµ]*)\s*", re.IGNORECASE)
_SECONDS = {
    label: seconds
    for seconds, labels in (
        (86_400.0, ("d", "day", "days")),
        (3_600.0, ("h", "hour", "hours")),
        (60.0, ("m", "min", "minute", "minutes")),
        (1.0, ("s", "sec", "secs", "second", "seconds")),
        (1e-3, ("", "ms", "milli", "millis", "millisecond", "milliseconds")),
        (1e-6, ("µs", "micro", "micros", "microsecond", "microseconds")),
        (1e-9, ("ns", "nano", "nanos", "nanosecond", "nanoseconds")),
    )
    for label in labels
}
_MEMORY_SIZE = re.compile(r"\s*([0-9]+)\s*([a-z]*)\s*", re.IGNORECASE)
_BYTES = {
    label: 1 << shift
    for shift, labels in (
        (0, ("", "b", "bytes")),
        (10, ("k", "kb", "kibibytes")),
        (20, ("m", "mb", "mebibytes")),
        (30, ("g", "gb", "gibibytes")),
        (40, ("t", "tb", "tebibytes")),
    )
    for label in labels
}
# A memory size is a signed number of Java's.
_BYTES_LIMIT = 1 << 63
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:,/@]+):(\d{1,5})")
_PORTS = 65_536


def parse_boolean(value: object) -> bool:
    """A boolean as Flink reads one.

    Args:
        value: `true` or `false` in any case, or a boolean.

    Raises:
        ValueError: when it is none.

    >>> parse_boolean("True"), parse_boolean(False)
    (True, False)
    """
    if isinstance(value, bool):
        return value
    written = value.strip().lower() if isinstance(value, str) else ""
    if written not in ("true", "false"):
        raise ValueError(value)
    return written == "true"


def parse_duration(value: object) -> timedelta:
    """A duration as Flink reads one: a number and a unit, milliseconds without one.

    Args:
        value: text such as `30 s` or `3 min`, a number of milliseconds, or a timedelta.

    Raises:
        ValueError: when it is none, or negative.

    >>> parse_duration("3 min"), parse_duration("500")
    (datetime.timedelta(seconds=180), datetime.timedelta(microseconds=500000))
    """
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise ValueError(value)
        return value
    match = _DURATION.fullmatch(str(value)) if not isinstance(value, bool) else None
    if match is None or match[2].lower() not in _SECONDS:
        raise ValueError(value)
    try:
        return timedelta(seconds=int(match[1]) * _SECONDS[match[2].lower()])
    except OverflowError as error:
        raise ValueError(value) from error


def parse_positive_duration(value: object) -> timedelta:
    """Like `parse_duration`, and longer than nothing.

    Raises:
        ValueError: when it is none, or not above zero.
    """
    duration = parse_duration(value)
    if duration <= timedelta(0):
        raise ValueError(value)
    return duration


def parse_memory_size(value: object) -> int:
    """A memory size as Flink reads one: a number and a unit, bytes without one.

    Units are binary, each by its letter, with a b, or in full: b, kb, mb, gb and tb.

    Args:
        value: text such as `1M`, `512 kb` or `64 mebibytes`, or a number of bytes.

    Returns:
        the number of bytes.

    Raises:
        ValueError: when it is none, negative, or beyond 63 bits.

    Source: FLIP-383, "MemorySize"; Flink's MemorySize.

    >>> parse_memory_size("1M"), parse_memory_size("512 kb"), parse_memory_size(7)
    (1048576, 524288, 7)
    """
    match = _MEMORY_SIZE.fullmatch(str(value)) if not isinstance(value, bool) else None
    if match is None or match[2].lower() not in _BYTES:
        raise ValueError(value)
    size = int(match[1]) * _BYTES[match[2].lower()]
    if size >= _BYTES_LIMIT:
        raise ValueError(value)
    return size


def parse_positive_memory_size(value: object) -> int:
    """Like `parse_memory_size`, and more than nothing.

    Returns:
        the number of bytes.

    Raises:
        ValueError: when it is none, or not above zero.
    """
    size = parse_memory_size(value)
    if size == 0:
        raise ValueError(value)
    return size


def parse_fraction(value: object) -> float:
    """A share of something, from 0 to 1.

    Args:
        value: a number, or text such as `0.01`.

    Raises:
        ValueError: when it is none, or outside of that.

    >>> parse_fraction("0.25"), parse_fraction(1)
    (0.25, 1.0)
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(value)
    fraction = float(value)
    if not 0 <= fraction <= 1:
        raise ValueError(value)
    return fraction


def parse_addresses(value: object) -> tuple[str, ...]:
    """Addresses of processes, each `host:port`.

    Args:
        value: text with commas in between, or several texts.

    Raises:
        ValueError: when one is no address, or stands there twice.

    >>> parse_addresses("10.0.0.1:7000, worker-2:7000")
    ('10.0.0.1:7000', 'worker-2:7000')
    """
    if isinstance(value, str):
        texts: list[object] = [text for text in value.split(",") if text.strip()]
    elif isinstance(value, Iterable):
        texts = list(value)
    else:
        raise ValueError(value)
    addresses = []
    for text in texts:
        address = str(text).strip()
        match = _ADDRESS.fullmatch(address)
        if match is None or not 0 < int(match[2]) < _PORTS or address in addresses:
            raise ValueError(value)
        addresses.append(address)
    return tuple(addresses)

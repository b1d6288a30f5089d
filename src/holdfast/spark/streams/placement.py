"""Rows that go to the partition whose number they carry."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.spark.versions import REPARTITIONS_BY_ID, is_at_least

_SEED = 42
_BITS = 0xFFFFFFFF


def placed(frame: DataFrame, partitions: int, column: str) -> DataFrame:
    """The rows of a frame, each in the partition of its own number.

    Args:
        frame: what is to be repartitioned.
        partitions: how many there are to be.
        column: an integer column with numbers from 0 to below `partitions`.
    """
    if is_at_least(frame.sparkSession.version, REPARTITIONS_BY_ID):
        return frame.repartitionById(partitions, column)
    # Older versions place rows by hashes alone, so each number gets a value of that hash.
    values = F.array(*(F.lit(value) for value in hashed_to(partitions)))
    return frame.repartition(partitions, F.get(values, F.col(column)))


def hashed_to(partitions: int) -> list[int]:
    """For each partition an integer that Spark's hash partitioning sends there.

    Args:
        partitions: how many there are.

    >>> hashed_to(3)
    [0, 1, 11]
    """
    found: dict[int, int] = {}
    value = 0
    while len(found) < partitions:
        found.setdefault(_hash(value) % partitions, value)
        value += 1
    return [found[partition] for partition in range(partitions)]


def _hash(value: int) -> int:
    """Spark's `hash` of an INT: MurmurHash3 of its four bytes."""
    mixed = value * 0xCC9E2D51 & _BITS
    mixed = _rotated(mixed, 15) * 0x1B873593 & _BITS
    mixed = _rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64 & _BITS
    mixed ^= 4
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _BITS
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _BITS
    mixed ^= mixed >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _BITS

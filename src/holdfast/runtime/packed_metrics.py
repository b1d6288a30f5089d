"""A partition's metrics in one integer: a third of the memory that objects of their own take."""

from __future__ import annotations

from holdfast.taskexecutor.partitions.partition_info import METRIC_LIMIT, PartitionMetrics

_BITS = METRIC_LIMIT.bit_length() - 1
_MASK = METRIC_LIMIT - 1

# What lies above these bits is for whoever packs more.
PACKED_BITS = 2 * _BITS
PACKED_MASK = (1 << PACKED_BITS) - 1


def pack(metrics: PartitionMetrics) -> int:
    """The metrics in one integer of `PACKED_BITS` bits.

    >>> unpack(pack(PartitionMetrics(bytes=7, rows=2)))
    PartitionMetrics(bytes=7, rows=2)
    """
    return metrics.rows << _BITS | metrics.bytes


def unpack(packed: int) -> PartitionMetrics:
    """What `pack` was given.

    Args:
        packed: its result; bits above are passed over.
    """
    return PartitionMetrics(packed & _MASK, packed >> _BITS & _MASK)

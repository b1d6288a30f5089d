"""What the partitions on a task executor are called, and what is known of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.runtime.packed_metrics import PACKED_BITS, pack, unpack
from holdfast.taskexecutor.partitions.partition_info import (
    METRIC_LIMIT,
    PartitionMetrics,
)


@given(st.integers(0, METRIC_LIMIT - 1), st.integers(0, METRIC_LIMIT - 1), st.integers(0, 1 << 40))
def test_packed_metrics_are_unpacked_as_they_were(size: int, rows: int, above: int) -> None:
    metrics = PartitionMetrics(size, rows)
    assert unpack(above << PACKED_BITS | pack(metrics)) == metrics

"""What the partitions on a task executor are called, and what is known of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.packed_metrics import PACKED_BITS, PACKED_MASK, pack, unpack
from holdfast.taskexecutor.partitions.partition_info import (
    METRIC_LIMIT,
    PARTITIONS_LIMIT,
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)

DATASET = IntermediateDataSetID("a" * 64)
OUTPUT = OutputID(DATASET, "00000001")


def info(index: int, number: int) -> TaskExecutorPartitionInfo:
    metrics = PartitionMetrics(bytes=100 + index, rows=index)
    return TaskExecutorPartitionInfo(ResultPartitionID(OUTPUT, index), metrics, number)


@given(st.integers(0, METRIC_LIMIT - 1), st.integers(0, METRIC_LIMIT - 1), st.integers(0, 1 << 40))
def test_packed_metrics_are_unpacked_as_they_were(size: int, rows: int, above: int) -> None:
    metrics = PartitionMetrics(size, rows)
    assert unpack(above << PACKED_BITS | pack(metrics)) == metrics
    assert pack(metrics) == pack(metrics) & PACKED_MASK


@given(
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.text("0123456789abcdef", min_size=8, max_size=8),
)
def test_an_output_s_name_says_all_of_it(digest: str, attempt: str) -> None:
    output = OutputID(IntermediateDataSetID(digest), attempt)
    assert str(output) == output.name == f"{digest}-{attempt}"
    assert OutputID.parse(output.name) == output
    assert str(ResultPartitionID(output, 7)) == f"{output.name}/7"
    assert ResultPartitionID(output, 7).dataset_id == output.dataset_id


NAME = "a" * 64 + "-00000001"


@pytest.mark.parametrize(
    "name",
    ["", NAME[1:], NAME + "0", NAME.upper(), NAME + "\n", "../" + NAME, NAME.replace("-", "")],
)
def test_what_is_no_output_s_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name of an output"):
        OutputID.parse(name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: OutputID(IntermediateDataSetID("a" * 63), "00000001"),
        lambda: OutputID(DATASET, "0000000"),
        lambda: OutputID(DATASET, "../../.."),
        lambda: ResultPartitionID(OUTPUT, -1),
        lambda: ResultPartitionID(OUTPUT, PARTITIONS_LIMIT),
        lambda: PartitionMetrics(-1, 0),
        lambda: PartitionMetrics(0, METRIC_LIMIT),
        lambda: info(index=4, number=4),
        lambda: info(index=0, number=PARTITIONS_LIMIT + 1),
    ],
)
def test_ids_and_metrics_that_can_t_be_are_not_made(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="got|can't be one of"):
        make()

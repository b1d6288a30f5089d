"""What the partitions on a task executor are called, and what is known of each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.packed_metrics import PACKED_BITS, pack, unpack
from holdfast.taskexecutor.partitions.partition_info import (
    METRIC_LIMIT,
    OutputID,
    PartitionMetrics,
)

DATASET = IntermediateDataSetID("a" * 64)
OUTPUT = OutputID(DATASET, "00000001")


NAME = "a" * 64 + "-00000001"


@pytest.mark.parametrize(
    "name",
    ["", NAME[1:], NAME + "0", NAME.upper(), NAME + "\n", "../" + NAME, NAME.replace("-", "")],
)
def test_an_output_has_one_name_and_what_is_none_is_refused(name: str) -> None:
    assert OutputID.parse(NAME) == OUTPUT and OUTPUT.name == NAME
    with pytest.raises(ValueError, match="name of an output"):
        OutputID.parse(name)


@given(st.integers(0, METRIC_LIMIT - 1), st.integers(0, METRIC_LIMIT - 1), st.integers(0, 1 << 40))
def test_packed_metrics_are_unpacked_as_they_were(size: int, rows: int, above: int) -> None:
    metrics = PartitionMetrics(size, rows)
    assert unpack(above << PACKED_BITS | pack(metrics)) == metrics

"""Which scans of a physical plan deal its rows to tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_EXECUTION = "org.apache.spark.sql.execution."
_SCAN = _EXECUTION + "FileSourceScanExec"
_BROADCAST_JOIN = _EXECUTION + "joins.BroadcastHashJoinExec"
_BROADCASTS = frozenset(
    _EXECUTION + name
    for name in (
        # Of a plan that has run.
        "adaptive.BroadcastQueryStageExec",
        "exchange.BroadcastExchangeExec",
        "exchange.ReusedExchangeExec",
    )
)
_SHUFFLE = _EXECUTION + "exchange.ShuffleExchangeExec"
# Each of their partitions is made of one of their input's, whatever the other ones hold.
_PARTITION_BY_PARTITION = frozenset(
    _EXECUTION + name
    for name in (
        "ColumnarToRowExec",
        "ExpandExec",
        "FileSourceScanExec",
        "FilterExec",
        "GenerateExec",
        "InputAdapter",
        "ProjectExec",
        "UnionExec",
        "WholeStageCodegenExec",
        "joins.BroadcastHashJoinExec",
        "python.ArrowEvalPythonExec",
        "python.BatchEvalPythonExec",
        "python.MapInArrowExec",
        "python.MapInPandasExec",
    )
)


@dataclass(frozen=True, slots=True)
class StreamedScans:
    """What deals a plan's rows to tasks.

    Attributes:
        leaves: which of the plan's leaves they are, counted from the left.
        broadcasts: whether each task is given all rows of something else as well.
    """

    leaves: tuple[int, ...]
    broadcasts: bool


def streamed_scans(operators: Sequence[tuple[str, int]]) -> StreamedScans | None:
    """The scans of files whose partitions are those of the plan.

    Args:
        operators: the physical plan's in pre-order, each by the name of its class in the JVM, with
            how many inputs it has.

    Returns:
        None where something else decides too: a shuffle, or a source other than files.

    >>> streamed_scans([("org.apache.spark.sql.execution.FileSourceScanExec", 0)])
    StreamedScans(leaves=(0,), broadcasts=False)
    >>> streamed_scans([("org.apache.spark.sql.execution.RangeExec", 0)]) is None
    True
    """
    names = {name for name, _ in operators}
    # What is broadcast may be anything, as each task gets all of it; but where it is shuffled it
    # is better off with what Spark adapts at run time, which has no fixed partitions.
    if _SHUFFLE in names:
        return None
    leaves = []
    for name, leaf in _streamed(operators):
        if name not in _PARTITION_BY_PARTITION:
            return None
        if leaf is not None:
            if name != _SCAN:
                return None
            leaves.append(leaf)
    return StreamedScans(tuple(leaves), _BROADCAST_JOIN in names)


def _streamed(operators: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int | None]]:
    """The operators that aren't broadcast; with those without an input which leaf they are."""
    leaf = 0
    # By level of the tree: how many inputs are still to come, and whether they are broadcast.
    open_levels: list[tuple[int, bool]] = []
    for name, inputs in operators:
        broadcast = bool(open_levels) and open_levels[-1][1]
        if open_levels:
            left, inside = open_levels[-1]
            open_levels[-1] = (left - 1, inside)
        broadcast = broadcast or name in _BROADCASTS
        if not broadcast:
            yield name, leaf if inputs == 0 else None
        leaf += inputs == 0
        open_levels.append((inputs, broadcast))
        while open_levels and open_levels[-1][0] == 0:
            open_levels.pop()

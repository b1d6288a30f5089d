"""What there is of a vertex that an earlier start had not finished. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from holdfast.runtime.recovery.recovered_job import RecoveredVertex
from holdfast.taskexecutor.partitions.partition_info import OutputID


@dataclass(frozen=True, slots=True)
class PartialVertex:
    """Some subtasks' partitions, and which subtasks are to run so that all are there.

    Attributes:
        salvaged: the output that has these partitions.
        present: the subtasks whose partitions they are, in their order.
        missing: the subtasks that are to run, in their order; none where all partitions are there
            and only were not published. Subtasks that finished without a row are in neither.
    """

    salvaged: OutputID
    present: tuple[int, ...]
    missing: tuple[int, ...]


def partial_vertex(vertex: RecoveredVertex) -> PartialVertex | None:
    """What there is of a vertex, in the one output that has the most of it.

    Args:
        vertex: how far an earlier start got with it.

    Returns:
        that; None when no partition is there.
    """
    counts = Counter(output for output in vertex.finished.values() if output is not None)
    if not counts:
        return None
    salvaged = max(sorted(counts), key=lambda output: counts[output])
    present = tuple(
        sorted(subtask for subtask, output in vertex.finished.items() if output == salvaged)
    )
    missing = tuple(
        subtask
        for subtask in range(vertex.parallelism)
        # None: it finished and left nothing.
        if vertex.finished.get(subtask, vertex.vertex_id) not in (salvaged, None)
    )
    return PartialVertex(salvaged, present, missing)

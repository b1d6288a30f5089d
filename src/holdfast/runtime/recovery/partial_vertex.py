"""What there is of a vertex that an earlier start had not finished."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.runtime.recovery.recovered_job import RecoveredVertex
from holdfast.taskexecutor.partition_info import OutputID


@dataclass(frozen=True, slots=True)
class PartialVertex:
    """Some subtasks' partitions, and which subtasks are to run so that all are there.

    Attributes:
        salvaged: by output the subtasks whose partitions count there; each subtask once. A subtask
            that finished without a row may be nowhere.
        missing: the subtasks that are to run, in their order; none where all partitions are there
            and only were not published as one dataset.
    """

    salvaged: Mapping[OutputID, tuple[int, ...]]
    missing: tuple[int, ...]


def partial_vertex(vertex: RecoveredVertex) -> PartialVertex:
    """What there is of a vertex.

    Args:
        vertex: how far an earlier start got with it.
    """
    salvaged: defaultdict[OutputID, list[int]] = defaultdict(list)
    for subtask in sorted(vertex.finished):
        output = vertex.finished[subtask]
        if output is not None:
            salvaged[output].append(subtask)
    return PartialVertex(
        {output: tuple(subtasks) for output, subtasks in salvaged.items()}, vertex.missing
    )

"""Decides, of the events of a job and the partitions that are there, what need not run again. Pure.

The order is that of FLIP-383, "The Whole Workflow of Job Recovery": vertices whose parallelism was
decided are initialized; subtasks whose partitions are tracked are marked as finished; coordinators
of the others are reset.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from holdfast.eventstore.events import JobStatus
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.runtime.recovery.job_history import JobHistory, VertexHistory, VertexKey
from holdfast.runtime.recovery.recovered_data_set import RecoveredPartition
from holdfast.taskexecutor.partitions.partition_info import OutputID


@dataclass(frozen=True, slots=True)
class RecoveredVertex:
    """How far an initialized vertex got.

    Attributes:
        vertex_id: as the last start that came to it called it.
        dataset_id: the dataset that it produces; None for one that leaves nothing behind.
        parallelism: how many subtasks it has.
        split: how they split the data; empty where that is not fixed.
        finished: the subtasks that need not run again, each with the output that its partition is
            of; None for one that left nothing.
        whole: an output that is published and holds the whole dataset, or None.
        snapshot: of the vertex's coordinator; None where there is none.
        unrecorded: finished subtasks of which no event says so.
    """

    vertex_id: JobVertexID
    dataset_id: IntermediateDataSetID | None
    parallelism: int
    split: str
    finished: Mapping[int, OutputID | None]
    whole: OutputID | None = None
    snapshot: bytes | None = None
    unrecorded: tuple[int, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        """The subtasks that have not finished, in their order."""
        if len(self.finished) == self.parallelism:
            return ()
        return tuple(each for each in range(self.parallelism) if each not in self.finished)


@dataclass(frozen=True, slots=True)
class RecoveredJob:
    """What there is of a job that an earlier start left behind.

    Attributes:
        vertices: those that were initialized, by their datasets, or by themselves.
        ended: how the job ended, in which case there are no vertices; None when it hasn't.
    """

    vertices: Mapping[VertexKey, RecoveredVertex]
    ended: JobStatus | None = None

    @property
    def by_dataset(self) -> dict[IntermediateDataSetID, RecoveredVertex]:
        """The vertices that produce datasets, by these."""
        return {
            vertex.dataset_id: vertex
            for vertex in self.vertices.values()
            if vertex.dataset_id is not None
        }


def decide(
    history: JobHistory, tracked: Collection[RecoveredPartition], whole: Collection[OutputID] = ()
) -> RecoveredJob:
    """What of a job need not run again.

    - A subtask that an event says to have finished has, if just that partition is tracked.
    - So has one of which no event says it, if its partition is tracked and of an output that its
      vertex was initialized with: its driver died before it could say so.
    - What was reset counts no more, until another event says that it finished.
    - Where subtasks' numbers don't say what they compute, because the split isn't fixed, all of
      the vertex has finished or nothing.
    - An output that is whole has all of the vertex's rows, whoever has split them.

    Args:
        history: what the events of the log add up to.
        tracked: the partitions that are there.
        whole: outputs that are published and of which nothing is missing.

    Returns:
        what need not run again; nothing of a job that has ended.

    Source: FLIP-383, "The Whole Workflow of Job Recovery", steps 1 to 3.

    >>> decide(JobHistory(), []).vertices
    {}
    """
    present: defaultdict[OutputID, set[int]] = defaultdict(set)
    for partition in tracked:
        partition_id = partition.partition_id
        present[partition_id.output].add(partition_id.index)
    complete: defaultdict[IntermediateDataSetID, list[OutputID]] = defaultdict(list)
    for output in sorted(whole):
        complete[output.dataset_id].append(output)
    vertices = {}
    for key, vertex in history.vertices.items():
        of_dataset = [] if vertex.dataset_id is None else complete.get(vertex.dataset_id, [])
        vertices[key] = _vertex(vertex, present, of_dataset)
    return RecoveredJob(vertices, history.ended)


def _vertex(
    vertex: VertexHistory, present: Mapping[OutputID, set[int]], whole: Collection[OutputID]
) -> RecoveredVertex:
    named = set(vertex.finished.values())
    valid = [output for output in whole if not vertex.known.get(output)]
    # What the log speaks of last comes first; any other is as good.
    chosen = next((output for output in valid if output in named), valid[0] if valid else None)
    if chosen is not None:
        # Those that are said to have left nothing have still left nothing.
        finished: dict[int, OutputID | None] = {
            subtask: chosen if vertex.finished.get(subtask, chosen) else None
            for subtask in range(vertex.parallelism)
        }
    else:
        finished = _finished(vertex, present)
    unrecorded = tuple(
        sorted(
            subtask
            for subtask, output in finished.items()
            if vertex.finished.get(subtask, _NEVER) != output
        )
    )
    return RecoveredVertex(
        vertex.vertex_id,
        vertex.dataset_id,
        vertex.parallelism,
        vertex.split,
        finished,
        chosen,
        vertex.snapshot,
        unrecorded,
    )


_NEVER = object()


def _finished(
    vertex: VertexHistory, present: Mapping[OutputID, set[int]]
) -> dict[int, OutputID | None]:
    nothing: set[int] = set()
    finished = {
        subtask: output
        for subtask, output in vertex.finished.items()
        if output is None or subtask in present.get(output, nothing)
    }
    if not vertex.split and vertex.dataset_id is not None:
        return finished if len(finished) == vertex.parallelism else {}
    for output in vertex.outputs:
        for subtask in present.get(output, nothing) - vertex.known[output]:
            if subtask < vertex.parallelism:
                finished.setdefault(subtask, output)
    return finished

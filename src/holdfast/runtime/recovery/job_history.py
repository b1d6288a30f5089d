"""What the events of a job add up to. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    ExecutionVertexReset,
    JobEvent,
    JobFinished,
    JobStatus,
)
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.taskexecutor.partitions.partition_info import OutputID

VertexKey = IntermediateDataSetID | JobVertexID
"""By what a vertex is known over the starts of a job: its dataset; itself where it has none."""


@dataclass(slots=True)
class VertexHistory:
    """What the events say of one vertex.

    Attributes:
        vertex_id: as the last start that came to it called it.
        dataset_id: the dataset that it produces; None for one that leaves nothing behind.
        parallelism: how many subtasks it has.
        split: how they split the data; empty where that is not fixed.
        executions: how often it was initialized.
        finished: the subtasks that have finished, with the output that each one's partition is of;
            None for one that left nothing.
        outputs: whose partitions are those of the subtasks, by the same numbers, even those of
            which nobody said that they have finished.
        known: all outputs that were ever named, each with the subtasks whose partitions there were
            reset and count no more.
        snapshot: the last one of the vertex's coordinator.
    """

    vertex_id: JobVertexID
    dataset_id: IntermediateDataSetID | None
    parallelism: int
    split: str
    executions: int = 1
    finished: dict[int, OutputID | None] = field(default_factory=dict)
    outputs: list[OutputID] = field(default_factory=list)
    known: dict[OutputID, set[int]] = field(default_factory=dict)
    snapshot: bytes | None = None


class JobHistory:
    """Takes the events of a job in their order, and holds what they add up to.

    An event that names a vertex that isn't initialized, a subtask that the vertex hasn't got or
    another vertex's dataset says nothing, and is passed over.

    >>> history = JobHistory([ExecutionJobVertexInitialized(JobVertexID("0a"), 2)])
    >>> history.apply(ExecutionVertexFinished(JobVertexID("0a"), subtask=1, attempt=0))
    >>> history.vertices[JobVertexID("0a")].finished
    {1: None}

    Args:
        events: the first ones.
    """

    def __init__(self, events: Iterable[JobEvent] = ()) -> None:
        self.ended: JobStatus | None = None
        """How the job ended; None while it hasn't."""
        self.vertices: dict[VertexKey, VertexHistory] = {}
        """Those that were initialized, in their order."""
        self._by_id: dict[JobVertexID, VertexHistory] = {}
        for event in events:
            self.apply(event)

    def apply(self, event: JobEvent) -> None:
        """One more thing has happened."""
        if type(event) is ExecutionVertexFinished:
            self._finished(event)
        elif type(event) is ExecutionJobVertexInitialized:
            self.ended = None
            self._initialized(event)
        elif type(event) is ExecutionVertexReset:
            self._reset(event)
        elif type(event) is JobFinished:
            self.vertices.clear()
            self._by_id.clear()
            self.ended = event.status

    def _initialized(self, event: ExecutionJobVertexInitialized) -> None:
        key = event.vertex_id if event.dataset_id is None else event.dataset_id
        vertex = self.vertices.get(key)
        if vertex is None:
            vertex = self.vertices[key] = VertexHistory(
                event.vertex_id, event.dataset_id, event.parallelism, event.split
            )
        else:
            self._initialized_again(vertex, event)
        if event.coordinator_snapshot is not None:
            vertex.snapshot = event.coordinator_snapshot
        self._by_id[event.vertex_id] = vertex
        if event.output is not None:
            vertex.outputs.append(event.output)
            vertex.known.setdefault(event.output, set())

    def _initialized_again(
        self, vertex: VertexHistory, event: ExecutionJobVertexInitialized
    ) -> None:
        vertex.vertex_id = event.vertex_id
        vertex.executions += 1
        same = (vertex.split, vertex.parallelism) == (event.split, event.parallelism)
        if same and event.split:
            return
        vertex.split, vertex.parallelism = event.split, event.parallelism
        # Their subtasks are not the new ones, even where they have the same numbers.
        vertex.finished.clear()
        vertex.outputs.clear()
        vertex.snapshot = None

    def _finished(self, event: ExecutionVertexFinished) -> None:
        vertex = self._by_id.get(event.vertex_id)
        if vertex is None or event.subtask >= vertex.parallelism:
            return
        output = event.output
        if output is not None:
            if output.dataset_id != vertex.dataset_id:
                return
            vertex.known.setdefault(output, set()).discard(event.subtask)
        vertex.finished[event.subtask] = output
        if event.coordinator_snapshot is not None:
            vertex.snapshot = event.coordinator_snapshot

    def _reset(self, event: ExecutionVertexReset) -> None:
        vertex = self._by_id.get(event.vertex_id)
        if vertex is None:
            return
        for subtask in event.subtasks:
            vertex.finished.pop(subtask, None)
        for void in vertex.known.values():
            void.update(event.subtasks)

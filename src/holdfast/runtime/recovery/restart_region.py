"""Which vertices have to run so that the unfinished sinks can. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.runtime.recovery.instructions import ScheduleVertex
from holdfast.runtime.recovery.recovered_job import RecoveredJob


@dataclass(frozen=True, slots=True)
class PlannedVertex:
    """A vertex of the job as this start has planned it.

    Attributes:
        vertex_id: the vertex, as this start calls it.
        dataset_id: the dataset that it produces; None for one that leaves nothing behind.
        parallelism: how many subtasks it would have; None where that isn't known yet.
        split: how they would split the data; empty where that is not fixed.
        inputs: the vertices whose datasets it reads, all of each.
    """

    vertex_id: JobVertexID
    dataset_id: IntermediateDataSetID | None = None
    parallelism: int | None = None
    split: str = ""
    inputs: tuple[JobVertexID, ...] = ()


def restart_region(
    graph: Sequence[PlannedVertex], recovered: RecoveredJob
) -> tuple[ScheduleVertex, ...]:
    """What has to run: the sinks that have not finished, and what they need that is not there.

    A vertex of which partitions are missing runs those subtasks alone where the split is fixed and
    the same as before; otherwise all of it runs. One that nothing unfinished needs doesn't run,
    though its partitions may be lost.

    Args:
        graph: the vertices; those that no other reads are the sinks.
        recovered: how far an earlier start got.

    Returns:
        for each vertex that has to run which subtasks, in an order in which each comes after all
        that it reads.

    Raises:
        ValueError: when an input is not in the graph, or vertices read each other in a circle.

    Source: FLIP-383, "The Whole Workflow of Job Recovery", step 4.

    >>> source = PlannedVertex(JobVertexID("0a"), IntermediateDataSetID("0d" * 32))
    >>> sink = PlannedVertex(JobVertexID("0b"), inputs=(source.vertex_id,))
    >>> [str(each.vertex_id) for each in restart_region([source, sink], RecoveredJob({}))]
    ['0a', '0b']
    """
    by_id = {vertex.vertex_id: vertex for vertex in graph}
    read = {source for vertex in graph for source in vertex.inputs}
    unknown = read - by_id.keys()
    if unknown:
        raise ValueError(f"vertices are read that are not in the graph: {sorted(unknown)}")
    scheduled: dict[JobVertexID, ScheduleVertex] = {}
    # Each is seen twice: before its inputs, and again when they have been scheduled.
    waiting = [vertex.vertex_id for vertex in reversed(graph) if vertex.vertex_id not in read]
    if graph and not waiting:
        raise ValueError("vertices read each other in a circle: expected at least one sink")
    opened: set[JobVertexID] = set()
    while waiting:
        vertex = by_id[waiting[-1]]
        subtasks = subtasks_to_run(vertex, recovered)
        if vertex.vertex_id in scheduled or subtasks == ():
            waiting.pop()
        elif vertex.vertex_id in opened:
            scheduled[vertex.vertex_id] = ScheduleVertex(vertex.vertex_id, subtasks)
            waiting.pop()
        else:
            opened.add(vertex.vertex_id)
            inputs = [each for each in vertex.inputs if each not in scheduled]
            if any(each in opened for each in inputs):
                raise ValueError(f"vertices read each other in a circle, {vertex.vertex_id} too")
            waiting += reversed(inputs)
    return tuple(scheduled.values())


def subtasks_to_run(vertex: PlannedVertex, recovered: RecoveredJob) -> tuple[int, ...] | None:
    """The subtasks of a vertex whose partitions are not there.

    Args:
        vertex: as this start has planned it.
        recovered: how far an earlier start got.

    Returns:
        those; none when it has finished. None: all, however many there will be.
    """
    key = vertex.vertex_id if vertex.dataset_id is None else vertex.dataset_id
    known = recovered.vertices.get(key)
    if known is None:
        return None
    same = (known.split, known.parallelism) == (vertex.split, vertex.parallelism)
    # All rows of a dataset are there however they are split; what leaves none is told by its split.
    if known.is_finished and (same or vertex.dataset_id is not None):
        return ()
    return known.missing if same and vertex.split and known.finished else None

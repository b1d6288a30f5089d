"""How far a job got."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from holdfast.highavailability.job_record import JobRecord


@dataclass(frozen=True, slots=True)
class Progress:
    """What is done of a job.

    Attributes:
        vertices_done: how many of its vertices are done.
        vertices: of how many.
        partitions_done: how many partitions are there.
        partitions: of how many; None while that isn't decided for each vertex.
    """

    vertices_done: int
    vertices: int
    partitions_done: int
    partitions: int | None

    @classmethod
    def of(cls, record: JobRecord | None) -> Self:
        """What a record says; nothing where there is none."""
        vertices = () if record is None else tuple(record.vertices.values())
        decided = [vertex.all for vertex in vertices if vertex.all is not None]
        return cls(
            vertices_done=sum(vertex.finished for vertex in vertices),
            vertices=len(vertices),
            partitions_done=sum(vertex.done for vertex in vertices),
            partitions=sum(decided) if len(decided) == len(vertices) else None,
        )

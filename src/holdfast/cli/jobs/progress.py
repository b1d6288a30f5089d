"""How far a job got."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.highavailability.job_record import JobRecord
from holdfast.taskexecutor.recovery.shuffle_files import kept_map_tasks

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class Progress:
    """What is done of a job.

    Attributes:
        vertices_done: how many of its vertices are done.
        vertices: of how many.
        partitions_done: how many partitions are there.
        partitions: of how many; None while that isn't decided for each vertex.
        map_tasks_done: how many map tasks of its shuffles are done, whose output is kept; None
            where none is, or that can't be told from here.
    """

    vertices_done: int
    vertices: int
    partitions_done: int
    partitions: int | None
    map_tasks_done: int | None = None

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
            map_tasks_done=None if record is None else _map_tasks_done(record),
        )


def _map_tasks_done(record: JobRecord) -> int | None:
    if record.shuffles is None or record.driver.host != socket.gethostname():
        return None
    try:
        return kept_map_tasks(Path(record.shuffles))
    except OSError:
        return None

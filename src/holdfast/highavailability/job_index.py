"""The jobs of a storage directory, looked at again only where something has changed."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from holdfast.highavailability.job_directory import JobDirectory
from holdfast.highavailability.job_listing import JobState, KnownJob, known_job

if TYPE_CHECKING:
    from typing_extensions import Self

_FRESH_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class JobSummary:
    """What a list tells of a job.

    Attributes:
        id: 32 hexadecimal digits.
        state: what becomes of it.
        name: what people see; None where its record is damaged.
        status: how it has ended; None while it hasn't.
        begun: when the first start of it was, in seconds since 1970; 0 where that isn't known.
        started: when the newest one was, likewise.
        starts: how many it had.
        driver: the process of the newest one, for people.
        done: how many partitions are there.
        all: of how many; None while that isn't decided for each vertex.
    """

    id: str
    state: JobState
    name: str | None
    status: str | None
    begun: float
    started: float
    starts: int
    driver: str | None
    done: int
    all: int | None

    @classmethod
    def of(cls, job: KnownJob) -> Self:
        """That of a job."""
        record = job.record
        if record is None:
            return cls(job.job_id.hex, job.state, None, None, 0.0, 0.0, 0, None, 0, None)
        decided = [vertex.all for vertex in record.vertices.values()]
        return cls(
            job.job_id.hex,
            job.state,
            record.name,
            None if record.job_status is None else record.job_status.value.lower(),
            record.begun.timestamp(),
            record.started.timestamp(),
            record.starts,
            f"{record.driver.pid} on {record.driver.host}",
            sum(vertex.done for vertex in record.vertices.values()),
            None if None in decided else sum(each or 0 for each in decided),
        )


class JobIndex:
    """Lists jobs quickly, also very many. Safe for use by several threads.

    Args:
        root: the storage directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = RLock()
        self._known: dict[str, tuple[tuple[int, ...], JobSummary]] = {}
        self._looked = -_FRESH_SECONDS

    def jobs(self) -> list[JobSummary]:
        """All jobs, the last one that was begun first; none where there is no directory yet.

        Raises:
            OSError: when it can't be listed.
        """
        with self._lock:
            if time.monotonic() - self._looked >= _FRESH_SECONDS:
                self._look()
                self._looked = time.monotonic()
            jobs = [job for _, job in self._known.values()]
        return sorted(jobs, key=lambda job: (job.begun, job.id), reverse=True)

    def job(self, prefix: str) -> KnownJob | None:
        """The job whose id begins so; None where there is none, or are several.

        Args:
            prefix: of 32 hexadecimal digits.

        Raises:
            OSError: when the directory can't be listed.
        """
        self.jobs()
        with self._lock:
            found = [name for name, (_, job) in self._known.items() if job.id.startswith(prefix)]
        return known_job(JobDirectory(self.root / found[0])) if len(found) == 1 else None

    def _look(self) -> None:
        try:
            directories = JobDirectory.all(self.root)
        except FileNotFoundError:
            directories = []
        known = {}
        for directory in directories:
            name = directory.path.name
            signature = _signature(directory)
            before = self._known.get(name)
            # Whether a driver lives is written nowhere.
            if before and before[0] == signature and before[1].state is JobState.ENDED:
                known[name] = before
                continue
            job = known_job(directory)
            if job is not None:
                known[name] = (signature, JobSummary.of(job))
        self._known = known


def _signature(directory: JobDirectory) -> tuple[int, ...]:
    """Another one once a file of the job has come or gone."""
    found = []
    for path in (directory.path, directory.epochs):
        with suppress(OSError):
            found.append(os.stat(path).st_mtime_ns)
    return tuple(found)

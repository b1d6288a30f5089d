"""The jobs that are recorded under a storage directory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from holdfast.highavailability.job_directory import JobDirectory
from holdfast.highavailability.job_record import JobRecord, RecordStatus
from holdfast.ids import JobID


class JobState(Enum):
    """What becomes of a job when its program is started again."""

    RUNNING = "running"
    # Its driver is gone, and has left something to go on with.
    RECOVERABLE = "recoverable"
    # It stays recorded until its program ends, lest it is run a second time.
    ENDED = "ended"
    # What is recorded of it can't be read: it starts anew.
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job that is recorded.

    Attributes:
        job_id: its id.
        state: what becomes of it.
        driven: whether the driver of its newest start lives.
        epoch: of its newest start.
        record: what that start, or the last one that got so far, has recorded; None when damaged.
        directory: where.
    """

    job_id: JobID
    state: JobState
    driven: bool
    epoch: int
    record: JobRecord | None
    directory: Path


def known_jobs(root: Path) -> tuple[KnownJob, ...]:
    """All jobs under a storage directory. Changes nothing there.

    Args:
        root: the storage directory.

    Returns:
        them, the one that was begun first first, damaged ones last.

    Raises:
        OSError: when it can't be listed.
    """
    found = (known_job(directory) for directory in JobDirectory.all(root))
    return tuple(sorted((job for job in found if job is not None), key=_begun))


def known_job(directory: JobDirectory) -> KnownJob | None:
    """What a directory says of its job; None when it says nothing, as one that is being removed."""
    epoch, driven, record, damaged = 0, False, None, False
    try:
        newest = directory.newest_epoch()
        # A start is held once it is recorded: read in this order, one that is held has its record.
        is_held = directory.is_driven(newest)
        record = directory.record()
        epoch, driven = newest, is_held
    except (OSError, ValueError):
        damaged = True
    if record is None and not (damaged and directory.path.exists()):
        return None
    if record is not None and record.epoch > epoch:
        epoch, driven = record.epoch, directory.is_driven(record.epoch)
    if record is None:
        state = JobState.DAMAGED
    elif record.status is RecordStatus.ENDED:
        state = JobState.ENDED
    else:
        # One whose newest start has not recorded itself yet has somebody to drive it.
        state = JobState.RUNNING if driven else JobState.RECOVERABLE
    job_id = directory.job_id if record is None else record.id
    return KnownJob(job_id, state, driven, epoch, record, directory.path)


def _begun(job: KnownJob) -> tuple[bool, float, str]:
    begun = None if job.record is None else job.record.begun.timestamp()
    return begun is None, begun or 0.0, job.job_id.hex

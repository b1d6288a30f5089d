"""Which start of a job wants to have what earlier starts of it have left."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.ids import ApplicationID, JobID, application_of_start

EPOCH_LIMIT = 1 << 63


@dataclass(frozen=True, slots=True)
class RecoveryClaim:
    """A start of a job: of two, the one with the higher epoch is the newer one.

    Attributes:
        job_id: the job.
        epoch: the number that this start has taken, from one.

    Raises:
        ValueError: when the epoch is below one, or has more than 63 bits.

    Source: FLIP-383 presumes Flink's leader sessions, which epochs stand for.

    >>> RecoveryClaim(JobID("00ff"), 2).application == application_of_start(JobID("00ff"), 2)
    True
    """

    job_id: JobID
    epoch: int

    def __post_init__(self) -> None:
        if not 1 <= self.epoch < EPOCH_LIMIT:
            raise ValueError(f"an epoch is from 1 below 2^63, got {self.epoch}")

    @property
    def application(self) -> ApplicationID:
        """The application that this start keeps its partitions under."""
        return application_of_start(self.job_id, self.epoch)

"""What a sink learns about the start of the job that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from holdfast.ids import JobID

__all__ = ["SinkJournal", "SinkStart"]


class SinkJournal(Protocol):
    """A short text that the job's storage directory keeps for its sinks, over all starts."""

    def read(self) -> str:
        """What was written last; empty where nothing was."""

    def write(self, text: str) -> None:
        """Replaces the text, atomically.

        Args:
            text: any.

        Raises:
            OSError: it can't be written.
        """


@dataclass(frozen=True, slots=True)
class SinkStart:
    """A start of a job, as its sinks see it.

    Source: FLIP-383, "JobMaster failover"; an epoch is what Flink calls a fencing token.

    Attributes:
        job_id: the job, the same over all of its starts.
        epoch: of this start, above those of all earlier ones.
        journal: what the sinks of the job remember; gone when the job is.
    """

    job_id: JobID
    epoch: int
    journal: SinkJournal

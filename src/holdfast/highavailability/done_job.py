"""A job that a run of a program has done."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.highavailability.job_record import JobRecord


@dataclass(frozen=True, slots=True)
class DoneJob:
    """A job that a run of a program has done, which has not ended yet.

    Attributes:
        record: the job's, with its sources.
        journal: the text of its sinks' journal.
    """

    record: JobRecord
    journal: str

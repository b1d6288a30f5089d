"""All that a run of a program writes is of the same inputs, over all of its starts."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

from holdfast.errors import MixedInputsError
from holdfast.highavailability.done_job import DoneJob
from holdfast.highavailability.job_record import JobRecord
from holdfast.sinks.taken_back import can_be_taken_back, targets
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.recovery.source_snapshot import SourceListing, SourcesChanged, SourceSnapshots

logger = logging.getLogger(__name__)


class RunInputs:
    """Decides what becomes of a run that was killed, and whose inputs have changed since.

    Either what it has done is done again, from the inputs as they are now, or all that is left to
    do reads the files that the run has read so far. Which one is decided once. Safe for use by
    several threads.

    Args:
        snapshots: takes and restores what plans read.
        done: gives the jobs with a sink that the run has done, this start's included.
    """

    def __init__(self, snapshots: SourceSnapshots, done: Callable[[], Sequence[DoneJob]]) -> None:
        self._snapshots = snapshots
        self._done = done
        self._again: bool | None = None
        self._first: list[SourceListing] = []
        self._lock = threading.RLock()

    def change(self, query: Query, record: JobRecord) -> str | None:
        """What has become of a job's inputs since it was recorded; None where they are the same.

        What the run itself has written since counts as the same.

        Args:
            query: the job's, as it is listed now.
            record: the job's.
        """
        if record.sources is None:
            return None
        own = _written_since(record.begun, self._done())
        return self._snapshots.change(query, record.sources, lambda path: _is_below(path, own))

    def does_again(self) -> bool:
        """Whether what the run has done is done again, where its inputs have changed.

        So it is where everything can be taken back that it has written. Otherwise what is left
        reads what was read before.
        """
        with self._lock:
            if self._again is None:
                done = self._done()
                self._again = all(_can_be_done_again(each, done) for each in done)
                if not self._again:
                    self._keep_first()
            return self._again

    def is_done_again(self) -> bool:
        """Whether that has been decided already."""
        with self._lock:
            return self._again is True

    def keep_first(self, record: JobRecord) -> None:
        """A job goes on with the files that it had read, and so does all that comes after it.

        Args:
            record: the job's.
        """
        with self._lock:
            self._again = False
            self._keep_first()
            self._keep(record, ())

    def over_first(self, query: Query, name: str) -> Query:
        """A job that begins, over the files that the run has read before, where it goes on so.

        Args:
            query: the job's, as it is listed now.
            name: of the job.

        Raises:
            MixedInputsError: when these files aren't there any more.
        """
        with self._lock:
            first = tuple(self._first)
        if not first:
            return query
        restored = self._snapshots.over(query, first)
        if isinstance(restored, SourcesChanged):
            raise MixedInputsError(name, restored.reason)
        return restored

    def _keep_first(self) -> None:
        done = self._done()
        for each in done:
            self._keep(each.record, _written_since(datetime.min, done))

    def _keep(self, record: JobRecord, own: Sequence[Path]) -> None:
        for listing in self._snapshots.listings(record.sources):
            if not any(_is_below(path, own) for path, *_ in listing.files):
                self._first.append(listing)


def _can_be_done_again(job: DoneJob, done: Sequence[DoneJob]) -> bool:
    try:
        if not can_be_taken_back(job.journal):
            return False
    except OSError as error:
        logger.warning("can't inspect the output of job %s: %s", job.record.job_id, error)
        return False
    if job.record.sources is None:
        return False
    # Done again, it would read what it has led to itself.
    own = _written_since(job.record.begun, done)
    listings = SourceSnapshots.listings(job.record.sources)
    return not any(_is_below(path, own) for each in listings for path, *_ in each.files)


def _written_since(begun: datetime, done: Sequence[DoneJob]) -> tuple[Path, ...]:
    """Where jobs have written that the program had begun at a time or later."""
    return tuple(
        target
        for each in done
        if begun == datetime.min or each.record.begun >= begun
        for target in targets(each.journal)
    )


def _is_below(path: str, directories: Sequence[Path]) -> bool:
    """Whether a file, as Hadoop writes its path, is in one of these."""
    plain = os.path.normpath("/" + path.removeprefix("file:").lstrip("/"))
    return any(
        Path(each).is_relative_to(directory)
        for each in (plain, unquote(plain))
        for directory in directories
    )

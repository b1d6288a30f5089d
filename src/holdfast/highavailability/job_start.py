"""One start of a job: its epoch, and what it records for the next one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from holdfast.errors import StaleEpochError, StorageError
from holdfast.eventstore.events import JobStatus
from holdfast.highavailability.driver_lock import DriverLock
from holdfast.highavailability.epochs import epoch_file
from holdfast.highavailability.job_directory import (
    RECORD,
    SOURCES,
    JobDirectory,
)
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_record import JobRecord, RecordStatus, VertexProgress
from holdfast.highavailability.journal import Journal
from holdfast.ids import JobID

logger = logging.getLogger(__name__)


class Starts(Protocol):
    """Whoever made a start, and makes and ends the others of this program."""

    def next_epoch(self, directory: JobDirectory) -> int:
        """Claims an epoch above all others in a job's directory; OSError when it can't."""

    def newest_anywhere(self) -> int:
        """The newest epoch of all jobs; OSError when that can't be told."""

    def has_live_run(self) -> bool:
        """Whether no other run of the program has taken over; OSError when that can't be told."""

    def forget(self, start: JobStart) -> None:
        """This program has nothing to do with a start any more."""


class JobStart:
    """A start of a job, made by `HighAvailabilityStorage.begin`. Safe for use by several threads.

    Where the disk fails, the job goes on without being recorded, with one warning.

    Attributes:
        job_id: the job's id, the same at each of its starts.
        previous: what an earlier start left; None for a job that begins.
        already_done: whether an earlier run of the program has ended this very job, and has not
            ended itself as it should: what the job writes is written. For jobs with a sink alone.
        changed: whether the program is another one than the one that left `previous`.
        journal: a small text for the job's sink.

    Args:
        directory: the job's.
        record: what is recorded of it by now.
        previous: see above.
        already_done: see above.
        changed: see above.
        starts: whoever made it.
    """

    def __init__(
        self,
        directory: JobDirectory,
        record: JobRecord,
        *,
        previous: JobRecord | None,
        already_done: bool,
        changed: bool,
        starts: Starts,
    ) -> None:
        self.job_id: JobID = record.id
        self.previous = previous
        self.already_done = already_done
        self.changed = changed
        self.journal = Journal(directory, self._checked_epoch)
        self._directory = directory
        self._record = record
        self._starts = starts
        self._lock = threading.RLock()
        self._alive = DriverLock(epoch_file(directory.epochs, record.epoch))
        self._recording = True
        self._released = False

    @property
    def epoch(self) -> int:
        """The number of this start: above those of all earlier ones, of this job and any other."""
        return self._record.epoch

    @property
    def record(self) -> JobRecord:
        """What is recorded of the job by now."""
        return self._record

    @property
    def identity(self) -> JobIdentity:
        """What the job is known by."""
        return self._record.identity

    @property
    def directory(self) -> Path:
        """The job's directory."""
        return self._directory.path

    @property
    def events_directory(self) -> Path:
        """Where the job's events are recorded. It need not be there."""
        return self._directory.events

    @property
    def ended(self) -> bool:
        """Whether it is recorded that the job has ended."""
        return self._record.status is RecordStatus.ENDED

    def check(self) -> None:
        """Makes sure that no newer start of the job has taken over.

        Raises:
            StaleEpochError: when one has, or the job's directory is gone, as it is after its end.
            StorageError: when that can't be told, since the storage directory can't be read.
        """
        try:
            if self._directory.newest_epoch() == self.epoch and self._starts.has_live_run():
                return
            raise self._stale()
        except OSError as error:
            raise StorageError(
                str(self._directory.path),
                f"can't determine whether another driver has taken over the job: {error}",
            ) from error

    def take_fresh_epoch(self) -> int:
        """Starts the job anew: nothing that was left of it counts any more.

        Returns:
            the new epoch, which `epoch` gives from now on.

        Raises:
            StaleEpochError: when a newer start has taken over before.
            StorageError: when none can be taken.
        """
        with self._lock:
            self.check()
            try:
                epoch = self._starts.next_epoch(self._directory)
                if not self._released and not self._directory.release(self.epoch):
                    self._directory.release(epoch)
                    raise self._stale()
                self._directory.fence(epoch)
                self._directory.forget_events(epoch)
            except OSError as error:
                raise StorageError(
                    str(self._directory.path), f"can't rerun the job from scratch: {error}"
                ) from error
            before, self._alive = self._alive, DriverLock(epoch_file(self._directory.epochs, epoch))
            before.release()
            self._released = False
            self.previous, self.already_done = None, False
            anew: dict[str, object] = {
                "status": RecordStatus.RUNNING,
                "job_status": None,
                "ended": None,
                "epoch": epoch,
                "vertices": {},
                "shuffles": None,
                "dealing": None,
                "sources": None,
                "sources_epoch": None,
            }
            self._record = self._record.model_copy(update=anew)
            self._write(self._record, durably=True)
            self._directory.forget(RECORD, SOURCES, before=epoch)
            return epoch

    def update(
        self,
        *,
        identity: JobIdentity | None = None,
        task_executors: Collection[str] | None = None,
        vertices: Mapping[str, VertexProgress] | None = None,
        shuffles: Path | None = None,
        dealing: Mapping[str, str] | None = None,
        sources: JsonValue = None,
    ) -> bool:
        """Records more about the job. What is None stays as it is.

        Args:
            identity: what it is known by, as when it has been cut into vertices.
            task_executors: the names of all that may hold partitions of it.
            vertices: how far each got, by the hexadecimal id of its dataset; all of them.
            shuffles: where it is kept what the map tasks of the job's shuffles write.
            dealing: the settings by which the job's data is dealt to tasks.
            sources: what the job reads, in a form of whoever gives it.

        Returns:
            whether it is on disk; False when the disk failed, now or before.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        given = {
            "identity": identity,
            "task_executors": None if task_executors is None else tuple(sorted(task_executors)),
            "vertices": None if vertices is None else dict(vertices),
            "shuffles": None if shuffles is None else str(shuffles),
            "dealing": None if dealing is None else dict(dealing),
            "sources": sources,
        }
        changes = {name: value for name, value in given.items() if value is not None}
        with self._lock:
            return self._write(self._record.model_copy(update=changes), durably=False)

    def end(self, status: JobStatus, keep: bool) -> bool:
        """The job has ended. That counts in one step, which fails once a newer start took over.

        Args:
            status: how.
            keep: whether to keep that recorded until the program ends, so that the job is not done
                a second time; else its directory goes.

        Returns:
            whether every later start will know; False when the disk failed, now or before.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        with self._lock:
            ended = {
                "status": RecordStatus.ENDED,
                "job_status": status,
                "ended": datetime.now(timezone.utc),
                # They may be large, and a program may end many jobs. On disk they stay.
                "sources": None,
            }
            # Whoever takes over now finds this record, or what the sink has left: either will do.
            recorded = self._write(self._record.model_copy(update=ended), durably=keep)
            try:
                if not self._released and not self._directory.release(self.epoch):
                    raise self._stale()
            except OSError as error:
                self._note(error)
                recorded = False
            self._released = True
            if not keep:
                self.remove()
            return recorded

    def remove(self) -> None:
        """Removes what the job's starts up to this one have recorded, and lets go of it."""
        with self._lock:
            try:
                # A newer start needs what is there.
                if self._released or self._directory.release(self.epoch):
                    self._directory.remove(self.epoch)
            except OSError as error:
                logger.warning(
                    "job %s has ended, but its record can't be removed: %s", self.job_id, error
                )
            self.let_go()

    def let_go(self) -> None:
        """This program has nothing to do with the job any more, which stays as it is recorded."""
        self._alive.release()
        self._starts.forget(self)

    def _stale(self) -> StaleEpochError:
        newest = self._directory.newest_epoch()
        if newest <= self.epoch:
            # Gone: whoever did that had an epoch as well, which is no longer known.
            newest = self._starts.newest_anywhere()
        return self._directory.stale(self.epoch, newest)

    def _checked_epoch(self) -> int:
        self.check()
        return self.epoch

    def _write(self, record: JobRecord, *, durably: bool) -> bool:
        """Keeps a record in memory, and writes it where nothing has failed before."""
        before = self._record
        self._keep_in_memory(record)
        if not self._recording:
            return False
        try:
            if record.sources is not None and record.sources is not before.sources:
                self._directory.write_sources(record.epoch, record.sources)
                self._record = record = record.model_copy(update={"sources_epoch": record.epoch})
            self._directory.write_record(record, durably=durably)
        except OSError as error:
            self._note(error)
        return self._recording

    def _keep_in_memory(self, record: JobRecord) -> None:
        """Keeps a record in memory, unless a newer start has taken over."""
        try:
            self.check()
        except StorageError as error:
            self._note(error)
        self._record = record

    def _note(self, error: Exception) -> None:
        if self._recording:
            logger.warning(
                "job %s continues unrecorded and can't be recovered: %s",
                self.job_id,
                error,
            )
        self._recording = False

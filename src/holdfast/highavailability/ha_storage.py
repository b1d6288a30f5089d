"""The directory under which all jobs are recorded that may outlive their drivers."""

from __future__ import annotations

import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

from holdfast.errors import StaleEpochError, StorageError
from holdfast.eventstore.events import JobStatus
from holdfast.files.durable_files import (
    forget_unfinished,
    sync_directory,
    write_durably,
)
from holdfast.files.private_directory import make_private
from holdfast.files.secret_key import SEAL_KEY, secret_key
from holdfast.highavailability.done_job import DoneJob
from holdfast.highavailability.driver_lock import one_at_a_time
from holdfast.highavailability.epochs import newest_epoch, take_epoch
from holdfast.highavailability.job_directory import (
    ASIDE,
    JOURNAL,
    RECORD,
    SOURCES,
    JobDirectory,
    why,
)
from holdfast.highavailability.job_identity import JobIdentity, next_job_id
from holdfast.highavailability.job_listing import JobState, KnownJob, known_jobs
from holdfast.highavailability.job_record import Driver, JobRecord, RecordStatus
from holdfast.highavailability.job_start import JobStart
from holdfast.highavailability.program_run import (
    THIS_PROCESS,
    ProgramRun,
    RunTakenOver,
    forget_runs,
)
from holdfast.ids import JobID

_EPOCHS = "epochs"
_LOCK = "lock"
_TRIED = ".tried"
_PATIENCE_SECONDS = 2.0
_ATTEMPTS = 20
_ATTEMPTS_AT_EPOCHS = 3
_UNFINISHED_SECONDS = 24 * 60 * 60
FORGOTTEN_AFTER = timedelta(days=30)
"""How long a job stays recorded whose driver was killed, and whose program nobody starts again."""

logger = logging.getLogger(__name__)


class HighAvailabilityStorage:
    """What one program records of its jobs. Safe for use by several threads.

    Args:
        root: `high-availability.storageDir`; it is made, readable by its owner alone.
        process: stands for the process of the program.

    Raises:
        StorageError: when it can't be used, or others can write to it.

    Source: FLIP-383, "The Whole Workflow of Job Recovery"; Flink's HighAvailabilityServices.

    >>> import tempfile
    >>> storage = HighAvailabilityStorage(Path(tempfile.mkdtemp()))
    >>> start = storage.begin(JobIdentity(digest="00ff" * 16, action="collect"), "an example")
    >>> start.epoch, start.previous, [job.state.value for job in storage.jobs()]
    (1, None, ['running'])
    >>> start.end(JobStatus.FINISHED, keep=False)
    True
    >>> storage.jobs()
    ()
    >>> storage.close()
    True
    """

    def __init__(self, root: Path, process: str = THIS_PROCESS) -> None:
        self.root = root
        self._run = ProgramRun(root, process)
        self._epoch = 0
        self._starts: dict[int, JobStart] = {}
        self._lock = threading.RLock()
        try:
            _make_usable(root)
            with one_at_a_time(root / _LOCK, _PATIENCE_SECONDS):
                _remove_left_over(root)
                forget_unfinished(root / ASIDE, time.time() - _UNFINISHED_SECONDS)
                records = [job.record for job in known_jobs(root) if job.record is not None]
                known = {each.program for each in records if each.program is not None}
                forget_runs(root, known, FORGOTTEN_AFTER)
            self._forget_old_jobs()
        except OSError as error:
            raise StorageError(
                str(root), f"can't be used to record jobs: {error.strerror or error}"
            ) from error

    def begin(self, identity: JobIdentity, name: str = "") -> JobStart:
        """Begins a job, or goes on with what an earlier start of it has left.

        An earlier start that still lives is taken over from, and refused from now on.

        Args:
            identity: what the job is known by.
            name: what people see; what it is known by when empty.

        Raises:
            StaleEpochError: when another run of this program has taken over from this one.
            StorageError: when it can't be recorded.
        """
        try:
            with one_at_a_time(self.root / _LOCK, _PATIENCE_SECONDS):
                start = self._begin(identity, name)
        except RunTakenOver:
            raise self._overtaken() from None
        except OSError as error:
            raise StorageError(str(self.root), f"the job can't be recorded: {error}") from error
        with self._lock:
            self._starts[id(start)] = start
        return start

    def seal_key(self) -> bytes:
        """The key that kept records of streams are sealed with: the same for every program here.

        Raises:
            StorageError: when it can't be read or made.
        """
        try:
            return secret_key(self.root / SEAL_KEY)
        except OSError as error:
            raise StorageError(str(self.root), f"the seal key can't be used: {error}") from error

    def jobs(self) -> tuple[KnownJob, ...]:
        """All jobs that are recorded, of all programs.

        Raises:
            StorageError: when they can't be listed.
        """
        try:
            return known_jobs(self.root)
        except OSError as error:
            raise StorageError(str(self.root), f"can't be listed: {error}") from error

    def done_jobs(self) -> tuple[DoneJob, ...]:
        """The jobs with a sink that this run of the program, and those that it goes on with, did.

        Raises:
            StorageError: when they can't be listed.
        """
        try:
            runs = self._run.tokens()
            found = []
            for job in known_jobs(self.root):
                record = job.record
                is_done = record is not None and record.job_status is JobStatus.FINISHED
                if record is None or not is_done or record.program not in runs:
                    continue
                directory = JobDirectory(job.directory)
                sources = record.model_copy(update={"sources": directory.sources(record)})
                if record.identity.sink is not None:
                    found.append(DoneJob(sources, directory.journal()))
            return tuple(found)
        except OSError as error:
            raise StorageError(str(self.root), f"can't be listed: {error}") from error

    def close(self, *, interrupted: bool = False) -> bool:
        """The program ends: its jobs that have ended need not be known any more.

        Those that have not ended can be gone on with. Does nothing the second time.

        Args:
            interrupted: it ends in the middle, so that its next start goes on with it: what it has
                done it doesn't do again.

        Returns:
            whether the program has ended, and no other start goes on with it.
        """
        with self._lock:
            starts = tuple(self._starts.values())
        if not interrupted:
            try:
                interrupted = not self._run.end()
                if interrupted:
                    logger.warning(
                        "%s: another driver has taken over this program's jobs and will end them",
                        self.root,
                    )
            except OSError as error:
                logger.warning("%s: can't record the end of the program: %s", self.root, error)
                interrupted = True
        for start in starts:
            if start.ended and not interrupted:
                start.remove()
            else:
                start.let_go()
        return not interrupted

    def next_epoch(self, directory: JobDirectory) -> int:
        """Claims an epoch above all others in a job's directory, and any other's.

        Raises:
            StaleEpochError: when another start has claimed a higher one meanwhile.
            OSError: when the disk doesn't take it.
        """
        for _ in range(_ATTEMPTS_AT_EPOCHS):
            # That no start of any job has had, so that none comes back when a directory has gone.
            epoch = take_epoch(self.root / _EPOCHS, above=directory.newest_epoch())
            is_mine = directory.claim(epoch)
            newest = directory.newest_epoch()
            # Else a newer start of this job may have come and gone before this one was to be seen.
            if is_mine and newest == epoch == self.newest_anywhere():
                return epoch
            if is_mine:
                directory.release(epoch)
            if newest != epoch:
                # Whoever was faster goes on: were both to try again, neither might come to an end.
                break
        raise directory.stale(epoch, newest)

    def has_live_run(self) -> bool:
        """Whether no other run of the program has taken over from this one.

        Raises:
            OSError: when that can't be told.
        """
        return self._run.is_live()

    def newest_anywhere(self) -> int:
        """The newest epoch of all jobs.

        Raises:
            OSError: when that can't be told.
        """
        return newest_epoch(self.root / _EPOCHS)

    def forget(self, start: JobStart) -> None:
        """This program has nothing to do with a start any more."""
        with self._lock:
            self._starts.pop(id(start), None)

    def _begin(self, identity: JobIdentity, name: str) -> JobStart:
        if not self._run.begin():
            raise self._overtaken()
        directory = JobDirectory.of(self.root, identity.job_id)
        for _ in range(_ATTEMPTS):
            # A driver that ends the job meanwhile removes it.
            with suppress(FileNotFoundError):
                return self._begin_in(directory, identity, name)
        raise FileNotFoundError(f"{directory.path} is repeatedly removed by another process")

    def _overtaken(self) -> StaleEpochError:
        newest = max(self.newest_anywhere(), self._epoch + 1)
        return StaleEpochError(
            f"starting a job of this program in {self.root}", self._epoch, newest
        )

    def _begin_in(self, directory: JobDirectory, identity: JobIdentity, name: str) -> JobStart:
        job_id = self._prepared(directory, identity)
        epoch = self._epoch = self.next_epoch(directory)
        # Only then: what has ended before is on record, and nothing else ends any more.
        directory.fence(epoch)
        left = _left_by_an_earlier_start(directory)
        if left is not None and left.epoch > epoch:
            raise directory.stale(epoch, left.epoch)
        previous, already_done, changed = self._judged(left, identity)
        if previous is None:
            directory.forget_events(epoch)
            if left is not None:
                # The sink of another run has nothing to say of this one. Before the record counts.
                directory.forget(JOURNAL, before=epoch)
        if left is not None:
            job_id = left.id
        record = self._record(job_id, identity, name, epoch, previous, already_done)
        directory.write_record(record)
        newest = directory.newest_epoch()
        if newest != epoch:
            # Nobody reads this record, so that nobody would know what was taken over.
            raise directory.stale(epoch, newest)
        directory.forget(RECORD, *((JOURNAL,) if changed else ()), before=epoch)
        if previous is None:
            directory.forget(SOURCES, before=epoch)
        else:
            previous = previous.model_copy(update={"sources": directory.sources(previous)})
            record = record.model_copy(update={"sources": previous.sources})
        return JobStart(
            directory,
            record,
            previous=previous,
            already_done=already_done,
            changed=changed,
            starts=self,
        )

    def _judged(
        self, left: JobRecord | None, identity: JobIdentity
    ) -> tuple[JobRecord | None, bool, bool]:
        """What counts of an earlier start; whether the job is done; whether it has changed."""
        if left is None:
            return None, False, False
        changed = left.identity.job_id != identity.job_id or left.identity.digest != identity.digest
        if left.status is RecordStatus.RUNNING:
            if identity.sink is not None:
                # What that run has written besides is this one's.
                self._run.take_over(left.program)
            return left, False, changed
        already_done = (
            identity.sink is not None
            and not changed
            and left.job_status is JobStatus.FINISHED
            and self._run.take_over(left.program)
        )
        return (left if already_done else None), already_done, False

    def _record(
        self,
        job_id: JobID,
        identity: JobIdentity,
        name: str,
        epoch: int,
        previous: JobRecord | None,
        already_done: bool,
    ) -> JobRecord:
        now = datetime.now(timezone.utc)
        driver = Driver(host=socket.gethostname(), pid=os.getpid())
        shown = name or identity.name or identity.action
        if previous is None:
            return JobRecord(
                job_id=job_id.hex,
                identity=identity,
                name=shown,
                epoch=epoch,
                begun=now,
                started=now,
                driver=driver,
                program=self._run.token,
            )
        # What this start may not live to find out again stays recorded.
        changes: dict[str, object] = {
            "identity": identity,
            "name": shown,
            "epoch": epoch,
            "starts": previous.starts + 1,
            "started": now,
            "driver": driver,
            "program": self._run.token,
        }
        if already_done:
            # It stays ended, should this program be killed as well.
            changes["started"] = previous.started
        return previous.model_copy(update=changes)

    def _prepared(self, directory: JobDirectory, identity: JobIdentity) -> JobID:
        """Makes a job's directory, of what it was before its program changed where that is left.

        Each job has the directory of its identity, so that all of its starts meet there.

        Returns:
            the id of a job that begins there.
        """
        jobs = known_jobs(self.root)
        others = [job for job in jobs if job.directory != directory.path]
        if len(others) == len(jobs):
            left = _left_by_a_changed_program(others, identity)
            if left is not None:
                self._move(JobDirectory(left.directory), directory)
        # One that was moved keeps its id, by which task executors and sinks know it.
        taken = {job.job_id for job in others if job.record is not None}
        job_id = identity.job_id
        while job_id in taken:
            job_id = next_job_id(job_id)
        for path in (directory.path, directory.epochs):
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
        return job_id

    def _move(self, left: JobDirectory, directory: JobDirectory) -> None:
        """Makes a job's directory that of another identity, in one step.

        Raises:
            FileNotFoundError: when somebody else has done so, or it is to be tried again.
        """
        try:
            os.rename(left.path, directory.path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            self._make_way(directory)
            raise FileNotFoundError(f"{directory.path} was not empty") from error
        sync_directory(self.root)

    def _make_way(self, directory: JobDirectory) -> None:
        """Removes a directory to which a start came that has recorded nothing yet."""
        epoch = self.next_epoch(directory)
        directory.fence(epoch)
        if _left_by_an_earlier_start(directory) is None:
            directory.remove(epoch)

    def _forget_old_jobs(self) -> None:
        now = datetime.now(timezone.utc)
        for job in known_jobs(self.root):
            old = job.record is not None and now - job.record.last_change > FORGOTTEN_AFTER
            if old and not job.driven:
                logger.debug(
                    "removed the record of job %s, which was not restarted in time", job.job_id
                )
                JobDirectory(job.directory).remove(job.epoch)


def _left_by_an_earlier_start(directory: JobDirectory) -> JobRecord | None:
    try:
        return directory.record()
    except (OSError, ValueError) as error:
        logger.warning(
            "job %s cannot be resumed, its record in %s is damaged; rerunning from scratch: %s",
            directory.job_id,
            directory.path,
            why(error),
        )
        return None


def _left_by_a_changed_program(
    others: Sequence[KnownJob], identity: JobIdentity
) -> KnownJob | None:
    """What was this very job before its program changed, or before another one took it over."""

    def likeness(job: KnownJob) -> tuple[bool, int, int]:
        return _is_of(job, identity), _shared(job, identity), job.epoch

    abandoned = (
        job
        for job in others
        if job.state is JobState.RECOVERABLE and (_is_of(job, identity) or _shared(job, identity))
    )
    return max(abandoned, key=likeness, default=None)


def _is_of(job: KnownJob, identity: JobIdentity) -> bool:
    return job.record is not None and job.record.identity.job_id == identity.job_id


def _shared(job: KnownJob, identity: JobIdentity) -> int:
    """How many vertices a job that writes to the same sink has in common with another digest's.

    Another job of the same program, which has yet to come, may share as many vertices.
    """
    record = job.record
    if record is None or identity.sink is None:
        return 0
    if (record.identity.action, record.identity.sink) != (identity.action, identity.sink):
        return 0
    return len(record.known_datasets().intersection(identity.vertices))


def _make_usable(root: Path) -> None:
    make_private(root)
    # Found out now rather than in the middle of a job.
    write_durably(root / _TRIED, b"")
    for name in (_EPOCHS, ASIDE):
        (root / name).mkdir(mode=0o700, exist_ok=True)
    sync_directory(root)


def _remove_left_over(root: Path) -> None:
    """Removes what somebody was killed over while removing it, or wrote after it was removed."""
    # Whoever begins makes the directory of epochs first, and takes a higher epoch then.
    newest = newest_epoch(root / _EPOCHS)
    for directory in JobDirectory.all(root):
        if not directory.epochs.exists():
            with suppress(OSError):
                directory.remove(newest)

"""Records the events of a job, and lets go of them when it has ended."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from holdfast.errors import StaleEpochError
from holdfast.eventstore.background_writer import BackgroundWriter
from holdfast.eventstore.event_file import checked_epoch
from holdfast.eventstore.event_file_writer import EventFileWriter
from holdfast.eventstore.events import JobEvent
from holdfast.eventstore.log_position import LogPosition
from holdfast.eventstore.pending_events import PendingEvents
from holdfast.eventstore.recording_state import RecordingState
from holdfast.eventstore.replay import event_files

if TYPE_CHECKING:
    from typing_extensions import Self

WRITE_BUFFER_SIZE = 1 << 20
FLUSH_INTERVAL = timedelta(seconds=1)
FILE_SIZE = 64 << 20
_PENDING_LIMIT = 64 << 20
_BUFFERS_BEHIND = 4
_PATIENCE = timedelta(seconds=10)


class JobEventStore:
    """Records the events of one job, in files of one directory.

    Events are handed over to a thread that writes them: when the buffer is full, when the interval
    is over, and when an event cuts. The job never waits for the disk. Where the disk fails, or is
    more than `pending_limit` bytes behind, recording ends with one warning, and the job goes on.
    What is on disk then is a valid prefix of what happened. Safe for use by several threads.

    Args:
        directory: of this job; it is made when it isn't there.
        epoch: of this start of the job, above those of all earlier starts.
        after: where `replay` found the log to end, and the log goes on from there; or `START`, and
            what an earlier start recorded counts no more.
        write_buffer_size: in bytes; `job-event.store.write-buffer.size`.
        flush_interval: `job-event.store.write-buffer.flush-interval`.
        pending_limit: in bytes: how far the disk may be behind what was handed over. None: 64 MiB,
            or four buffers if that is more.

    Raises:
        StaleEpochError: when this epoch or a newer one has written here before.
        ValueError: when the epoch is below one, or beyond 63 bits.

    Source: FLIP-383, "JobEventStore".

    >>> import tempfile
    >>> from holdfast.eventstore.events import JobFinished, JobStatus
    >>> from holdfast.eventstore.replay import replay
    >>> directory = Path(tempfile.mkdtemp())
    >>> with JobEventStore(directory, epoch=1, after=replay(directory).position) as store:
    ...     store.write_event(JobFinished(JobStatus.FINISHED))
    True
    >>> replay(directory).events
    (JobFinished(status=<JobStatus.FINISHED: 'FINISHED'>),)
    >>> store.clear()
    True
    >>> directory.rmdir()
    """

    def __init__(
        self,
        directory: Path,
        epoch: int,
        after: LogPosition,
        *,
        write_buffer_size: int = WRITE_BUFFER_SIZE,
        flush_interval: timedelta = FLUSH_INTERVAL,
        pending_limit: int | None = None,
    ) -> None:
        self._directory = directory
        self._epoch = checked_epoch(epoch)
        newest = self._newest_epoch()
        if newest >= epoch:
            raise StaleEpochError(self._what, epoch, newest)
        if pending_limit is None:
            pending_limit = max(_PENDING_LIMIT, _BUFFERS_BEHIND * write_buffer_size)
        self._writer = BackgroundWriter(
            PendingEvents(epoch, after, FILE_SIZE),
            EventFileWriter(directory, epoch),
            write_buffer_size,
            flush_interval,
            pending_limit,
            self._what,
        )
        self._removed = False
        self._writer.start()

    @property
    def state(self) -> RecordingState:
        """Whether events are being recorded."""
        return self._writer.state

    def write_event(self, event: JobEvent, cut: bool = False) -> bool:
        """Records an event. Never waits for the disk.

        Args:
            event: the event.
            cut: whether to write it at once, and begin a new file after it, as when a vertex has
                finished.

        Returns:
            whether it will be on disk soon, unless the disk fails; False when recording has ended.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
            ValueError: when an id of the event has more than 255 digits.
        """
        recorded = self._writer.append(event, cut)
        if not recorded:
            self._refuse_stale()
        return recorded

    def flush(self, timeout: timedelta = _PATIENCE) -> bool:
        """Waits until every event so far survives a crash, of the machine too.

        Args:
            timeout: at most so long is waited for the disk.

        Returns:
            whether they all do.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        flushed = self._writer.flush(timeout)
        if not flushed:
            self._refuse_stale()
        return flushed

    def stop(self, timeout: timedelta = _PATIENCE) -> bool:
        """Writes what is waiting, and ends. Later events are not recorded.

        Args:
            timeout: at most so long is waited for the disk.

        Returns:
            whether every event so far is on disk.
        """
        return self._writer.stop(timeout)

    def clear(self, timeout: timedelta = _PATIENCE) -> bool:
        """Stops, and removes the log: the job has ended. A newer start's log is left alone.

        Args:
            timeout: at most so long is waited for the disk, to write and again to remove.

        Returns:
            whether the log is gone. Where it can't be removed it stays, and a JobFinished at its
            end says the rest, if it was recorded.
        """
        self.stop(timeout)
        removal = threading.Thread(target=self._remove, name="job-event-removal", daemon=True)
        removal.start()
        removal.join(timeout.total_seconds())
        return self._removed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _what(self) -> str:
        return f"recording the job's events in {self._directory}"

    def _remove(self) -> None:
        with suppress(OSError):
            names = event_files(self._directory)
            if any(name.epoch > self._epoch for name in names):
                return
            # The oldest first: what is left of a log without its beginning says nothing.
            for path in names.values():
                path.unlink(missing_ok=True)
            self._removed = True

    def _newest_epoch(self) -> int:
        try:
            return max((name.epoch for name in event_files(self._directory)), default=0)
        except OSError:
            # The thread that writes will find it out, and warn.
            return 0

    def _refuse_stale(self) -> None:
        if self._writer.state is RecordingState.FENCED:
            raise StaleEpochError(self._what, self._epoch, self._writer.newest_epoch)

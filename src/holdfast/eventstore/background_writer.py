"""The one thread that waits for the disk, so that the job doesn't."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from datetime import timedelta

from holdfast.errors import StaleEpochError
from holdfast.eventstore.event_file_writer import EventFileWriter
from holdfast.eventstore.events import JobEvent
from holdfast.eventstore.pending_events import FileBlock, PendingEvents
from holdfast.eventstore.recording_state import RecordingState

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Work:
    """What the thread does next: writes, perhaps syncs, and so meets demands to sync."""

    blocks: list[FileBlock]
    sync: bool
    syncs_asked: int


class BackgroundWriter:
    """Takes events from any thread, and writes them in one of its own.

    Args:
        pending: where events wait.
        files: what they are written by.
        buffer_size: how many waiting bytes are written without waiting for the interval.
        flush_interval: after how long at the latest an event is written and synced.
        pending_limit: above how many bytes that the disk hasn't taken recording ends.
        what: what is written and where, for people.
    """

    def __init__(
        self,
        pending: PendingEvents,
        files: EventFileWriter,
        buffer_size: int,
        flush_interval: timedelta,
        pending_limit: int,
        what: str,
    ) -> None:
        self._pending = pending
        self._files = files
        self._buffer_size = buffer_size
        self._interval = flush_interval.total_seconds()
        self._pending_limit = pending_limit
        self._what = what
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._progress = threading.Condition(self._lock)
        self._state = RecordingState.RECORDING
        self._newest_epoch = 0
        # The first file is to be there as soon as can be.
        self._due, self._sync_due = True, True
        self._stopping = False
        self._waiting = False
        self._in_flight = 0
        self._syncs_asked, self._syncs_done = 0, 0
        self._unsynced = False
        self._deadline: float | None = None
        self._has_said_why = threading.Event()
        # A daemon: a disk that hangs doesn't keep the process from ending.
        self._thread = threading.Thread(target=self._run, name="job-event-store", daemon=True)

    def start(self) -> None:
        """Begins to write."""
        self._thread.start()

    @property
    def state(self) -> RecordingState:
        """Whether events are being recorded."""
        return self._state

    @property
    def newest_epoch(self) -> int:
        """The epoch that has taken over; 0 when none has."""
        return self._newest_epoch

    def append(self, event: JobEvent, cut: bool) -> bool:
        """Hands an event over. Never waits for the disk.

        Args:
            event: the event.
            cut: whether to write it at once, and begin a new file after it.

        Returns:
            whether it will be written, unless the disk fails.

        Raises:
            ValueError: when an id of the event has more than 255 digits.
        """
        with self._lock:
            if self._state is not RecordingState.RECORDING or self._stopping:
                return False
            self._pending.append(event)
            if cut:
                self._pending.cut()
            held = len(self._pending)
            over = held + self._in_flight > self._pending_limit
            if over:
                self._end(RecordingState.FAILED)
            elif cut or held >= self._buffer_size:
                self._wake(sync=cut)
            elif self._waiting:
                # It sleeps until there is something to count the interval from.
                self._waiting = False
                self._work.notify()
        if over:
            self._warn(f"more than {self._pending_limit:,} bytes are waiting to be written")
            self._has_said_why.set()
        return not over

    def flush(self, timeout: timedelta) -> bool:
        """Waits until everything handed over so far is on disk and synced.

        Args:
            timeout: at most so long.

        Returns:
            whether it is.
        """
        with self._lock:
            if self._state is not RecordingState.RECORDING:
                return self._state is RecordingState.STOPPED
            self._syncs_asked += 1
            asked = self._syncs_asked
            self._wake(sync=True)
            self._progress.wait_for(
                lambda: self._syncs_done >= asked or self._state is not RecordingState.RECORDING,
                timeout.total_seconds(),
            )
            return self._syncs_done >= asked

    def stop(self, timeout: timedelta) -> bool:
        """Writes what is waiting, and ends the thread.

        Args:
            timeout: at most so long is waited for the disk.

        Returns:
            whether everything that was handed over is on disk.
        """
        with self._lock:
            self._stopping = True
            self._wake(sync=True)
            running = self._state is RecordingState.RECORDING
        if running:
            self._thread.join(timeout.total_seconds())
        else:
            # Whoever has given up may be about to say why.
            self._has_said_why.wait(timeout.total_seconds())
        with self._lock:
            late = self._state is RecordingState.RECORDING
            if late:
                self._end(RecordingState.FAILED)
        if late:
            self._warn(f"the last events were not written within {timeout}")
        return self._state is RecordingState.STOPPED

    def _run(self) -> None:
        try:
            while (work := self._next()) is not None:
                # Without blocks too: who asks to flush is told when a newer epoch has taken over.
                self._files.write(work.blocks)
                if work.sync:
                    self._files.sync()
                self._done(work)
        except StaleEpochError as error:
            self._newest_epoch = error.newest
            self._give_up(RecordingState.FENCED, error)
        # Whatever it is, the job goes on without recording.
        except Exception as error:
            self._give_up(RecordingState.FAILED, error)
        finally:
            self._has_said_why.set()
            self._files.close()

    def _next(self) -> _Work | None:
        """Waits until there is something to do; None when there never will be."""
        with self._lock:
            while self._state is RecordingState.RECORDING:
                if self._due:
                    return self._taken(sync=self._sync_due)
                if len(self._pending) or self._unsynced:
                    self._deadline = self._deadline or time.monotonic() + self._interval
                    left = self._deadline - time.monotonic()
                    if left <= 0:
                        return self._taken(sync=True)
                    self._work.wait(left)
                elif self._stopping:
                    self._end(RecordingState.STOPPED)
                else:
                    self._waiting = True
                    self._work.wait()
            return None

    def _taken(self, sync: bool) -> _Work:
        self._due, self._sync_due, self._waiting = False, False, False
        self._in_flight = len(self._pending)
        self._unsynced = not sync
        if sync:
            self._deadline = None
        return _Work(self._pending.take(), sync, self._syncs_asked)

    def _done(self, work: _Work) -> None:
        with self._lock:
            self._in_flight = 0
            if work.sync:
                self._syncs_done = work.syncs_asked
                self._progress.notify_all()

    def _give_up(self, state: RecordingState, why: Exception) -> None:
        with self._lock:
            first = self._state is RecordingState.RECORDING
            if first:
                self._end(state)
        if first and state is RecordingState.FENCED:
            logger.warning("%s", why)
        elif first:
            self._warn(f"{type(why).__name__}: {why}")

    def _end(self, state: RecordingState) -> None:
        """Under the lock: nothing is taken any more, and what waits is let go."""
        self._state = state
        self._pending.take()
        self._work.notify_all()
        self._progress.notify_all()

    def _wake(self, sync: bool) -> None:
        """Under the lock: what waits is written now."""
        if not self._due:
            self._due, self._waiting = True, False
            self._work.notify()
        self._sync_due |= sync

    def _warn(self, why: str) -> None:
        logger.warning(
            "%s stopped (%s). The job continues; after a crash it resumes from what has been "
            "recorded so far.",
            self._what,
            why,
        )

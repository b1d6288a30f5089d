"""The events of one start of a job: what they add up to, and their way to the disk."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from holdfast.eventstore.events import JobEvent
from holdfast.eventstore.log_position import LogPosition
from holdfast.eventstore.store import JobEventStore
from holdfast.runtime.recovery.job_history import JobHistory


class JobLog:
    """Records the events of one start of a job. For use by one thread.

    What they add up to is known here also where the disk doesn't take them.

    Args:
        directory: where the job's events are.
        epoch: of this start.
        after: where the log goes on; `START` where the job begins anew.
        history: of what was recorded before.
        write_buffer_size: in bytes.
        flush_interval: after how long an event is on disk at the latest.

    Raises:
        StaleEpochError: when a newer start of the job has taken over.
    """

    def __init__(
        self,
        directory: Path,
        epoch: int,
        after: LogPosition,
        history: JobHistory,
        write_buffer_size: int,
        flush_interval: timedelta,
    ) -> None:
        self.history = history
        self._store = JobEventStore(
            directory,
            epoch,
            after,
            write_buffer_size=write_buffer_size,
            flush_interval=flush_interval,
        )

    def record(self, event: JobEvent, cut: bool = False) -> None:
        """One more thing has happened.

        Args:
            event: what.
            cut: whether it is to be on disk soon.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        self.history.apply(event)
        self._store.write_event(event, cut)

    def flush(self) -> bool:
        """Waits until all of it is on disk.

        Returns:
            whether it is.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        return self._store.flush()

    def clear(self) -> None:
        """Removes what was recorded: the job has ended."""
        self._store.clear()

    def stop(self) -> None:
        """Writes what is waiting, and ends."""
        self._store.stop()

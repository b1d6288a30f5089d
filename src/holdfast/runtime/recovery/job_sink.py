"""What a job that recovers asks of the sink that its rows go to."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from holdfast.errors import StaleEpochError, StorageError
from holdfast.sinks.sink_start import SinkJournal, SinkStart

__all__ = ["JobSink", "SinkJournal", "SinkStart", "write_once"]


class JobSink(Protocol):
    """Takes a job's rows exactly once, however often the job is started.

    One start calls `open`; where that gives a path, it writes there and calls `commit`, or `abort`
    when anything fails; and `forget` once the job's end is on record. A start that finds on record
    that the job has ended calls `forget` alone.

    Source: FLIP-383; the steps are those of Flink's two-phase committers.

    Attributes:
        identity: where the rows go and how, as a text: the same whenever the program is started.
    """

    @property
    def identity(self) -> str: ...

    def open(self, start: SinkStart) -> str | None:
        """Shuts out earlier starts of the job, and gives the path to write to.

        Args:
            start: this start, whose epoch has been taken already.

        Returns:
            The path of an empty directory; None when there is nothing to write, because an earlier
            start has committed, or because the write says so (mode "ignore").

        Raises:
            SinkTargetExistsError: when the write is to make what is there already.
            SinkError: when the target can't be written, or whether an earlier start has committed
                can't be told.
        """

    def settle(self, start: SinkStart) -> None:
        """Shuts out earlier starts, and ends what one of them was killed over, as `open` does.

        Args:
            start: this start, whose epoch has been taken already.

        Raises:
            SinkError: when that can't be done.
        """

    def clear(self) -> None:
        """Removes what was written to the path, so that the job can write it again."""

    def commit(self, check: Callable[[], None]) -> None:
        """Makes what was written visible, in one step.

        Args:
            check: raises when another start has taken over; asked right before that step.

        Raises:
            StaleEpochError: another start has taken over: nothing has become visible.
            SinkTargetExistsError: what the write is to make has turned up meanwhile.
            SinkError: the target can't be written: nothing has become visible.
        """

    def abort(self) -> None:
        """Removes what was not committed. Does nothing after `commit`, and where `open` failed."""

    def forget(self, start: SinkStart) -> None:
        """Removes whatever says, beside the rows, that this job has committed. Never raises.

        Called when the job has ended for good. May be called without `open`, and again.

        Args:
            start: any start of the job.
        """


def write_once(
    sink: JobSink,
    start: SinkStart,
    check: Callable[[], None],
    write: Callable[[str], object],
) -> bool:
    """Writes a job's rows through its sink, unless an earlier start has done so.

    Args:
        sink: where they go.
        start: this start of the job.
        check: raises when another start has taken over.
        write: writes them to the path that it is given. To try again it calls `sink.clear` first.

    Returns:
        Whether this start has written.

    Raises:
        StaleEpochError: another start has taken over.
        SinkTargetExistsError: what the write is to make is there already.
        SinkError: the target can't be written.
        Exception: what `write` raises.
    """
    try:
        path = sink.open(start)
        if path is None:
            return False
        try:
            write(path)
            sink.commit(check)
        except BaseException:
            sink.abort()
            raise
    except StaleEpochError:
        raise
    except Exception:
        # A start that has been shut out finds its directory gone, and should say why.
        with suppress(StorageError):
            check()
        raise
    return True

"""A directory that a job's rows are written to exactly once."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import SinkError, SinkTargetExistsError, StaleEpochError, StorageError
from holdfast.sinks.carried_files import CarriedFiles, take_attributes
from holdfast.sinks.commit_marker import CommitMarker
from holdfast.sinks.directory_lock import locked
from holdfast.sinks.directory_renames import DirectoryRenames, KernelRenames
from holdfast.sinks.file_tree import FileIdentity
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.sink_start import SinkStart
from holdfast.sinks.sink_token import JournalEntry, SinkEntry, known_entry, note, token_of
from holdfast.sinks.stage_names import StageNames, StageState
from holdfast.sinks.stages import Stages
from holdfast.sinks.unpublishable import why_unpublishable

__all__ = ["DirectorySink"]

logger = logging.getLogger(__name__)

_ATTEMPTS = 20
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class _Opened:
    """What a start of the job has to do with the target."""

    token: str
    epoch: int
    replaces: dict[str, FileIdentity] | None
    names: StageNames
    stages: Stages

    def path(self, state: StageState) -> Path:
        return self.names.path(self.epoch, state)


class DirectorySink:
    """Publishes a directory of files in one step, once over all starts of a job.

    Rows are written to a hidden directory beside the target, on the same file system. To publish
    them, what the target holds is linked into that directory where the mode keeps it, and then the
    two are exchanged by one rename. A file in the new directory says whose it is, so that a start
    that was killed right after the rename is known to have published; the job's journal knows that
    file's name.

    Who lists the target sees one or the other. Who opens files later that were listed before finds
    them where the mode keeps them, and where it replaces them does not, as with Spark's own writes.

    Whoever is to publish renames the directory first, and asks then whether another start has taken
    over. A new start takes its epoch first, and renames the earlier ones' directories then. So an
    earlier start finds either that it is too late, or nothing to publish.

    What processes do to files outlives them; nothing here waits for the disk, for the case that
    the machine loses its power.

    Source: FLIP-383; the step is the commit of Flink's two-phase committers. This is a
    `holdfast.runtime.recovery.job_sink.JobSink`.

    Args:
        target: the directory, on a local or shared POSIX file system.
        mode: what becomes of what it holds already.
        dynamic_partitions: mode "overwrite" replaces only the partitions that are written.
        how: whatever else tells this write from others to the same directory, for `identity`.
        ordinal: which of the job's sinks it is, where there are several.
        renames: how directories are put in their place.
        grace_seconds: for how long the files stay that the target held before, for a reader that
            has opened the directory and is about to list it.
        patience_seconds: for how long to wait while another sink publishes in the same directory.

    Example:
        >>> import tempfile
        >>> from holdfast.ids import JobID
        >>> home = Path(tempfile.mkdtemp())
        >>> class Journal:
        ...     def read(self): return (home / "journal").read_text()
        ...     def write(self, text): _ = (home / "journal").write_text(text)
        >>> Journal().write("")
        >>> start = SinkStart(JobID("ab12" * 8), 1, Journal())
        >>> sink = DirectorySink(home / "out", SinkMode.APPEND)
        >>> path = Path(sink.open(start))
        >>> _ = (path / "part-0").write_text("row")
        >>> sink.commit(lambda: None)
        >>> (home / "out" / "part-0").read_text()
        'row'
        >>> DirectorySink(home / "out", SinkMode.APPEND).open(SinkStart(start.job_id, 2, Journal()))
        >>> sink.forget(start)
    """

    def __init__(
        self,
        target: Path,
        mode: SinkMode,
        *,
        dynamic_partitions: bool = False,
        how: str = "",
        ordinal: int = 0,
        renames: DirectoryRenames | None = None,
        grace_seconds: float = 0.1,
        patience_seconds: float = 5.0,
    ) -> None:
        self.target = target
        self.mode = mode
        self._replaces_partitions = mode is SinkMode.OVERWRITE and dynamic_partitions
        self._keeps = mode is SinkMode.APPEND or self._replaces_partitions
        self._how = how
        self._ordinal = ordinal
        self._renames = KernelRenames() if renames is None else renames
        self._grace_seconds = grace_seconds
        self._patience_seconds = patience_seconds
        self._opened: _Opened | None = None

    @property
    def identity(self) -> str:
        """Where the rows go and how, as a text.

        >>> DirectorySink(Path("/data/out"), SinkMode.ERROR, how="parquet").identity
        'ErrorIfExists /data/out parquet'
        """
        dynamic = " partitions" if self._replaces_partitions else ""
        return f"{self.mode.value}{dynamic} {self.target} {self._how}".strip()

    def open(self, start: SinkStart) -> str | None:
        """Shuts out earlier starts of the job, and gives the path to write to.

        Args:
            start: this start, whose epoch has been taken already.

        Returns:
            An empty directory, which nobody may look into who may not look into the target; None
            when an earlier start has published, or the target exists and the mode is "ignore".

        Raises:
            SinkTargetExistsError: the target exists, and the mode is "error".
            SinkError: the target can't be published in one step, or the journal can't be read.
        """
        reason = why_unpublishable(self.target)
        if reason is not None:
            raise SinkError(str(self.target), reason)
        entry = token_of(start.journal, self._ordinal, self._entry())
        opened = self._start(start, entry)
        target = opened.names.target
        try:
            if self._settled(opened):
                return None
            if os.path.lexists(target) and not self._takes_existing(opened):
                return None
            target.parent.mkdir(parents=True, exist_ok=True)
            self._make(opened)
        except OSError as error:
            raise SinkError(str(self.target), str(error)) from error
        self._opened = opened
        return str(opened.path(StageState.WRITTEN))

    def settle(self, start: SinkStart) -> None:
        """Shuts out earlier starts of the job, and ends what one of them was killed over.

        Args:
            start: this start, whose epoch has been taken already.

        Raises:
            SinkError: that can't be done.
        """
        try:
            entry = known_entry(start.journal.read())
            if entry is not None:
                self._settled(self._start(start, entry))
        except OSError as error:
            raise SinkError(str(self.target), str(error)) from error

    def clear(self) -> None:
        """Removes what was written to the path, so that the job can write it again.

        Raises:
            SinkError: it can't be removed, or made anew.
        """
        if self._opened is None:
            return
        try:
            self._opened.stages.discard(self._opened.epoch, StageState.WRITTEN)
            self._make(self._opened)
        except OSError as error:
            raise SinkError(str(self.target), str(error)) from error

    def commit(self, check: Callable[[], None]) -> None:
        """Makes what was written visible, in one step.

        Args:
            check: raises when another start has taken over; asked right before that step.

        Raises:
            StaleEpochError: another start has taken over: nothing has become visible.
            SinkTargetExistsError: the target has turned up meanwhile, and the mode is "error".
            SinkError: the target can't be written: nothing has become visible.
        """
        opened = self._opened
        if opened is None:
            raise SinkError(
                str(self.target), "the sink is not open: expected a preceding call of open()"
            )
        try:
            with self._locked(opened) as is_alone:
                published = self._publish(opened, check)
                self._opened = None
                if published is not None and opened.path(StageState.SEALED).exists():
                    time.sleep(self._grace_seconds)
                self._clean(opened, published, is_alone=is_alone)
        except OSError as error:
            # A start that has been shut out finds its directory gone, and should say why.
            check()
            raise SinkError(str(self.target), str(error)) from error

    def abort(self) -> None:
        """Removes what was not published. Does nothing where nothing is open. Never raises."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        try:
            marker = CommitMarker.read(opened.names.target, opened.token)
        except OSError:
            logger.warning("can't remove what was staged next to %s", self.target, exc_info=True)
            return
        # It may have been published right before whatever went wrong.
        mine = marker is not None and marker.epoch == opened.epoch
        self._clean(opened, marker if mine else None, is_alone=False)

    def forget(self, start: SinkStart) -> None:
        """Removes what says beside the rows that the job has published them. Never raises.

        Called when the job has ended for good. May be called without `open`, and again.

        Args:
            start: any start of the job.
        """
        try:
            entry = known_entry(start.journal.read())
            if entry is None:
                return
            opened = self._start(start, entry)
            target, stages = opened.names.target, opened.stages
            marker = CommitMarker.read(target, opened.token)
            if marker is not None and marker.epoch <= start.epoch:
                with self._locked(opened) as is_alone:
                    stages.finish(marker, is_alone=is_alone)
                # What is there of it is known first.
                sink = self._entry().model_copy(update={"published": marker.written})
                note(start.journal, entry, self._ordinal, sink)
                CommitMarker.remove(target, opened.token)
            stages.sweep(start.epoch)
        except StaleEpochError:
            logger.debug("leaving the cleanup of %s to the start that has taken over", self.target)
        except (OSError, StorageError):
            logger.warning("can't remove hidden files in or next to %s", self.target, exc_info=True)

    def _entry(self) -> SinkEntry:
        return SinkEntry(target=str(self.target.resolve()), mode=self.mode)

    def _settled(self, opened: _Opened) -> bool:
        """Whether an earlier start has published; none of them can any more."""
        target, stages = opened.names.target, opened.stages
        stages.fence(opened.epoch)
        # Only now can no earlier start publish any more.
        marker = CommitMarker.read(target, opened.token)
        if marker is not None:
            with self._locked(opened) as is_alone:
                stages.finish(marker, is_alone=is_alone)
        else:
            stages.restore(opened.epoch)
        stages.sweep(opened.epoch)
        return marker is not None

    def _start(self, start: SinkStart, entry: JournalEntry) -> _Opened:
        # A link to a directory stays one: what it leads to is exchanged.
        names = StageNames(self.target.resolve(), start.job_id, self._ordinal)
        stages = Stages(names, self._renames)
        sink = entry.sinks.get(str(self._ordinal))
        replaces = None if sink is None else sink.replaces
        return _Opened(f"{entry.token}-{self._ordinal}", start.epoch, replaces, names, stages)

    def _make(self, opened: _Opened) -> None:
        written = opened.path(StageState.WRITTEN)
        if not opened.names.target.exists():
            written.mkdir()
            return
        written.mkdir(mode=0o700)
        take_attributes(opened.names.target, written)
        # Where the target may be replaced although it may not be written to.
        written.chmod(stat.S_IMODE(written.stat().st_mode) | stat.S_IRWXU)

    def _takes_existing(self, opened: _Opened) -> bool:
        """Whether the mode goes on where the target exists; raises where it refuses to."""
        if opened.replaces is not None:
            return True  # An earlier start has made it.
        if self.mode is SinkMode.ERROR:
            raise SinkTargetExistsError(str(self.target))
        return self.mode is not SinkMode.IGNORE

    def _publish(self, opened: _Opened, check: Callable[[], None]) -> CommitMarker | None:
        """Gives what has been published; None where the mode leaves the target as it is."""
        target, sealed = opened.names.target, opened.path(StageState.SEALED)
        os.rename(opened.path(StageState.WRITTEN), sealed)
        carried = CarriedFiles(
            target,
            sealed,
            replaces_partitions=self._replaces_partitions,
            # Should another start have published meanwhile, what it says of itself stays its own.
            without=CommitMarker.path(sealed, opened.token).name,
            taking_back=opened.replaces or {},
        )
        keeps = self._keeps or (opened.replaces is not None and self.mode is not SinkMode.OVERWRITE)
        for _ in range(_ATTEMPTS):
            exists = os.path.lexists(target)
            if exists and not self._takes_existing(opened):
                return None
            for _ in range(_ROUNDS if keeps else 0):
                if not carried.update():
                    break
            if exists and keeps and not carried.takes_all_back():
                raise SinkError(
                    str(self.target),
                    "another writer has changed the rows of an earlier start, which are to be "
                    "replaced. Nothing was changed: remove these rows and the job's directory "
                    "under high-availability.storageDir, and restart the program.",
                )
            marker = CommitMarker(
                epoch=opened.epoch,
                written=carried.written,
                keeps=keeps,
                files=carried.files,
                directories=carried.directories,
            )
            marker.write(sealed, opened.token)
            carried.take_attributes()
            if exists:
                take_attributes(target, sealed)
            check()
            try:
                if exists:
                    self._renames.exchange(sealed, target, opened.path(StageState.OLD))
                else:
                    self._renames.put(sealed, target)
            except (FileExistsError, FileNotFoundError):
                # The target has come or gone. Where the other one has gone, that is the end.
                os.stat(sealed)
                continue
            return marker
        raise SinkError(
            str(self.target),
            "it is constantly changed by other writers, so nothing could be published. Stop them "
            "and restart the program.",
        )

    def _locked(self, opened: _Opened) -> AbstractContextManager[bool]:
        return locked(opened.names.target.parent, self._patience_seconds)

    def _clean(self, opened: _Opened, published: CommitMarker | None, *, is_alone: bool) -> None:
        try:
            if published is not None:
                opened.stages.finish(published, is_alone=is_alone)
            else:
                opened.stages.restore(opened.epoch)
            for state in (StageState.WRITTEN, StageState.SEALED):
                opened.stages.discard(opened.epoch, state)
        except OSError:
            # The rows are where they belong, or nowhere; the next start or forget() tries again.
            logger.warning("can't remove hidden files in or next to %s", self.target, exc_info=True)

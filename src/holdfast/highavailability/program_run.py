"""One run of a program: until it ends as it should, what it has done is not done again."""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from holdfast.files.durable_files import sync_directory

_PROGRAMS = "programs"
_ENDED = "ended-"

THIS_PROCESS = uuid.uuid4().hex
"""Stands for this process among all processes."""


class RunTakenOver(Exception):
    """Another run has taken over from this one, which may not take over from any other."""


class ProgramRun:
    """A run of a program. A directory stands for it from its first job to its end.

    That directory goes in one step: either the run ends, and all of its jobs are to be done by the
    next one, or another run takes over, and none is. Who takes over moves it into its own: so a run
    that was taken over from itself finds none to move it to, and what a run holds ends with it.

    Safe for use by several threads.

    Args:
        root: the storage directory.
        process: stands for the process that runs it.

    Attributes:
        token: stands for the run among all runs.
    """

    def __init__(self, root: Path, process: str = THIS_PROCESS) -> None:
        self.token = f"{process}-{uuid.uuid4().hex}"
        self._directory = root / _PROGRAMS
        self._path = self._directory / self.token
        self._begun = False
        self._lock = threading.RLock()

    def begin(self) -> bool:
        """The run has a job. To be called before each.

        Returns:
            whether it may; False when another run has taken over from this one.

        Raises:
            OSError: when that can't be written.
        """
        with self._lock:
            if self._begun:
                try:
                    # So that a run that lives isn't taken for one that nobody knows.
                    os.utime(self._path)
                except FileNotFoundError:
                    return False
                return True
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._path.mkdir(mode=0o700)
            sync_directory(self._directory)
            self._begun = True
            return True

    def is_live(self) -> bool:
        """Whether no other run has taken over from this one, as far as it has begun."""
        return not self._begun or self._path.exists()

    def take_over(self, token: str | None) -> bool:
        """Goes on with a run that has not ended as it should, or not yet: it can't end any more.

        Where another run has gone on with it before, that one is taken over from as well.

        A run in the same process is another one: a program that is run in a living process was not
        killed, whatever is left of it.

        Args:
            token: of the run; None where it isn't known.

        Returns:
            whether there is such a run.

        Raises:
            RunTakenOver: when another run has taken over from this one.
            OSError: when that can't be written.
        """
        if token is None or token == self.token:
            return False
        while (holder := self._holder(token)) is not None and holder != self.token:
            if _process_of(holder) == _process_of(self.token):
                return False
            try:
                os.rename(self._directory / holder, self._path / holder)
            except FileNotFoundError:
                if not self._path.exists():
                    raise RunTakenOver(self.token) from None
                # It has ended, or somebody else has taken it over meanwhile.
                continue
            self._take_out(self._path / holder)
            for changed in (self._path, self._directory):
                sync_directory(changed)
            return True
        return holder is not None

    def tokens(self) -> frozenset[str]:
        """Of this run and those that it goes on with.

        Raises:
            OSError: when they can't be listed.
        """
        with suppress(FileNotFoundError):
            return frozenset({self.token, *_held(self._path)})
        return frozenset({self.token})

    def end(self) -> bool:
        """The run has ended as it should. Does nothing the second time.

        Returns:
            whether it has; False when another run has taken over from it before.

        Raises:
            OSError: when that can't be written.
        """
        with self._lock:
            if not self._begun:
                return True
            self._begun = False
            if not _end_once(self._path):
                return False
            sync_directory(self._directory)
            shutil.rmtree(_ended(self._path), ignore_errors=True)
            return True

    def _holder(self, token: str) -> str | None:
        """The run that is, or has taken over from, a run; None where that has ended."""
        before: dict[str, str] | None = None
        while True:
            # One of them may be moved meanwhile, from where is yet to be listed to where was.
            with suppress(FileNotFoundError):
                held = {name: name for name in _runs(self._directory)}
                for run in tuple(held):
                    held |= dict.fromkeys(_held(self._directory / run), run)
                if token in held or held == before:
                    return held.get(token)
                before = held

    def _take_out(self, taken: Path) -> None:
        """Has what a run held lie beside it, so that paths don't grow with each start."""
        # Whoever has taken over from this one goes on with that.
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(taken):
                os.rename(taken / name, self._path / name)
                self._take_out(self._path / name)


def forget_runs(root: Path, known: Collection[str], after: timedelta) -> None:
    """Removes what stands for runs that no job is recorded of, and that are old.

    Args:
        root: the storage directory.
        known: the tokens of the runs that jobs are recorded of.
        after: how old they are at least: one that has just begun has recorded nothing yet.

    Raises:
        OSError: when they can't be listed or removed.
    """
    directory = root / _PROGRAMS
    if not directory.exists():
        return
    oldest = time.time() - after.total_seconds()
    for name in os.listdir(directory):
        path = directory / name
        # Another program that starts may be faster.
        with suppress(FileNotFoundError):
            if name.startswith(_ENDED):
                shutil.rmtree(path, ignore_errors=True)
            elif path.stat().st_mtime < oldest and not {name, *_held(path)}.intersection(known):
                _end_once(path)
                shutil.rmtree(_ended(path), ignore_errors=True)


def _end_once(path: Path) -> bool:
    """Ends a run and all that it holds in one step. Gives whether it was this call."""
    try:
        os.rename(path, _ended(path))
    except FileNotFoundError:
        return False
    return True


def _ended(path: Path) -> Path:
    return path.with_name(f"{_ENDED}{path.name}")


def _process_of(token: str) -> str:
    return token.rpartition("-")[0]


def _runs(directory: Path) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if not name.startswith(_ENDED)]
    except NotADirectoryError:
        return []


def _held(run: Path) -> list[str]:
    """The runs that a run goes on with; FileNotFoundError where it has been moved meanwhile."""
    held = _runs(run)
    return held + [deeper for name in held for deeper in _held(run / name)]

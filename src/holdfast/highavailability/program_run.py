"""One run of a program: until it ends as it should, what it has done is not done again."""

from __future__ import annotations

import os
import re
import threading
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from holdfast.highavailability.durable_files import remove_once, sync_directory, write_once
from holdfast.highavailability.job_directory import ASIDE

_PROGRAMS = "programs"
_TAKEN = re.compile(r"[0-9a-f]{32}\.[0-9a-f]{32}")
_TOKEN = re.compile(r"[0-9a-f]{32}(?:\.[0-9a-f]{32})?")

THIS_PROCESS = uuid.uuid4().hex
"""Stands for this process among all processes."""


class ProgramRun:
    """A run of a program. A file stands for it from its first job to its end.

    That file goes in one step: either the run ends, and all of its jobs are to be done by the next
    one, or another run takes over, and none is. Safe for use by several threads.

    Args:
        root: the storage directory.
        process: stands for the process that runs it.
    """

    def __init__(self, root: Path, process: str = THIS_PROCESS) -> None:
        self.token = uuid.uuid4().hex
        self._process = process
        self._directory = root / _PROGRAMS
        self._aside = root / ASIDE
        self._begun = False
        self._lock = threading.Lock()

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
            write_once(self._path, self._process.encode(), self._aside)
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
            OSError: when that can't be written.
        """
        if token is None or token == self.token:
            return False
        path = self._directory / token
        with suppress(FileNotFoundError):
            if path.read_bytes() == self._process.encode():
                return False
            path.rename(path.with_suffix(f".{self.token}"))
            sync_directory(self._directory)
            return True
        by = self._all_taken().get(token)
        return by is not None and (by == self.token or self.take_over(by))

    def tokens(self) -> frozenset[str]:
        """Of this run and those that it goes on with.

        Raises:
            OSError: when they can't be listed.
        """
        return frozenset({self.token, *(taken for taken, _ in self._all_mine())})

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
            # Before its own: what this run was to do again of theirs is recorded as its own by now.
            for taken, by in self._all_mine():
                (self._directory / taken).with_suffix(f".{by}").unlink(missing_ok=True)
            ended = remove_once(self._path)
            if self._directory.exists():
                sync_directory(self._directory)
            return ended

    def _all_taken(self) -> dict[str, str]:
        """The runs that were taken over from, and by which."""
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return {}
        return dict(name.split(".") for name in names if _TAKEN.fullmatch(name))

    def _all_mine(self) -> list[tuple[str, str]]:
        """The runs that this one goes on with, those that were taken over from first at first."""
        taken, mine, found = self._all_taken(), [self.token], list[tuple[str, str]]()
        while mine:
            by = mine.pop()
            own = [(each, by) for each, other in taken.items() if other == by]
            mine.extend(each for each, _ in own)
            found.extend(own)
        return found[::-1]

    @property
    def _path(self) -> Path:
        return self._directory / self.token


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
    for path in directory.iterdir():
        if _TOKEN.fullmatch(path.name) and path.stem not in known:
            # Another program that starts may be faster.
            with suppress(FileNotFoundError):
                if path.lstat().st_mtime < oldest:
                    path.unlink()

"""One run of a program: until it ends as it should, what it has done is not done again."""

from __future__ import annotations

import os
import re
import threading
import time
import uuid
from collections.abc import Collection, Mapping
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
        while True:
            taken = self._all_taken()
            last = _last_taken(taken, token, self.token)
            by = taken.get(last)
            if by == self.token:
                return True
            path = self._directory / (last if by is None else f"{last}.{by}")
            with suppress(FileNotFoundError):
                if path.read_bytes() == self._process.encode():
                    return False
                path.rename(self._directory / f"{last}.{self.token}")
                sync_directory(self._directory)
                return True
            # It has ended, or somebody else has taken it over meanwhile.
            if self._all_taken().get(last) == by:
                return False

    def tokens(self) -> frozenset[str]:
        """Of this run and those that it goes on with.

        Raises:
            OSError: when they can't be listed.
        """
        return frozenset({self.token, *self._all_mine()})

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
            mine = self._all_mine()
            # First: whoever asks for a run that it goes on with finds that all of them have ended.
            ended = remove_once(self._path)
            if ended:
                for taken, by in mine.items():
                    (self._directory / f"{taken}.{by}").unlink(missing_ok=True)
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

    def _all_mine(self) -> dict[str, str]:
        """The runs that this one goes on with, and by which they were taken over from."""
        taken = self._all_taken()
        return {
            each: by
            for each, by in taken.items()
            if taken.get(_last_taken(taken, each, self.token)) == self.token
        }

    @property
    def _path(self) -> Path:
        return self._directory / self.token


def _last_taken(taken: Mapping[str, str], token: str, goal: str) -> str:
    """The last run of a chain in which each was taken over from by the next one.

    Two runs that begin each other's jobs at one moment may take over from one another: neither can
    end then. Of such a ring it is the same one for all.

    Args:
        taken: the runs that were taken over from, and by which.
        token: the run that the chain begins with.
        goal: the run that it ends before, should it come to it.
    """
    chain = [token]
    while (by := taken.get(chain[-1])) is not None and by != goal:
        if by in chain:
            return min(chain[chain.index(by) :])
        chain.append(by)
    return chain[-1]


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

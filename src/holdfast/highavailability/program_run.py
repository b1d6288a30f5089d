"""One run of a program: until it ends as it should, what it has done is not done again."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection
from pathlib import Path

from holdfast.highavailability.durable_files import sync_directory, write_once

_PROGRAMS = "programs"
_TOKEN = re.compile(r"[0-9a-f]{32}")

THIS_PROCESS = uuid.uuid4().hex
"""Stands for this process among all processes."""


class ProgramRun:
    """A run of a program. A file stands for it from its first job to its end.

    That file goes in one step, so that either all jobs of the run are done for its next start, or
    none is.

    Args:
        root: the storage directory.
        process: stands for the process that runs it.
    """

    def __init__(self, root: Path, process: str = THIS_PROCESS) -> None:
        self.token = uuid.uuid4().hex
        self._process = process
        self._directory = root / _PROGRAMS

    def begin(self) -> None:
        """The run has a job. To be called before each.

        Raises:
            OSError: when that can't be written.
        """
        self._directory.mkdir(mode=0o700, exist_ok=True)
        path = self._directory / self.token
        if not path.exists():
            write_once(path, self._process.encode())

    def end(self) -> None:
        """The run has ended as it should. Does nothing the second time.

        Raises:
            OSError: when that can't be written.
        """
        (self._directory / self.token).unlink(missing_ok=True)
        if self._directory.exists():
            sync_directory(self._directory)


def was_interrupted(root: Path, token: str | None, process: str = THIS_PROCESS) -> bool:
    """Whether a run of a program has not ended as it should, or not yet.

    A run in the same process is another one: a program that is run in a living process was not
    killed, whatever is left of it.

    Args:
        root: the storage directory.
        token: of the run; None where it isn't known.
        process: stands for the process that asks.
    """
    if token is None:
        return False
    try:
        return (root / _PROGRAMS / token).read_bytes() != process.encode()
    except OSError:
        return False


def forget_runs(root: Path, known: Collection[str]) -> None:
    """Removes what stands for runs that no job is recorded of.

    Args:
        root: the storage directory.
        known: the tokens of the runs that jobs are recorded of.

    Raises:
        OSError: when they can't be listed or removed.
    """
    directory = root / _PROGRAMS
    if not directory.exists():
        return
    for path in directory.iterdir():
        if _TOKEN.fullmatch(path.name) and path.name not in known:
            path.unlink(missing_ok=True)

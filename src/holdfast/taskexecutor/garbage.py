"""Removes what lies in a task executor's directory and nobody knows of."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.storage.partition_directory import DATASETS, STAGING
from holdfast.taskexecutor.applications.application_directory import (
    LOCK,
    application_of,
    remove_garbage,
)
from holdfast.taskexecutor.applications.application_partitions import ApplicationPartitions
from holdfast.taskexecutor.idle_time import IdleTimes
from holdfast.taskexecutor.outputs.staged_files import remove_committed

logger = logging.getLogger(__name__)


class Garbage:
    """Finds and removes it. To be used by one thread at a time.

    A task of a job that is over may still be writing: what it commits goes at once, but a directory
    only after nothing has happened in it for a while, so that no task is disturbed that is alive.

    Args:
        root: the executor's directory.
        grace_seconds: how long nothing must happen.
        clock: the time in seconds.

    Source: FLINK-12612, "Abnormal events / Special cases".
    """

    def __init__(self, root: Path, grace_seconds: float, clock: Callable[[], float]) -> None:
        self._root = root
        self._grace = grace_seconds
        self._idle = IdleTimes(clock)
        self._looked_at: set[Path] = set()

    def is_forsaken(self, directory: Path) -> bool:
        """Whether nothing has happened in a directory for so long that no task writes there."""
        self._looked_at.add(directory)
        return self._idle.of(directory) >= self._grace

    def sweep(self, known: Sequence[ApplicationPartitions]) -> None:
        """Removes what is garbage beside the applications that are known."""
        for partitions in known:
            for directory in partitions.unknown_directories():
                self._clear(directory)
        for path in self._nobodys():
            for staged in _subdirectories(path / STAGING):
                remove_committed(staged)
            self._clear(path)
        self._idle.keep_only(self._looked_at)
        self._looked_at.clear()

    def _nobodys(self) -> list[Path]:
        """Directories that a task has made anew after its application was let go."""
        try:
            remove_garbage(self._root)
            return [
                path
                for path in self._root.iterdir()
                if application_of(path) is not None and not (path / LOCK).exists()
            ]
        except OSError as error:
            logger.warning("can't clean up %s: %s", self._root, error)
            return []

    def _clear(self, directory: Path) -> None:
        if directory.parent.name != DATASETS:
            remove_committed(directory)
        if self.is_forsaken(directory):
            logger.debug("removed orphaned directory %s", directory)
            shutil.rmtree(directory, ignore_errors=True)


def _subdirectories(path: Path) -> list[Path]:
    try:
        return [each for each in path.iterdir() if each.is_dir() and not each.is_symlink()]
    except OSError:
        return []

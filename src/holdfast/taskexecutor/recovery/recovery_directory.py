"""The directory of one start of a job, which the next start takes over by renaming it.

No lock is held on it: who was stopped must not hold up who takes over. Whatever the earlier start
and its tasks know of lies under a path that is gone.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.files.private_directory import make_own
from holdfast.files.removal import remove_at_once
from holdfast.ids import ApplicationID
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim

TAKEN = "taken"
"""Below a start's directory, those of earlier starts that it has taken over and not emptied yet."""

_PREFIX = "recoverable-"
_REMOVED = ".removed-recoverable-"
_NAME = re.compile(r"recoverable-([0-9a-f]{32})")
# Tasks make directories anew, but not this.
_MARK = "start.json"

logger = logging.getLogger(__name__)


class RecoveryDirectory:
    """The directory of one start under `root`.

    Args:
        root: the directory that task executors keep partitions in.
        claim: the start.
    """

    def __init__(self, root: Path, claim: RecoveryClaim) -> None:
        self.root = root
        self.claim = claim
        self._path = self.of(root, claim.application)
        self._owner = os.getpid()

    @staticmethod
    def of(root: Path, application: ApplicationID) -> Path:
        """Where the start of this application has its directory."""
        return root / f"{_PREFIX}{application.hex}"

    def create(self) -> None:
        """Makes it, if it isn't there.

        Raises:
            OSError: when it can't be made.
        """
        make_own(self.root)
        self._path.mkdir(mode=0o700, exist_ok=True)
        mark = self._path / _MARK
        if not mark.exists():
            making = self._path / f".{_MARK}"
            making.write_text(
                f'{{"job_id": "{self.claim.job_id.hex}", "epoch": {self.claim.epoch}}}\n',
                encoding="utf-8",
            )
            making.replace(mark)

    def exists(self) -> bool:
        """Whether it is there, and not only something that tasks of a lost start have made."""
        return (self._path / _MARK).is_file()

    def path(self) -> Path:
        """The start's directory.

        Raises:
            FileNotFoundError: when a newer start has taken it over, or somebody has removed it.
        """
        if not self.exists():
            raise FileNotFoundError(f"{self._path} was removed")
        return self._path

    def take_over(self, earlier: RecoveryClaim) -> None:
        """Has an earlier start's directory, from one moment to the next; nothing if it has none.

        Raises:
            OSError: when it can't be renamed.
        """
        path = self.of(self.root, earlier.application)
        taken = self._path / TAKEN
        if not is_marked(path):
            # What tasks have made since somebody else took it over is not whole.
            remove_start(path)
            return
        taken.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            path.rename(taken / path.name)

    def close(self) -> None:
        """Removes it with everything in it, as far as that can be done."""
        # A process that was forked off knows of it, and it is not its own.
        if os.getpid() == self._owner:
            remove_start(self._path)

    def leave(self) -> None:
        """Leaves it as it is."""


def application_of_directory(path: Path) -> ApplicationID | None:
    """Which start's directory this is, told from its name."""
    match = _NAME.fullmatch(path.name)
    return None if match is None else ApplicationID(match[1])


def is_marked(path: Path) -> bool:
    """Whether a start has made this directory, and not one of its tasks."""
    return (path / _MARK).is_file()


def start_directories(root: Path) -> Iterator[Path]:
    """The directories of starts under `root`, and what looks like them.

    Raises:
        OSError: when `root` can't be listed.
    """
    for path in sorted(root.iterdir()):
        if application_of_directory(path) is not None and not path.is_symlink():
            yield path


def remove_start(path: Path) -> None:
    """Removes a start's directory, as far as that can be done."""
    if not remove_at_once(path, path.with_name(_REMOVED + path.name.removeprefix(_PREFIX))):
        logger.warning("can't remove %s; the next start will", path)


def remove_half_removed(root: Path) -> None:
    """Removes what somebody was killed over while removing it.

    Raises:
        OSError: when `root` can't be listed.
    """
    for path in root.iterdir():
        if path.name.startswith(_REMOVED):
            shutil.rmtree(path, ignore_errors=True)

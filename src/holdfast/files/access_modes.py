"""Who beside its owner may use a directory: modes, and how they are given whatever the umask is."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from holdfast.files.private_directory import make_own


@dataclass(frozen=True, slots=True)
class AccessModes:
    """The modes of what several users share.

    Attributes:
        file: of files that are read.
        database: of files that everybody writes to.
        reading: of directories that one user fills and others read.
        filling: of directories that everybody fills and empties.
        root: of the directory that all of it lies in, where nobody removes what is another's.
    """

    file: int
    database: int
    reading: int
    filling: int
    root: int

    @property
    def is_private(self) -> bool:
        """Whether nobody but the owner is let in."""
        return self == PRIVATE

    def group_of(self, root: Path) -> int | None:
        """The group that files below a directory have to belong to; None where that is all one.

        Raises:
            OSError: when there is no such directory.
        """
        return root.stat().st_gid if self == GROUP else None


PRIVATE = AccessModes(file=0o600, database=0o600, reading=0o700, filling=0o700, root=0o700)
GROUP = AccessModes(file=0o640, database=0o660, reading=0o750, filling=0o2770, root=0o3770)
EVERYBODY = AccessModes(file=0o644, database=0o666, reading=0o755, filling=0o777, root=0o1777)


def make_root(path: Path, modes: AccessModes) -> None:
    """Makes the directory that users share, or checks the one that is there.

    Args:
        path: the directory.
        modes: who is let in. A directory of this user is opened to them, and never closed again.

    Raises:
        PermissionError: when it belongs to another user and isn't shared with this one.
        OSError: when it can't be made.
    """
    make_shared(path, modes, modes.root)


def make_shared(path: Path, modes: AccessModes, mode: int) -> None:
    """Makes a directory that others fill as well, or checks the one that is there.

    Args:
        path: the directory.
        modes: who is let in.
        mode: its own; more than that is left as it is.

    Raises:
        PermissionError: when it belongs to another user and isn't shared with this one.
        OSError: when it can't be made.
    """
    if modes.is_private:
        make_own(path)
        return
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if status.st_uid == os.getuid():
        give_mode(path, stat.S_IMODE(status.st_mode) | mode)
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise PermissionError(
            f"{path} belongs to another user, and isn't shared with this one: its owner has to run "
            f"`chmod {mode:o}` on it, and `chgrp` where it is for a group"
        )


def give_mode(path: Path, mode: int, group: int | None = None) -> None:
    """Gives a file or directory of this user a mode, whatever the umask was when it was made.

    Args:
        path: the file.
        mode: its mode.
        group: to which group it is to belong; None: as it does.

    Raises:
        OSError: when it isn't this user's, or they are not in that group.
    """
    status = path.stat()
    if group is not None and status.st_gid != group:
        os.chown(path, -1, group)
        status = path.stat()
    if stat.S_IMODE(status.st_mode) != mode:
        path.chmod(mode)

"""Who may read a result."""

from __future__ import annotations

from enum import Enum

from holdfast.files.access_modes import EVERYBODY, GROUP, PRIVATE, AccessModes


class Audience(Enum):
    """Who may read a result, beside the program that has kept it."""

    NOBODY = "nobody"
    """What it computes is known to this program alone."""
    USER = "user"
    GROUP = "group"
    ALL = "all"

    @property
    def is_beyond_user(self) -> bool:
        """Whether other users are among them."""
        return self in _MODES

    @property
    def modes(self) -> AccessModes:
        """The modes of files and directories that let them in.

        >>> oct(Audience.GROUP.modes.file)
        '0o640'
        """
        return _MODES.get(self, PRIVATE)


_MODES = {Audience.GROUP: GROUP, Audience.ALL: EVERYBODY}

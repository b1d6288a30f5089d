"""What of the suite runs in one process, where several share it."""

from __future__ import annotations

from pathlib import PurePath

from xdist.scheduler import LoadScopeScheduling

_DIRECTORIES = {"cluster", "chaos", "promises"}
# It starts a cluster of its own.
_APART = {"test_killed_on_cluster.py"}


class SharingOut(LoadScopeScheduling):
    """Gives a process a file, or all of a directory that shares what is costly to start."""

    def _split_scope(self, nodeid: str) -> str:
        file = PurePath(nodeid.partition("::")[0])
        together = file.parent.name in _DIRECTORIES and file.name not in _APART
        return str(file.parent if together else file)

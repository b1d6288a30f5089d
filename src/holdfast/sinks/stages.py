"""The directories beside a target in which a sink's starts prepare what they publish."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

from holdfast.sinks.carried_files import settle
from holdfast.sinks.commit_marker import CommitMarker
from holdfast.sinks.directory_renames import DirectoryRenames
from holdfast.sinks.stage_names import StageNames, StageState

__all__ = ["Stages"]

_ATTEMPTS = 5


class Stages:
    """Takes earlier starts' directories out of their reach, and removes what nobody needs.

    All methods may be repeated, and be run by several starts at once: each step is a rename that
    only one of them can do.

    Args:
        names: how they are called.
        renames: how a directory becomes the target.
    """

    def __init__(self, names: StageNames, renames: DirectoryRenames) -> None:
        self._names = names
        self._renames = renames
        self._target = names.target

    def epochs(self, up_to: int) -> list[int]:
        """The epochs that have a directory here, in order.

        Args:
            up_to: the highest to look for.

        Raises:
            OSError: the directory around the target can't be listed.
        """
        try:
            siblings = os.listdir(self._target.parent)
        except FileNotFoundError:
            return []
        found = {self._names.epoch_of(sibling) for sibling in siblings}
        return sorted(epoch for epoch in found if epoch is not None and epoch <= up_to)

    def fence(self, up_to: int) -> None:
        """Makes sure that whatever starts of these epochs want to publish fails from now on.

        Args:
            up_to: the highest epoch.

        Raises:
            OSError: something can't be renamed.
        """
        for epoch in self.epochs(up_to):
            # In the order in which a start that goes on at this moment would rename them.
            self.discard(epoch, StageState.WRITTEN)
            sealed = self._names.path(epoch, StageState.SEALED)
            fenced = self._names.path(epoch, StageState.FENCED)
            if fenced.exists():
                self.discard(epoch, StageState.SEALED)
            else:
                with suppress(FileNotFoundError):
                    os.rename(sealed, fenced)

    def restore(self, up_to: int) -> None:
        """Puts back what a start had set aside, and no more than that.

        Args:
            up_to: the highest epoch.

        Raises:
            OSError: something can't be renamed.
        """
        for epoch in self.epochs(up_to):
            old = self._names.path(epoch, StageState.OLD)
            with suppress(FileNotFoundError):
                try:
                    os.stat(old)
                    self._renames.put(old, self._target)
                except FileExistsError:
                    # Somebody has made the target anew meanwhile; it gets what it held before.
                    settle(old, self._target, {}, [], is_alone=False)
                    self.discard(epoch, StageState.OLD)

    def finish(self, marker: CommitMarker, *, is_alone: bool) -> None:
        """Ends what a start has published: nothing that others did to the target is lost.

        Args:
            marker: what was published.
            is_alone: no other sink publishes to the target at this moment.

        Raises:
            OSError: something can't be read or renamed.
        """
        for state in (StageState.SEALED, StageState.FENCED, StageState.OLD):
            if marker.keeps:
                old = self._names.path(marker.epoch, state)
                settle(old, self._target, marker.files, marker.directories, is_alone=is_alone)
            self.discard(marker.epoch, state)

    def sweep(self, up_to: int) -> None:
        """Removes the directories of epochs. What was published has been finished before.

        Args:
            up_to: the highest epoch.

        Raises:
            OSError: something can't be renamed.
        """
        for epoch in self.epochs(up_to):
            for state in StageState:
                self.discard(epoch, state)

    def discard(self, epoch: int, state: StageState) -> None:
        """Removes a directory, which is out of everybody's reach at once.

        Args:
            epoch: whose it is.
            state: its state.

        Raises:
            OSError: it can't be renamed.
        """
        gone = self._names.path(epoch, StageState.GONE)
        for _ in range(_ATTEMPTS):
            try:
                os.rename(self._names.path(epoch, state), gone)
            except FileNotFoundError:
                break
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                _remove(gone)
            else:
                break
        _remove(gone)


def _remove(directory: Path) -> None:
    # What stays behind is hidden, and is removed with the next sweep.
    shutil.rmtree(directory, ignore_errors=True)

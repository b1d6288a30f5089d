"""A small text that a sink keeps about a job, for the job's next start."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.errors import StorageError
from holdfast.highavailability.job_directory import JobDirectory


class Journal:
    """The text of one job's sink.

    Args:
        directory: the job's.
        checked_epoch: gives the epoch of this start; StaleEpochError when a newer one took over.
    """

    def __init__(self, directory: JobDirectory, checked_epoch: Callable[[], int]) -> None:
        self._directory = directory
        self._checked_epoch = checked_epoch

    def read(self) -> str:
        """What was written last, by this start or an earlier one; empty when nothing was.

        Raises:
            StorageError: when it can't be read.
        """
        try:
            return self._directory.journal()
        except OSError as error:
            raise StorageError(
                str(self._directory.path), f"can't read the sink's journal: {error}"
            ) from error

    def write(self, text: str) -> None:
        """Writes all of it anew, in one atomic step. It is on disk afterwards.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
            StorageError: when the disk doesn't take it; what was written last is still there.
        """
        epoch = self._checked_epoch()
        try:
            self._directory.write_journal(epoch, text)
        except OSError as error:
            raise StorageError(
                str(self._directory.path), f"can't write the sink's journal: {error}"
            ) from error

"""Says inside a published directory which job has published it, until the job has ended."""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel

from holdfast.sinks.file_tree import FileIdentity

__all__ = ["CarriedFile", "CommitMarker"]

logger = logging.getLogger(__name__)


class CarriedFile(BaseModel):
    """A file that the target held before.

    Attributes:
        before: which file it was.
        now: which it is in the directory that takes the target's place; None where it isn't.
    """

    before: FileIdentity
    now: FileIdentity | None


class CommitMarker(BaseModel):
    """A hidden file in a published directory.

    It comes into sight together with the rows, in one step: where it is, they are. It is called by
    a token that the job's journal knows, so that no later run of the program takes it for its own.

    Attributes:
        version: of this format.
        epoch: of the start that has published; 0 where that can't be read any more.
        written: what the start has written, by path.
        keeps: what the target held before is to be there afterwards.
        files: what it held, by path, as far as it was seen before.
        directories: its directories, likewise.
    """

    version: int = 1
    epoch: int
    written: dict[str, FileIdentity] = {}
    keeps: bool = False
    files: dict[str, CarriedFile] = {}
    directories: list[str] = []

    @staticmethod
    def path(directory: Path, token: str) -> Path:
        """Where it lies in a directory.

        Args:
            directory: the directory.
            token: the job's.

        >>> CommitMarker.path(Path("out"), "ab12")
        PosixPath('out/.holdfast-ab12')
        """
        return directory / f".holdfast-{token}"

    def write(self, directory: Path, token: str) -> None:
        """Puts it into a directory.

        Args:
            directory: the directory.
            token: the job's.

        Raises:
            OSError: it can't be written.
        """
        # Not pydantic's own JSON, which replaces what is no UTF-8 in the names of files.
        text = json.dumps(self.model_dump())
        # Into a file of its own: one that is there may be a link to that of another start.
        self.remove(directory, token)
        self.path(directory, token).write_text(text, encoding="ascii")

    @classmethod
    def read(cls, directory: Path, token: str) -> CommitMarker | None:
        """What a directory says about the job.

        Args:
            directory: the directory.
            token: the job's.

        Returns:
            The marker; None where there is none.

        Raises:
            OSError: it can't be looked at.
        """
        path = cls.path(directory, token)
        try:
            text = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return cls.model_validate(json.loads(text))
        except ValueError:
            logger.warning("%s is damaged; treating the rows next to it as published", path)
            return cls(epoch=0)

    @classmethod
    def remove(cls, directory: Path, token: str) -> None:
        """Takes it out of a directory, if it is there.

        Args:
            directory: the directory.
            token: the job's.

        Raises:
            OSError: it can't be removed.
        """
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(cls.path(directory, token))

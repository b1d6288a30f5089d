"""The directory that a task executor of its own keeps everything in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from holdfast.errors import StorageError
from holdfast.files.durable_files import write_atomically
from holdfast.files.file_lock import try_lock
from holdfast.files.private_directory import make_private
from holdfast.ids import ApplicationID
from holdfast.taskexecutor.applications.application_directory import EXECUTOR_RECORD

_LOCK = "taskexecutor.lock"


class _Record(BaseModel):
    """What a directory says of the executor that it belongs to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    executor_id: str


class ExecutorDirectory:
    """A directory that this process alone serves. The lock goes with the process.

    Args:
        path: the directory; it is made, readable by its owner alone.

    Raises:
        StorageError: when another process serves it, or it can't be used, or others can write
            to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            make_private(path)
            self._lock = _locked(path)
            self.executor_id = _executor_id(path)
        except OSError as error:
            raise StorageError(str(path), f"can't be used to keep results: {error}") from error

    def close(self) -> None:
        """Lets another process serve the directory."""
        os.close(self._lock)


def _locked(path: Path) -> int:
    opened = os.open(path / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if try_lock(opened):
            return opened
    except OSError:
        os.close(opened)
        raise
    os.close(opened)
    raise StorageError(
        str(path),
        "another task executor serves this directory: expected a separate one for each. Stop the "
        "other one, or use another --dir",
    )


def _executor_id(path: Path) -> str:
    """The id of the executor, which is as old as its directory."""
    file = path / EXECUTOR_RECORD
    try:
        return _Record.model_validate_json(file.read_text(encoding="utf-8")).executor_id
    except FileNotFoundError:
        pass
    except (ValidationError, UnicodeDecodeError) as error:
        raise StorageError(
            str(file), "not written by a task executor, or corrupt; remove it to start from scratch"
        ) from error
    record = _Record(executor_id=ApplicationID.random().hex)
    write_atomically(file, record.model_dump_json().encode())
    return record.executor_id

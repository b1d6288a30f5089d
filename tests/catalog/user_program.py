"""A program of another user, which does what it is sent through a pipe, and answers."""

from __future__ import annotations

import os
import pwd
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow.parquet

from holdfast.api.sharing import result_book
from holdfast.api.storage import task_executor_storage
from holdfast.config import INTERMEDIATE_RESULT_DIRECTORY, Configuration
from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.result_book import ProductionFacts, ResultBook
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from tests.catalog import commands
from tests.catalog.programs import keep, written


class _ReadableSources:
    """Sources that this user may all read, as far as they are there."""

    def unreadable(self, paths: Any) -> str | None:
        return next((path for path in paths if not os.access(path, os.R_OK)), None)


_ANY: Any = _ReadableSources()


def main(
    user: str, groups: list[int], umask: int, config: dict[str, str], pipe: Connection, said: Path
) -> None:
    """To be run in a process of its own."""
    # In the one that it is forked from, mostly.
    import tests.catalog.user_programs  # noqa: F401

    os.dup2(os.open(said, os.O_WRONLY), sys.stderr.fileno())
    become(pwd.getpwnam(user), groups)
    os.umask(umask)
    configuration = Configuration.merged({}, config)
    storage = task_executor_storage(configuration)
    book = _book(configuration, storage)
    calls: dict[str, Callable[..., Any]] = {
        "keep": _keep,
        "read": _read,
        "run": _run,
        "may find": _may_find,
    }
    pipe.send("ready")
    with suppress(EOFError):
        while True:
            name, *arguments = pipe.recv()
            pipe.send(calls[name](book, storage, *arguments))
    book.close()
    storage.close()


def _book(configuration: Configuration, storage: TaskExecutorStorage) -> ResultBook:
    return result_book(
        configuration, storage, _ANY, lambda: "e" * 64, lambda digest: True, lambda: False
    )


def is_open_to_others(*paths: Path) -> bool:
    """Whether other users get to these directories."""
    return all(
        each.stat().st_mode & 0o005 == 0o005 or (each != path and each.stat().st_mode & 0o001)
        for path in paths
        for each in (path, *path.parents)
    )


def become(user: pwd.struct_passwd, groups: list[int]) -> None:
    os.setgroups(groups)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def try_out() -> None:
    """Imports what is imported late: Python itself may be in root's home, which other users can't
    read.
    """
    with tempfile.TemporaryDirectory() as scratch:
        configuration = Configuration.merged({}, {INTERMEDIATE_RESULT_DIRECTORY.key: scratch})
        storages = [task_executor_storage(configuration) for _ in range(2)]
        books = [_book(configuration, each) for each in storages]
        _keep(books[0], storages[0], "1", [1], 60.0)
        assert _read(books[1], storages[1], "1") is not None
        for command in ("ls", "verify", "gc"):
            _run(books[1], storages[1], command, "--directory", scratch)
        for each in (*books, *storages):
            each.close()


def _keep(
    book: ResultBook,
    storage: TaskExecutorStorage,
    digit: str,
    values: list[int],
    lifetime: float | None,
) -> str | None:
    dataset_id = IntermediateDataSetID(digit * 64)
    facts = ProductionFacts(is_checkable=True, lifetime=lifetime, seconds=10.0)
    write = partial(written, storage, dataset_id, [values])
    refusal = keep(book, dataset_id, f"d{digit}", write, facts).refusal
    return None if refusal is None else str(refusal)


def _may_find(book: ResultBook, storage: TaskExecutorStorage) -> bool:
    return book.may_find(lambda digest: False)


def _read(book: ResultBook, storage: TaskExecutorStorage, digit: str) -> Any:
    with book.reading() as lease:
        result = lease.acquire(IntermediateDataSetID(digit * 64))
        if result is None:
            return None
        files = list(map(Path, result.kept.locations))
        return {
            "values": sorted(
                value
                for file in files
                for value in pyarrow.parquet.read_table(file)["a"].to_pylist()
            ),
            "owners": sorted({file.stat().st_uid for file in files}),
            "from": None if result.origin is None else result.origin.user,
        }


def _run(book: ResultBook, storage: TaskExecutorStorage, *arguments: str) -> tuple[int, str]:
    return commands.run(*arguments)

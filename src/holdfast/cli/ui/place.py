"""What the page looks at: a catalog, the jobs' storage directory, task executors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_url import in_directory
from holdfast.cli.catalog_access import catalog_at, catalog_in
from holdfast.cli.task_executors import ask_at_once, remote_executors
from holdfast.highavailability.job_index import JobIndex
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts

_QUICK = Timeouts(answer_seconds=3.0)

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class PlaceOptions:
    """What the page looks at.

    Attributes:
        directory: the storage directory, where nothing else is said.
        catalog_url: of the catalog; None for that of the directory.
        jobs: the storage directory of jobs; None for none.
        executors: addresses of task executors, each `host:port`.
        token: what these share with those who may use them; None without executors.
        budget: how many bytes may be kept; None where that isn't told.
    """

    directory: Path
    catalog_url: str | None = None
    jobs: Path | None = None
    executors: Sequence[str] = ()
    token: str | None = None
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """A task executor, as it is at this moment.

    Attributes:
        address: where it serves.
        datasets: how many datasets it holds parts of.
        bytes: of these.
        failure: why it doesn't answer; None where it does.
    """

    address: str
    datasets: int = 0
    bytes: int = 0
    failure: str | None = None


class ShownPlace:
    """Keeps a catalog open for as long as it is the one that is there. Safe for several threads.

    Args:
        options: what to look at.

    Raises:
        BadInputError: when an address of a task executor is none.
    """

    def __init__(self, options: PlaceOptions) -> None:
        self.options = options
        self.jobs = None if options.jobs is None else JobIndex(options.jobs)
        self._executors = remote_executors(options.executors, options.token or "", _QUICK)
        self._lock = Lock()
        self._open: tuple[object, Catalog, ExitStack] | None = None

    @property
    def name(self) -> str:
        """What is looked at, for people."""
        return self.options.catalog_url or str(self.options.directory)

    def ask(self, question: Callable[[Catalog], R], otherwise: R) -> R:
        """What the catalog answers, or something else where there is none.

        Args:
            question: asks it.
            otherwise: what is answered without one.

        Raises:
            CatalogError: when it can't be read.
        """
        with self._lock:
            catalog = self._reopened()
        return otherwise if catalog is None else question(catalog)

    def past_queries(self, most: int) -> list[bytes]:
        """The records of the last queries, in order.

        Args:
            most: how many.

        Raises:
            CatalogError: when the catalog can't be read.
        """
        nothing: list[bytes] = []
        return self.ask(lambda catalog: catalog.queries.last(most, anywhere=True), nothing)

    def executors(self) -> list[ExecutorState]:
        """The task executors, each as it answers now."""
        answers, failures = ask_at_once(self._executors, dict.fromkeys(self._executors, _state))
        return [
            ExecutorState(address, *answers[address])
            if address in answers
            else ExecutorState(address, failure=failures[address])
            for address in self._executors
        ]

    def close(self) -> None:
        """Ends all connections. Does nothing the second time."""
        with self._lock:
            opened, self._open = self._open, None
        if opened is not None:
            opened[2].close()

    def _reopened(self) -> Catalog | None:
        identity = self._identity()
        if self._open is not None and self._open[0] == identity:
            return self._open[1]
        if self._open is not None:
            self._open[2].close()
            self._open = None
        stack = ExitStack()
        url = self.options.catalog_url
        opened = catalog_in(self.options.directory) if url is None else catalog_at(url)
        catalog = stack.enter_context(opened)
        if catalog is None:
            stack.close()
            return None
        self._open = (identity, catalog, stack)
        return catalog

    def _identity(self) -> object:
        """Another one once another catalog is there, under the same name."""
        if self.options.catalog_url is not None:
            return self.options.catalog_url
        file = in_directory(self.options.directory).database
        try:
            status = os.stat(file or "")
        except OSError:
            return None
        return status.st_dev, status.st_ino


def _state(executor: RemoteTaskExecutor) -> tuple[int, int]:
    executor.describe()
    reports = executor.report(None)
    size = sum(partition.bytes for report in reports for partition in report.partitions)
    return len({report.output for report in reports}), size

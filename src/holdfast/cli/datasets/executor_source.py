"""What task executors keep, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from holdfast.cli.datasets.dataset_source import Found, Released
from holdfast.cli.datasets.errors import BadInputError
from holdfast.cli.datasets.footer import contents_of
from holdfast.cli.datasets.listed_dataset import (
    Contents,
    DataSetState,
    ListedDataSet,
    PartitionsPlace,
    moment,
)
from holdfast.cli.datasets.printable import printable
from holdfast.errors import (
    HoldfastError,
    StorageError,
    UnknownApplicationError,
    UnknownDataSetError,
)
from holdfast.ids import ApplicationID
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.calls.gateway import DataSetReport
from holdfast.taskexecutor.partitions.partition_info import OutputID

_AT_ONCE = 16
_TIMEOUTS = Timeouts(answer_seconds=60.0)

R = TypeVar("R")


class ExecutorSource:
    """A Source over task executors, asked all at once.

    Args:
        addresses: each `host:port`.
        token: what they share with those who may use them.
        timeouts: how long each is waited for.

    Raises:
        BadInputError: when an address is none.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        token: str,
        timeouts: Timeouts = _TIMEOUTS,
    ) -> None:
        self._token = token
        try:
            self._executors = {
                address: RemoteTaskExecutor(address, token, timeouts) for address in addresses
            }
        except StorageError as error:
            raise BadInputError(str(error)) from error

    @property
    def name(self) -> str:
        return f"task executors {', '.join(self._executors)}"

    def find(self) -> Found:
        answers, failures = self._ask(dict.fromkeys(self._executors, _held_by))
        held: dict[tuple[ApplicationID, OutputID], list[tuple[DataSetReport, PartitionsPlace]]] = {}
        for address, parts in answers.items():
            for report, place in parts:
                same = held.setdefault((report.application, report.output), [])
                # Two addresses may lead to the same executor.
                if all(report.executor_id != other.executor_id for other, _ in same):
                    same.append((report, replace(place, address=address)))
        return Found(tuple(_together(held[key]) for key in sorted(held)), tuple(failures.values()))

    def contents(self, dataset: ListedDataSet) -> Contents | None:
        for partition, place in dataset.partitions:
            if place.address is not None:
                found = contents_of(
                    self._executors[place.address].address,
                    self._token,
                    _application(dataset),
                    dataset.output,
                    partition,
                )
                if found is not None:
                    return found
        return None

    def release(self, dataset: ListedDataSet) -> Released:
        def release(executor: RemoteTaskExecutor) -> None:
            try:
                executor.release_outputs(_application(dataset), [dataset.output])
            except UnknownApplicationError:
                # It has ended, and everything of it went with it.
                return

        places = {place.address: place for place in dataset.places if place.address is not None}
        answers, failures = self._ask(dict.fromkeys(places, release))
        return Released(tuple(places[address] for address in answers), tuple(failures.values()))

    def _ask(
        self, questions: dict[str, Callable[[RemoteTaskExecutor], R]]
    ) -> tuple[dict[str, R], dict[str, str]]:
        """Asks executors by address: what each answers, or why it doesn't."""
        answers: dict[str, R] = {}
        failures: dict[str, str] = {}
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            asked = {
                address: threads.submit(question, self._executors[address])
                for address, question in questions.items()
            }
        for address, answer in asked.items():
            try:
                answers[address] = answer.result()
            except HoldfastError as error:
                who = f"task executor {address}"
                why = str(error).removeprefix(who).lstrip()
                failures[address] = printable(f"{who}: {why}")
        return answers, failures


def _held_by(executor: RemoteTaskExecutor) -> list[tuple[DataSetReport, PartitionsPlace]]:
    # A sign of life comes soon or never; a report may take its time.
    executor.describe()
    held = []
    for report in executor.report(None):
        try:
            wrong = executor.damage(report.application, report.output)
        except (UnknownApplicationError, UnknownDataSetError):
            # Released since the report.
            continue
        held.append(
            (
                report,
                PartitionsPlace(
                    host=report.host,
                    directory=report.directory,
                    partitions=report.partitions,
                    damage=wrong,
                    executor_id=report.executor_id,
                ),
            )
        )
    return held


def _together(parts: Sequence[tuple[DataSetReport, PartitionsPlace]]) -> ListedDataSet:
    first = parts[0][0]
    indices = {each.index for report, _ in parts for each in report.partitions}
    number = max(report.number_of_partitions for report, _ in parts)
    return ListedDataSet(
        application=first.application,
        output=first.output,
        computes=first.computes,
        created=moment(first.created),
        number_of_partitions=number,
        partitions_found=len(indices),
        state=_state(indices, number, (place for _, place in parts)),
        # Each has been told of all hits, some of them later than others.
        hits=max(report.hits for report, _ in parts),
        places=tuple(place for _, place in parts),
    )


def _state(indices: set[int], number: int, places: Iterable[PartitionsPlace]) -> DataSetState:
    if any(place.damage is not None for place in places):
        return DataSetState.DAMAGED
    if len(indices) == number:
        return DataSetState.COMPLETE
    # Spark always leaves a file of the first partition, and of others only when they have rows.
    return DataSetState.UNCLEAR if 0 in indices else DataSetState.INCOMPLETE


def _application(dataset: ListedDataSet) -> ApplicationID:
    # An executor says of each output whose it is.
    assert dataset.application is not None
    return dataset.application

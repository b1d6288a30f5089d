"""What task executors keep, put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.cataloged_result import CatalogedResult
from holdfast.cli.catalog_access import catalog_at
from holdfast.cli.datasets.dataset_source import Found, Records, Released
from holdfast.cli.datasets.listed_dataset import (
    Contents,
    DataSetState,
    ListedDataSet,
    PartitionsPlace,
    Sharing,
    moment,
)
from holdfast.cli.datasets.printable import printable
from holdfast.cli.task_executors import PATIENT, ask_at_once, remote_executors
from holdfast.errors import (
    CatalogError,
    UnknownApplicationError,
    UnknownDataSetError,
)
from holdfast.ids import CATALOG_APPLICATION, ApplicationID
from holdfast.lazy_module import LazyModule
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.calls.gateway import DataSetReport
from holdfast.taskexecutor.partitions.partition_info import OutputID

if TYPE_CHECKING:
    from holdfast.cli.datasets import footer
else:
    footer = LazyModule("holdfast.cli.datasets.footer")

_Part = tuple[DataSetReport, PartitionsPlace]

R = TypeVar("R")


class ExecutorSource:
    """A Source over task executors, asked all at once.

    Args:
        addresses: each `host:port`.
        token: what they share with those who may use them.
        timeouts: how long each is waited for.
        catalog_url: of the catalog that they hold results for; None where it isn't given.

    Raises:
        BadInputError: when an address is none.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        token: str,
        timeouts: Timeouts = PATIENT,
        catalog_url: str | None = None,
    ) -> None:
        self._token = token
        self._catalog_url = catalog_url
        self._executors = remote_executors(addresses, token, timeouts)

    @property
    def name(self) -> str:
        return f"task executors {', '.join(self._executors)}"

    def find(self) -> Found:
        answers, failures = ask_at_once(self._executors, dict.fromkeys(self._executors, _held_by))
        held: dict[tuple[ApplicationID, OutputID], list[_Part]] = {}
        for address, parts in answers.items():
            for report, place in parts:
                same = held.setdefault((report.application, report.output), [])
                _add(same, report, replace(place, address=address))
        _fold(held)
        records, unread = self._in_catalog(Records.of, Records())
        recorded = {result.name: result for result in records.kept}
        found = (_together(held[key]) for key in sorted(held))
        return Found(
            tuple(_with_record(dataset, recorded) for dataset in found),
            (*failures.values(), *unread),
            records.not_kept,
        )

    def contents(self, dataset: ListedDataSet) -> Contents | None:
        for partition, place in dataset.partitions:
            if place.address is not None:
                found = footer.contents_of(
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
            for application in {_application(dataset), CATALOG_APPLICATION}:
                # One that is unknown has ended, and everything of it went with it.
                with suppress(UnknownApplicationError):
                    executor.release_outputs(application, [dataset.output])

        withdrawn, unread = self._withdraw(dataset.output.name)
        places = {place.address: place for place in dataset.places if place.address is not None}
        answers, failures = ask_at_once(self._executors, dict.fromkeys(places, release))
        if not failures:
            self._in_catalog(lambda catalog: catalog.holders.removed(withdrawn), None)
        return Released(
            tuple(places[address] for address in answers), (*failures.values(), *unread)
        )

    def _withdraw(self, name: str) -> tuple[list[int], tuple[str, ...]]:
        """No program finds the dataset any more; what it was in the catalog."""

        def withdraw(catalog: Catalog) -> list[int]:
            numbers = [each.number for each in catalog.reading.named(name)]
            gone = catalog.holders.withdraw("it was removed by hand", numbers=numbers)
            return [result.number for result in gone]

        return self._in_catalog(withdraw, [])

    def _in_catalog(self, ask: Callable[[Catalog], R], otherwise: R) -> tuple[R, tuple[str, ...]]:
        if self._catalog_url is None:
            return otherwise, ()
        try:
            with catalog_at(self._catalog_url) as catalog:
                if catalog is None:
                    return otherwise, (f"there is no catalog at {self._catalog_url}",)
                return ask(catalog), ()
        except CatalogError as error:
            return otherwise, (printable(str(error)),)


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


def _add(same: list[_Part], report: DataSetReport, place: PartitionsPlace) -> None:
    # Two addresses may lead to the same executor.
    if all(report.executor_id != other.executor_id for other, _ in same):
        same.append((report, place))


def _fold(held: dict[tuple[ApplicationID, OutputID], list[_Part]]) -> None:
    """What its program and the catalog both have is one dataset: the files are the same."""
    owners = {
        output: (application, output)
        for application, output in held
        if application != CATALOG_APPLICATION
    }
    for output, owner in owners.items():
        for report, place in held.pop((CATALOG_APPLICATION, output), ()):
            _add(held[owner], report, place)


def _with_record(dataset: ListedDataSet, recorded: Mapping[str, CatalogedResult]) -> ListedDataSet:
    result = recorded.get(dataset.output.name)
    return dataset if result is None else replace(dataset, sharing=Sharing.of(result))


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
        ambiguous=first.ambiguous,
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

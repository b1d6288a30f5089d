"""Where datasets are looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.cataloged_result import CatalogedResult, ResultState
from holdfast.catalog.reading.result_list import ResultFilter
from holdfast.cli.datasets.listed_dataset import Contents, ListedDataSet, PartitionsPlace

_REFUSED = 20


@dataclass(frozen=True, slots=True)
class Found:
    """What a source has.

    Attributes:
        datasets: by application and output.
        failures: who could not be asked, and why, a line each.
        not_kept: what programs have tried to keep last, and could not.
    """

    datasets: tuple[ListedDataSet, ...]
    failures: tuple[str, ...] = ()
    not_kept: tuple[CatalogedResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Records:
    """What a catalog records.

    Attributes:
        kept: the results that are kept.
        not_kept: what programs have tried to keep last, and could not.
    """

    kept: tuple[CatalogedResult, ...] = ()
    not_kept: tuple[CatalogedResult, ...] = ()

    @classmethod
    def of(cls, catalog: Catalog) -> Records:
        """Those of a catalog.

        Raises:
            CatalogError: when it can't be read.
        """
        refused = catalog.reading.results(ResultFilter(state=ResultState.NOT_KEPT), most=_REFUSED)
        return cls(tuple(catalog.reading.all()), refused.results)


@dataclass(frozen=True, slots=True)
class Released:
    """What became of a release.

    Attributes:
        places: where the dataset was released.
        failures: where it was not, and why, a line each.
    """

    places: tuple[PartitionsPlace, ...]
    failures: tuple[str, ...] = ()


class DataSetSource(Protocol):
    """The directory of environments on this machine, or task executors."""

    @property
    def name(self) -> str:
        """What it is called in a sentence."""

    def find(self) -> Found:
        """Everything that is kept there.

        Raises:
            BadInputError: when there is nothing that could be looked at.
        """

    def contents(self, dataset: ListedDataSet) -> Contents | None:
        """What a dataset's rows are; None where that can't be told."""

    def release(self, dataset: ListedDataSet) -> Released:
        """Releases a dataset everywhere; a job that needs it computes it again."""

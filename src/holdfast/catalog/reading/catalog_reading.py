"""What people see of a catalog. Each call is one transaction, which only reads."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import select

from holdfast.catalog.catalog_scope import CatalogScope
from holdfast.catalog.cataloged_result import CatalogedResult
from holdfast.catalog.reading.activity import Happening, lately
from holdfast.catalog.reading.overview import Overview, largest, overview
from holdfast.catalog.reading.result_detail import ResultDetail, result_detail
from holdfast.catalog.reading.result_list import (
    ResultFilter,
    ResultPage,
    ResultSort,
    list_results,
    results_named,
)
from holdfast.catalog.schema import RESULTS

_AT_ONCE = 2_000


class CatalogReading:
    """What the commands and the page show of results.

    Args:
        scope: of whoever looks.

    Every method raises CatalogError when the database can't be used.
    """

    def __init__(self, scope: CatalogScope) -> None:
        self._scope = scope

    def overview(self, days: int = 30) -> Overview:
        """What is kept, and what that has saved.

        Args:
            days: how many of the last days are told one by one.
        """
        with self._scope.database.reading() as connection:
            return overview(connection, self._scope.database.now(connection), days)

    def results(
        self,
        which: ResultFilter | None = None,
        sort: ResultSort = ResultSort.USED,
        *,
        descending: bool = True,
        offset: int = 0,
        most: int | None = None,
    ) -> ResultPage:
        """A page of results, see `list_results`."""
        with self._scope.database.reading() as connection:
            return list_results(
                connection,
                which or ResultFilter(),
                sort,
                descending=descending,
                offset=offset,
                most=most,
            )

    def all(
        self, which: ResultFilter | None = None, sort: ResultSort = ResultSort.CREATED
    ) -> Iterator[CatalogedResult]:
        """Every result of these, the last ones first, some thousands at a time.

        Args:
            which: which ones; those that are kept by default.
            sort: by what they are sorted.
        """
        offset = 0
        while True:
            page = self.results(which, sort, offset=offset, most=_AT_ONCE)
            yield from page.results
            offset += _AT_ONCE
            if offset >= page.total:
                return

    def named(self, prefix: str, most: int = 2) -> tuple[CatalogedResult, ...]:
        """Results whose names begin so, kept ones first.

        Args:
            prefix: of `<dataset>-<attempt>`.
            most: how many.
        """
        with self._scope.database.reading() as connection:
            return results_named(connection, prefix, most)

    def detail(self, number: int) -> ResultDetail | None:
        """All that is known of a result; None where there is none of that number.

        Args:
            number: of its record.
        """
        with self._scope.database.reading() as connection:
            now = self._scope.database.now(connection)
            return result_detail(connection, number, now, self._scope.may_remove())

    def largest(self, most: int) -> tuple[tuple[CatalogedResult, ...], int, int]:
        """The largest results that are kept, and number and bytes of all others.

        Args:
            most: how many.
        """
        with self._scope.database.reading() as connection:
            return largest(connection, most)

    def lately(self, most: int) -> list[Happening]:
        """What has happened last, the latest first.

        Args:
            most: how much of it.
        """
        with self._scope.database.reading() as connection:
            return lately(connection, most)

    def owners(self) -> list[str]:
        """Whoever has kept a result, sorted."""
        with self._scope.database.reading() as connection:
            return sorted(connection.scalars(select(RESULTS.c.user_name).distinct()))

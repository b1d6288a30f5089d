"""What a catalog's results have saved so far, and what room they take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from holdfast.catalog.catalog_scope import PINNED
from holdfast.catalog.cataloged_result import CatalogedResult, ResultState
from holdfast.catalog.days import SECONDS, Counts, counted, total
from holdfast.catalog.reading.result_list import ResultFilter, ResultSort, list_results
from holdfast.catalog.schema import PROGRAMS, RESULTS

_WEEK = 7


@dataclass(frozen=True, slots=True)
class Overview:
    """What is kept, and what that has saved.

    Attributes:
        today: what has happened since midnight, UTC.
        week: in the last seven days, today being one of them.
        ever: since the catalog has counted.
        days: by days since 1970, the last ones.
        results: how many are kept.
        bytes: of these.
        programs: how many use the catalog at this moment.
    """

    today: Counts
    week: Counts
    ever: Counts
    days: Mapping[int, Counts]
    results: int
    bytes: int
    programs: int


def overview(connection: Connection, now: float, days: int = 30) -> Overview:
    """What has been saved until now.

    Args:
        connection: within a transaction.
        now: the time, in seconds since 1970.
        days: how many of the last days are told one by one.
    """
    today = int(now // SECONDS)
    ever = counted(connection)
    kept = connection.execute(
        select(func.count(), func.coalesce(func.sum(RESULTS.c.bytes), 0)).where(
            RESULTS.c.state == ResultState.KEPT.value
        )
    ).one()
    programs = connection.scalar(
        select(func.count())
        .select_from(PROGRAMS)
        .where(PROGRAMS.c.alive_until > now, PROGRAMS.c.application != PINNED)
    )
    return Overview(
        today=ever.get(today, Counts()),
        week=total({day: each for day, each in ever.items() if day > today - _WEEK}),
        ever=total(ever),
        days={day: ever.get(day, Counts()) for day in range(today - days + 1, today + 1)},
        results=int(kept[0]),
        bytes=int(kept[1]),
        programs=int(programs or 0),
    )


def largest(connection: Connection, most: int) -> tuple[tuple[CatalogedResult, ...], int, int]:
    """The largest results that are kept, and number and bytes of all others.

    Args:
        connection: within a transaction.
        most: how many.
    """
    page = list_results(connection, ResultFilter(), ResultSort.SIZE, most=most)
    shown = sum(each.bytes for each in page.results)
    return page.results, page.total - len(page.results), page.bytes - shown

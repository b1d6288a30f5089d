"""Results, filtered, sorted and page by page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlalchemy import ColumnElement, Connection, Row, func, or_, select

from holdfast.catalog.catalog_url import SQLITE
from holdfast.catalog.cataloged_result import CatalogedResult, ResultState
from holdfast.catalog.records import result_in
from holdfast.catalog.schema import RESULTS


class ResultSort(Enum):
    """By what results are sorted."""

    COMPUTES = "computes"
    OWNER = "owner"
    CREATED = "created"
    USED = "used"
    USES = "uses"
    SIZE = "size"
    ROWS = "rows"
    COST = "cost"
    SAVED = "saved"


_COLUMNS = {
    ResultSort.COMPUTES: RESULTS.c.computes,
    ResultSort.OWNER: RESULTS.c.user_name,
    ResultSort.CREATED: RESULTS.c.created,
    ResultSort.USED: RESULTS.c.last_used,
    ResultSort.USES: RESULTS.c.uses,
    ResultSort.SIZE: RESULTS.c.bytes,
    ResultSort.ROWS: RESULTS.c.row_count,
    ResultSort.COST: RESULTS.c.seconds,
    ResultSort.SAVED: RESULTS.c.saved_seconds,
}

_ESCAPE = "~"
_ESCAPED = str.maketrans({each: _ESCAPE + each for each in f"%_{_ESCAPE}"})


@dataclass(frozen=True, slots=True)
class ResultFilter:
    """Which results.

    Attributes:
        text: what stands in what they compute, or what their name, owner or host begins with; empty
            for any.
        owner: who has kept them; None for anybody.
        state: what has become of them; None for whatever.
        application: which program has kept them, in 32 digits; None for any.
        unused_since: those alone that nobody has read and that were kept before that moment, in
            seconds since 1970; None for all.
        has_reasons: those alone that are not read everywhere, or not kept.
    """

    text: str = ""
    owner: str | None = None
    state: ResultState | None = ResultState.KEPT
    application: str | None = None
    unused_since: float | None = None
    has_reasons: bool = False

    def conditions(self, dialect: str) -> list[ColumnElement[bool]]:
        """What a row of results has to fulfil.

        Args:
            dialect: of the database.
        """
        found: list[ColumnElement[bool]] = []
        if self.state is not None:
            # Not as an index of states has it: nearly all are kept, so it would find no few.
            found.append(RESULTS.c.state.concat("") == self.state.value)
        if self.owner is not None:
            found.append(RESULTS.c.user_name == self.owner)
        if self.application is not None:
            found.append(RESULTS.c.application == self.application)
        if self.unused_since is not None:
            found += [RESULTS.c.uses == 0, RESULTS.c.created < self.unused_since]
        if self.has_reasons:
            found.append(RESULTS.c.reasons.is_not(None))
        if self.text:
            text = self.text.translate(_ESCAPED)
            columns = (RESULTS.c.name, RESULTS.c.user_name, RESULTS.c.host)
            found.append(
                or_(
                    _like(RESULTS.c.computes, f"%{text}%", dialect),
                    *(_like(column, f"{text}%", dialect) for column in columns),
                )
            )
        return found


def _like(column: ColumnElement[str], pattern: str, dialect: str) -> ColumnElement[bool]:
    # SQLite's LIKE takes no notice of case, and is twice as fast as comparing lower cases.
    like = column.like if dialect == SQLITE else column.ilike
    return like(pattern, escape=_ESCAPE)


@dataclass(frozen=True, slots=True)
class ResultPage:
    """Some of the results that are asked for.

    Attributes:
        results: those of the page.
        total: how many there are in all.
        bytes: of all of them.
        saved_seconds: what all of them have saved.
    """

    results: tuple[CatalogedResult, ...]
    total: int
    bytes: int
    saved_seconds: float


def list_results(
    connection: Connection,
    which: ResultFilter,
    sort: ResultSort = ResultSort.USED,
    *,
    descending: bool = True,
    offset: int = 0,
    most: int | None = None,
) -> ResultPage:
    """A page of results.

    Args:
        connection: within a transaction.
        which: which ones.
        sort: by what they are sorted; the later one first, where that is the same.
        descending: the greatest one first.
        offset: how many are left out before.
        most: how many the page has; None for all.
    """
    conditions = which.conditions(connection.dialect.name)
    sums = connection.execute(
        select(
            func.count(),
            func.coalesce(func.sum(RESULTS.c.bytes), 0),
            func.coalesce(func.sum(RESULTS.c.saved_seconds), 0.0),
        ).where(*conditions)
    ).one()
    column = _COLUMNS[sort]
    # The numbers first: rows are wide, and nearly all of those that are sorted are not shown.
    numbers = (
        select(RESULTS.c.number)
        .where(*conditions)
        .order_by(column.desc() if descending else column.asc(), RESULTS.c.number.desc())
        .offset(offset)
        .limit(most)
    )
    chosen = list(connection.scalars(numbers))
    return ResultPage(_rows(connection, chosen), int(sums[0]), int(sums[1]), float(sums[2]))


def results_named(
    connection: Connection, prefix: str, most: int = 2
) -> tuple[CatalogedResult, ...]:
    """Results whose names begin so, kept ones first.

    Args:
        connection: within a transaction.
        prefix: of `<dataset>-<attempt>`.
        most: how many.
    """
    begins = RESULTS.c.dataset_id.startswith(prefix.partition("-")[0], autoescape=True)
    numbers = (
        select(RESULTS.c.number)
        .where(begins, RESULTS.c.name.startswith(prefix, autoescape=True))
        .order_by((RESULTS.c.state == ResultState.KEPT.value).desc(), RESULTS.c.number.desc())
        .limit(most)
    )
    return _rows(connection, list(connection.scalars(numbers)))


def _rows(connection: Connection, numbers: list[int]) -> tuple[CatalogedResult, ...]:
    found: dict[int, Row[tuple[object, ...]]] = {
        row.number: row
        for row in connection.execute(select(RESULTS).where(RESULTS.c.number.in_(numbers)))
    }
    return tuple(result_in(found[number]) for number in numbers if number in found)

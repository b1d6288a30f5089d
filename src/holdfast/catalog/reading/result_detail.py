"""All that is known of one result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, select

from holdfast.catalog.catalog_scope import PINNED, THE_CATALOG
from holdfast.catalog.cataloged_result import CatalogedResult, MadeFrom
from holdfast.catalog.reading.activity import Happening, uses_of
from holdfast.catalog.records import (
    result_in,
    unpacked,
    unpacked_sources,
    unpacked_statistics,
)
from holdfast.catalog.schema import HOLDERS, INPUTS, MANIFESTS, PROGRAMS, RESULTS
from holdfast.storage.column_statistics import ColumnStatistics
from holdfast.storage.kept_dataset import KeptDataSet

_SHOWN_USES = 200


@dataclass(frozen=True, slots=True)
class ResultDetail:
    """A result, what it was made from, and who holds it.

    Attributes:
        result: its record.
        kept: where it lies; None where that can't be read.
        made_from: the files and settings.
        statistics: of its columns, by their names in the files.
        uses: when it was read, the latest first.
        programs: of how many programs that live it is held.
        until: until when the catalog holds it, in seconds since 1970; None where it doesn't.
        is_pinned: whether somebody has pinned it.
        may_change: whether the user that asks may pin and release it.
        read: names of the results that were read when it was produced, with what they compute.
    """

    result: CatalogedResult
    kept: KeptDataSet | None
    made_from: MadeFrom
    statistics: Mapping[str, ColumnStatistics]
    uses: tuple[Happening, ...]
    programs: int
    until: float | None
    is_pinned: bool
    may_change: bool
    read: Mapping[str, str]


def result_detail(
    connection: Connection, number: int, now: float, may_remove: ColumnElement[bool]
) -> ResultDetail | None:
    """All of a result; None where there is none of that number.

    Args:
        connection: within a transaction.
        number: of its record.
        now: the time, in seconds since 1970.
        may_remove: which results the user that asks may remove.
    """
    row = connection.execute(
        select(RESULTS, may_remove.label("may_change")).where(RESULTS.c.number == number)
    ).first()
    if row is None:
        return None
    lies = connection.execute(select(MANIFESTS).where(MANIFESTS.c.result == number)).first()
    kept, made_from, statistics = None, MadeFrom(), {}
    if lies is not None:
        kept = _kept(lies.content)
        made_from = unpacked_sources(lies.made_from)
        statistics = unpacked_statistics(lies.statistics)
    holders = connection.execute(
        select(HOLDERS.c.application, HOLDERS.c.until).where(HOLDERS.c.result == number)
    ).all()
    until = {each.application: each.until for each in holders}
    alive = set(
        connection.scalars(
            select(PROGRAMS.c.application).where(
                PROGRAMS.c.application.in_(until), PROGRAMS.c.alive_until > now
            )
        )
    )
    read = connection.execute(
        select(RESULTS.c.dataset_id, RESULTS.c.name, RESULTS.c.computes)
        .join(INPUTS, INPUTS.c.dataset_id == RESULTS.c.dataset_id)
        .where(INPUTS.c.result == number)
        .order_by(RESULTS.c.number)
    )
    return ResultDetail(
        result_in(row),
        kept,
        made_from,
        statistics,
        tuple(uses_of(connection, number, _SHOWN_USES)),
        len(alive - {PINNED}),
        until.get(THE_CATALOG),
        PINNED in alive,
        bool(row.may_change),
        # Of each dataset the last one.
        dict({each.dataset_id: (each.name, each.computes) for each in read}.values()),
    )


def _kept(content: bytes) -> KeptDataSet | None:
    try:
        return unpacked(content)
    except ValueError:
        # Another version of Holdfast has described it.
        return None

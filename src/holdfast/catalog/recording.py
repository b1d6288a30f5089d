"""Rows of results: how they come, who holds them, and how they go. Within a transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import ColumnElement, Connection, and_, delete, func, select, update

from holdfast.catalog.catalog_scope import THE_CATALOG, CatalogScope
from holdfast.catalog.cataloged_result import (
    CatalogedResult,
    ProducedResult,
    ProgramIdentity,
    ResultState,
)
from holdfast.catalog.profit import REFERENCES
from holdfast.catalog.records import (
    checksum,
    packed,
    packed_sources,
    packed_statistics,
    result_in,
)
from holdfast.catalog.schema import HOLDERS, INPUTS, MANIFESTS, RESULTS
from holdfast.plan.reasons import Reason
from holdfast.storage.column_statistics import ColumnStatistics

EVICTED = "evicted to make room"
"""Why something is gone for which there was no room."""


def references(
    connection: Connection,
    produced: ProducedResult,
    now: float,
    *,
    apart_from: int | None = None,
) -> tuple[float, ...]:
    """When a new result was asked for, with what is remembered from when it was kept before.

    Args:
        connection: within a transaction.
        produced: the result.
        now: the time, in seconds since 1970.
        apart_from: the number of its own record, where it has one.
    """
    before = connection.scalar(
        select(RESULTS.c.used)
        .where(
            RESULTS.c.dataset_id == produced.dataset_id.hex,
            RESULTS.c.number.is_distinct_from(apart_from),
        )
        .order_by(RESULTS.c.number.desc())
        .limit(1)
    )
    known: list[float] = [] if before is None else json.loads(before)
    return tuple([*known, now][-REFERENCES:])


def insert(
    connection: Connection,
    scope: CatalogScope,
    produced: ProducedResult,
    state: ResultState,
    now: float,
    program: ProgramIdentity | None = None,
    environment: str | None = None,
) -> int:
    """Records a result; returns its number.

    Args:
        connection: within a transaction.
        scope: of the program.
        produced: the result.
        state: what has become of it.
        now: the time, in seconds since 1970.
        program: who has kept it; None: the scope's.
        environment: what its digest takes for granted; None: as the scope's.
    """
    kept, program = produced.kept, program or scope.program
    inserted = connection.execute(
        RESULTS.insert().values(
            storage=scope.storage,
            environment=environment or scope.environment,
            dataset_id=produced.dataset_id.hex,
            digest=produced.digest,
            shape=produced.shape,
            name=kept.name or produced.dataset_id.hex,
            state=state.value,
            computes=kept.manifest.dataset.computes,
            directories=json.dumps(kept.directories),
            is_shared=int(produced.is_shared),
            audience=produced.audience.value,
            user_name=program.user,
            group_name=program.groups[0] if program.groups else "",
            host=program.host,
            application=program.application.hex,
            bytes=kept.bytes,
            row_count=kept.rows,
            partitions=len(kept.manifest.partitions),
            seconds=produced.seconds,
            cpu_seconds=produced.cpu_seconds,
            created=now,
            lifetime=produced.lifetime,
            uses=0,
            saved_seconds=0.0,
            used=json.dumps(references(connection, produced, now)),
            last_used=now,
            reasons=_recorded(produced.reasons),
        )
    )
    key = inserted.inserted_primary_key
    assert key is not None
    return int(key[0])


def _recorded(reasons: Sequence[Reason]) -> str | None:
    return json.dumps([each.recorded() for each in reasons]) if reasons else None


def describe(
    connection: Connection,
    number: int,
    produced: ProducedResult,
    statistics: Mapping[str, ColumnStatistics],
) -> None:
    """Records where a result lies, and what it was made from."""
    content = packed(produced.kept)
    connection.execute(
        MANIFESTS.insert().values(
            result=number,
            checksum=checksum(content),
            content=content,
            made_from=packed_sources(produced.made_from),
            statistics=packed_statistics(statistics),
        )
    )
    inputs = [{"result": number, "dataset_id": each.hex} for each in set(produced.inputs)]
    if inputs:
        connection.execute(INPUTS.insert(), inputs)


def add_holder(connection: Connection, number: int, application: str, until: float | None) -> None:
    """A program, or the catalog, holds a result; until when, in seconds since 1970."""
    of_this = and_(HOLDERS.c.result == number, HOLDERS.c.application == application)
    held = connection.execute(update(HOLDERS).where(of_this).values(until=until))
    if not held.rowcount:
        connection.execute(
            HOLDERS.insert().values(result=number, application=application, until=until)
        )


def still_used(connection: Connection, held: ColumnElement[bool], now: float) -> None:
    """What programs hold until now they use until now: its lifetimes begin anew.

    Args:
        connection: within a transaction.
        held: the rows of the programs among those of holders.
        now: the time, in seconds since 1970.
    """
    of_programs = select(HOLDERS.c.result).where(held)
    lifetime = (
        select(RESULTS.c.lifetime).where(RESULTS.c.number == HOLDERS.c.result).scalar_subquery()
    )
    connection.execute(
        update(HOLDERS)
        .where(HOLDERS.c.application == THE_CATALOG, HOLDERS.c.result.in_(of_programs))
        # What has none stays for the next start of its program.
        .values(until=func.coalesce(now + lifetime, HOLDERS.c.until))
    )


def going(
    connection: Connection, numbers: Sequence[int], why: str, now: float
) -> tuple[CatalogedResult, ...]:
    """Withdraws results; those that go with their program's directory are gone at once."""
    if not numbers:
        return ()
    kept = and_(
        RESULTS.c.number.in_(numbers),
        RESULTS.c.state.in_((ResultState.KEPT.value, ResultState.COMING.value)),
    )
    rows = connection.execute(select(RESULTS).where(kept)).all()
    for is_shared, state in ((1, ResultState.GOING), (0, ResultState.GONE)):
        connection.execute(
            update(RESULTS)
            .where(kept, RESULTS.c.is_shared == is_shared)
            .values(state=state.value, why_gone=why, gone=now)
        )
    connection.execute(delete(HOLDERS).where(HOLDERS.c.result.in_(numbers)))
    return tuple(map(result_in, rows))

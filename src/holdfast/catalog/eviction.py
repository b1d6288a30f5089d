"""Making room for a result in a catalog."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, and_, func, select

from holdfast.catalog.catalog_scope import CatalogScope, is_held_by_program
from holdfast.catalog.cataloged_result import ProducedResult, ResultState
from holdfast.catalog.profit import Room, Valued, make_room
from holdfast.catalog.recording import references
from holdfast.catalog.schema import INPUTS, RESULTS

_CANDIDATES = 1000


def room_for(
    connection: Connection,
    scope: CatalogScope,
    produced: ProducedResult,
    limit: Callable[[int], int | None],
    now: float,
    *,
    announced: int | None = None,
    must_be_kept: bool = True,
    giving_way: Collection[int] = (),
) -> Room[int]:
    """How there is room for a new result, where that is up to the catalog; within a transaction.

    Args:
        connection: within a transaction that is alone.
        scope: of the program.
        produced: the new result.
        limit: how many bytes all results may have, of how many they have now; None: any number.
        now: the time, in seconds since 1970.
        announced: the number of its own record, where it has one.
        must_be_kept: whether it is kept whatever others are worth that have to go for it.
        giving_way: what may go although the scope's program holds it.
    """
    here = and_(RESULTS.c.storage == scope.storage, RESULTS.c.state == ResultState.KEPT.value)
    total = int(connection.scalar(select(func.sum(RESULTS.c.bytes)).where(here)) or 0)
    most = limit(total)
    if most is None or total + produced.kept.bytes <= most:
        return Room(True)
    rows = connection.execute(
        select(RESULTS)
        .where(here, scope.may_remove(), ~is_held_by_program(now, scope.me, giving_way))
        # What may be worth least; the rest of the formula is reckoned with these alone.
        .order_by(
            (RESULTS.c.uses + 1)
            * RESULTS.c.seconds
            / ((RESULTS.c.bytes + 1) * (now - RESULTS.c.created + 1.0))
        )
        .limit(_CANDIDATES)
    ).all()
    made_of = connection.execute(
        select(INPUTS).where(INPUTS.c.result.in_([row.number for row in rows]))
    ).all()
    own_inputs = {each.hex for each in produced.inputs}
    gone = _gone(connection, scope, {row.dataset_id for row in made_of} | own_inputs)
    numbers = {row.dataset_id: row.number for row in (*gone, *rows)}
    inputs: dict[int, list[int]] = {}
    for row in made_of:
        if row.dataset_id in numbers:
            inputs.setdefault(row.result, []).append(numbers[row.dataset_id])
    newcomer = Valued(
        0,
        produced.kept.bytes,
        produced.seconds,
        references(connection, produced, now, apart_from=announced),
        tuple(numbers[each] for each in own_inputs if each in numbers),
    )
    return make_room(
        newcomer,
        [_valued(row, inputs) for row in rows],
        most - total,
        now,
        gone=[_valued(row, inputs) for row in gone],
        must_be_kept=must_be_kept,
    )


def _gone(
    connection: Connection, scope: CatalogScope, dataset_ids: Collection[str]
) -> list[Row[Any]]:
    """Of datasets that aren't kept any more the last result of each."""
    rows = connection.execute(
        select(RESULTS)
        .where(
            RESULTS.c.dataset_id.in_(dataset_ids),
            RESULTS.c.storage == scope.storage,
            RESULTS.c.state != ResultState.NOT_KEPT.value,
        )
        # The last one counts: one that is kept, where there is one.
        .order_by(RESULTS.c.state == ResultState.KEPT.value, RESULTS.c.number)
    )
    last = {row.dataset_id: row for row in rows}
    return [row for row in last.values() if row.state != ResultState.KEPT.value]


def _valued(row: Row[Any], inputs: Mapping[int, Sequence[int]]) -> Valued[int]:
    used = tuple(json.loads(row.used))
    made_of = tuple(inputs.get(row.number, ()))
    return Valued(row.number, row.bytes, row.seconds, used, made_of)

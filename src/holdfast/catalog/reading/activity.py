"""What has happened lately to the results of a catalog."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sqlalchemy import Connection, select

from holdfast.catalog.cataloged_result import ResultState
from holdfast.catalog.recording import EVICTED
from holdfast.catalog.schema import RESULTS, USES


class HappeningKind(Enum):
    """What has happened."""

    KEPT = "kept"
    READ = "read"
    EVICTED = "evicted"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that has happened to a result.

    Attributes:
        kind: what.
        number: of the result's record.
        name: of this production of it, `<dataset>-<attempt>`.
        computes: the computation in a few words.
        user: whose program did it; of what is gone, who had kept it.
        moment: when, in seconds since 1970.
        id: no other happening has it.
        bytes: the size of the result.
        seconds: what it took to produce, or what reading it has saved.
        why: why it is gone.
    """

    kind: HappeningKind
    number: int
    name: str
    computes: str
    user: str
    moment: float
    id: str
    bytes: int = 0
    seconds: float = 0.0
    why: str | None = None


def lately(connection: Connection, most: int) -> list[Happening]:
    """What has happened last, the latest first.

    Args:
        connection: within a transaction.
        most: how much of it.
    """
    found = [*_kept(connection, most), *_read(connection, most), *_gone(connection, most)]
    found.sort(key=lambda each: (each.moment, each.number), reverse=True)
    return found[:most]


def uses_of(connection: Connection, number: int, most: int) -> list[Happening]:
    """When a result was read, the latest first.

    Args:
        connection: within a transaction.
        number: of its record.
        most: how many times.
    """
    return _read(connection, most, number)


def _kept(connection: Connection, most: int) -> list[Happening]:
    rows = connection.execute(
        select(RESULTS)
        .where(RESULTS.c.state.not_in((ResultState.COMING.value, ResultState.NOT_KEPT.value)))
        .order_by(RESULTS.c.number.desc())
        .limit(most)
    )
    return [
        Happening(
            HappeningKind.KEPT,
            row.number,
            row.name,
            row.computes,
            row.user_name,
            row.created,
            f"kept-{row.number}",
            row.bytes,
            row.seconds,
        )
        for row in rows
    ]


def _read(connection: Connection, most: int, number: int | None = None) -> list[Happening]:
    asked = select(USES, RESULTS.c.name, RESULTS.c.computes, RESULTS.c.bytes).join(
        RESULTS, RESULTS.c.number == USES.c.result
    )
    if number is not None:
        asked = asked.where(USES.c.result == number)
    rows = connection.execute(asked.order_by(USES.c.used.desc()).limit(most))
    return [
        Happening(
            HappeningKind.READ,
            row.result,
            row.name,
            row.computes,
            row.user_name,
            row.used,
            f"read-{row.number}",
            row.bytes,
            row.saved_seconds,
        )
        for row in rows
    ]


def _gone(connection: Connection, most: int) -> list[Happening]:
    rows = connection.execute(
        select(RESULTS)
        .where(RESULTS.c.gone.is_not(None))
        .order_by(RESULTS.c.gone.desc())
        .limit(most)
    )
    return [
        Happening(
            HappeningKind.EVICTED if row.why_gone == EVICTED else HappeningKind.GONE,
            row.number,
            row.name,
            row.computes,
            row.user_name,
            row.gone,
            f"gone-{row.number}",
            row.bytes,
            row.seconds,
            row.why_gone,
        )
        for row in rows
    ]

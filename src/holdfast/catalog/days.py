"""What is counted of each day, and stays when the results are forgotten."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select, update
from sqlalchemy.exc import IntegrityError

from holdfast.catalog.schema import DAYS

SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Counts:
    """What has happened in some time.

    Attributes:
        uses: how often kept results were read.
        read_bytes: of what was read.
        saved_seconds: about how much time that has saved.
        kept: how many results were kept.
        kept_bytes: of these.
        produced_seconds: how long it took to produce them.
    """

    uses: int = 0
    read_bytes: int = 0
    saved_seconds: float = 0.0
    kept: int = 0
    kept_bytes: int = 0
    produced_seconds: float = 0.0

    @property
    def hit_rate(self) -> float | None:
        """Which part of the time that results take to produce was saved; None of no time."""
        whole = self.saved_seconds + self.produced_seconds
        return self.saved_seconds / whole if whole else None


_NAMES = tuple(Counts.__dataclass_fields__)


def count(connection: Connection, user: str, now: float, counts: Counts) -> None:
    """Something has happened.

    Args:
        connection: within a transaction that writes.
        user: whose program did it.
        now: the time, in seconds since 1970.
        counts: what.
    """
    row = {"day": int(now // SECONDS), "user_name": user}
    added = {name: DAYS.c[name] + getattr(counts, name) for name in _NAMES}
    of_today = update(DAYS).where(*(DAYS.c[name] == value for name, value in row.items()))
    if connection.execute(of_today.values(added)).rowcount:
        return
    try:
        with connection.begin_nested():
            first = {name: getattr(counts, name) for name in _NAMES}
            connection.execute(DAYS.insert().values(row | first))
    except IntegrityError:
        # Another program has been faster.
        connection.execute(of_today.values(added))


def counted(connection: Connection) -> dict[int, Counts]:
    """What has happened, by days since 1970; days on which nothing has are left out.

    Args:
        connection: within a transaction.
    """
    sums = [func.sum(DAYS.c[name]).label(name) for name in _NAMES]
    asked = select(DAYS.c.day, *sums).group_by(DAYS.c.day).order_by(DAYS.c.day)
    rows = connection.execute(asked)
    return {
        row.day: Counts(
            int(row.uses),
            int(row.read_bytes),
            float(row.saved_seconds),
            int(row.kept),
            int(row.kept_bytes),
            float(row.produced_seconds),
        )
        for row in rows
    }


def total(counts: dict[int, Counts]) -> Counts:
    """All of them together."""
    return Counts(*(sum(getattr(each, name) for each in counts.values()) for name in _NAMES))

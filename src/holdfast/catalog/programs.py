"""The programs that use a catalog: each lives as long as its lease."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, delete, select, update

from holdfast.catalog.catalog_scope import CatalogScope
from holdfast.catalog.cataloged_result import ProgramIdentity, ResultState
from holdfast.catalog.recording import still_used
from holdfast.catalog.schema import CLAIMS, HOLDERS, PROGRAMS, RESULTS

_FOREVER = 1e15


class CatalogPrograms:
    """The lease of a program.

    Args:
        scope: of the program.
    """

    def __init__(self, scope: CatalogScope) -> None:
        self._scope = scope

    def renew(self) -> None:
        """The program lives: it, and what it claims, has its lease from now on."""
        with self._scope.database.writing() as connection:
            now = self._scope.database.now(connection)
            until = now + self._scope.lease_seconds
            renewed = connection.execute(
                update(PROGRAMS)
                .where(PROGRAMS.c.application == self._scope.me)
                .values(alive_until=until)
            )
            if not renewed.rowcount:
                connection.execute(PROGRAMS.insert().values(self._own_row(now, until)))
            connection.execute(
                update(CLAIMS)
                # A claim that has lapsed may be another one's at any moment.
                .where(CLAIMS.c.application == self._scope.me, CLAIMS.c.until > now)
                .values(until=until)
            )

    def leave(self) -> None:
        """The program has ended: it holds and produces nothing any more."""
        with self._scope.database.writing() as connection:
            end(connection, [self._scope.me], self._scope.database.now(connection))

    def _own_row(self, now: float, until: float) -> dict[str, Any]:
        return {
            "application": self._scope.me,
            "user_name": self._scope.program.user,
            "host": self._scope.program.host,
            "process": self._scope.program.process,
            "started": now,
            "alive_until": until,
        }


def never_ends(
    connection: Connection, application: str, program: ProgramIdentity, now: float
) -> None:
    """There is a program that lives as long as the catalog does.

    Args:
        connection: within a transaction.
        application: what it is called.
        program: who asks for it.
        now: the time, in seconds since 1970.
    """
    known = select(PROGRAMS.c.application).where(PROGRAMS.c.application == application)
    if connection.scalar(known) is None:
        row = {
            "application": application,
            "user_name": program.user,
            "host": program.host,
            "process": 0,
            "started": now,
            "alive_until": _FOREVER,
        }
        connection.execute(PROGRAMS.insert().values(row))


def end(connection: Connection, applications: Collection[str], now: float) -> None:
    """Programs have ended: they hold and produce nothing, and what only they had is gone.

    Args:
        connection: within a transaction.
        applications: of the programs.
        now: the time, in seconds since 1970.
    """
    still_used(connection, HOLDERS.c.application.in_(applications), now)
    connection.execute(delete(PROGRAMS).where(PROGRAMS.c.application.in_(applications)))
    connection.execute(delete(HOLDERS).where(HOLDERS.c.application.in_(applications)))
    connection.execute(
        update(CLAIMS)
        .where(CLAIMS.c.application.in_(applications))
        .values(application=None, until=0.0)
    )
    connection.execute(
        update(RESULTS)
        .where(
            RESULTS.c.application.in_(applications),
            RESULTS.c.is_shared == 0,
            RESULTS.c.state == ResultState.KEPT.value,
        )
        .values(
            state=ResultState.GONE.value,
            why_gone="the program that had kept it ended",
            gone=now,
        )
    )

"""Who holds the results of a catalog, and what nobody holds. Each call is one transaction."""

from __future__ import annotations

import json
from collections.abc import Collection

from sqlalchemy import Connection, and_, delete, exists, func, select, update

from holdfast.catalog.catalog_scope import PINNED, THE_CATALOG, CatalogScope, is_held
from holdfast.catalog.cataloged_result import CatalogedResult, ResultState
from holdfast.catalog.days import Counts, count
from holdfast.catalog.noted_uses import NotedUse
from holdfast.catalog.profit import REFERENCES
from holdfast.catalog.programs import end, never_ends
from holdfast.catalog.recording import add_holder, going, still_used
from holdfast.catalog.records import result_in
from holdfast.catalog.schema import CLAIMS, HOLDERS, PROGRAMS, RESULTS, USES

_HISTORY_SECONDS = 7 * 86_400.0


class CatalogHolders:
    """What a program reads, holds and lets go of.

    Args:
        scope: of the program.

    Every method raises CatalogError when the database can't be used.
    """

    def __init__(self, scope: CatalogScope) -> None:
        self._scope = scope

    def use(self, number: int, *, hold: bool = False, noted: NotedUse | None = None) -> bool:
        """This program reads a result, and holds it if it isn't to be evicted meanwhile.

        Args:
            number: of the result's record.
            hold: whether to hold it.
            noted: how often it has done so, when, and what that has saved; None: once, now, which
                is noted afterwards.

        Returns:
            whether it is still there.
        """
        with self._scope.database.writing() as connection:
            now = self._scope.database.now(connection)
            row = connection.execute(
                select(RESULTS)
                .where(RESULTS.c.number == number, RESULTS.c.state == ResultState.KEPT.value)
                .with_for_update()
            ).first()
            if row is None:
                return False
            ages = [0.0] if noted is None else noted.ages()
            times = 1 if noted is None else noted.times
            saved = 0.0 if noted is None else noted.saved_seconds
            used = sorted([*json.loads(row.used), *(now - age for age in ages)])
            last = now - ages[-1] if ages else row.last_used
            connection.execute(
                update(RESULTS)
                .where(RESULTS.c.number == number)
                .values(
                    uses=RESULTS.c.uses + times,
                    saved_seconds=RESULTS.c.saved_seconds + saved,
                    used=json.dumps(used[-REFERENCES:]),
                    last_used=used[-1],
                )
            )
            if times:
                connection.execute(
                    USES.insert().values(
                        result=number,
                        application=self._scope.me,
                        user_name=self._scope.program.user,
                        used=last,
                        saved_seconds=saved,
                    )
                )
            else:
                mine = and_(USES.c.result == number, USES.c.application == self._scope.me)
                latest = select(func.max(USES.c.used)).where(mine).scalar_subquery()
                connection.execute(
                    update(USES)
                    .where(mine, USES.c.used == latest)
                    .values(saved_seconds=USES.c.saved_seconds + saved)
                )
            if row.lifetime is not None:
                until = last + row.lifetime
                connection.execute(
                    update(HOLDERS)
                    .where(
                        HOLDERS.c.result == number,
                        HOLDERS.c.application == THE_CATALOG,
                        # Another program may have used it since.
                        HOLDERS.c.until < until,
                    )
                    .values(until=until)
                )
            if hold:
                add_holder(connection, number, self._scope.me, None)
            # Last, as others may wait for this row.
            read = Counts(times, times * row.bytes, saved)
            count(connection, self._scope.program.user, now, read)
            return True

    def retain(self, numbers: Collection[int], seconds: float) -> None:
        """The catalog holds these for so long, should this program be killed."""
        if not numbers:
            return
        with self._scope.database.writing() as connection:
            until = self._scope.database.now(connection) + seconds
            by_the_catalog = HOLDERS.c.application == THE_CATALOG
            connection.execute(
                update(HOLDERS)
                .where(HOLDERS.c.result.in_(numbers), by_the_catalog)
                .values(until=until)
            )

    def let_go(self, numbers: Collection[int]) -> None:
        """This program holds these no longer."""
        if not numbers:
            return
        mine = and_(HOLDERS.c.result.in_(numbers), HOLDERS.c.application == self._scope.me)
        with self._scope.database.writing() as connection:
            still_used(connection, mine, self._scope.database.now(connection))
            connection.execute(delete(HOLDERS).where(mine))

    def pin(self, number: int) -> bool:
        """A result stays, used or not and whatever needs room, until it is let go of by hand.

        Args:
            number: of the result's record.

        Returns:
            whether it is still there, and outlives its program.
        """
        with self._scope.database.writing() as connection:
            row = connection.execute(
                select(RESULTS.c.number)
                .where(
                    RESULTS.c.number == number,
                    RESULTS.c.state == ResultState.KEPT.value,
                    RESULTS.c.is_shared == 1,
                )
                .with_for_update()
            ).first()
            if row is None:
                return False
            now = self._scope.database.now(connection)
            never_ends(connection, PINNED, self._scope.program, now)
            add_holder(connection, number, PINNED, None)
            return True

    def unpin(self, number: int) -> None:
        """What was pinned has its lifetime from now on.

        Args:
            number: of the result's record.
        """
        pinned = and_(HOLDERS.c.result == number, HOLDERS.c.application == PINNED)
        with self._scope.database.writing() as connection:
            still_used(connection, pinned, self._scope.database.now(connection))
            connection.execute(delete(HOLDERS).where(pinned))

    def withdraw(
        self,
        why: str,
        *,
        numbers: Collection[int] = (),
        digest: str | None = None,
    ) -> list[CatalogedResult]:
        """Results are not to be read by anybody any more, whoever holds them.

        Args:
            why: for people who ask.
            numbers: which ones.
            digest: or all of a computation that this user has kept.

        Returns:
            what went, whose files are now to be removed.
        """
        with self._scope.database.writing() as connection:
            chosen = set(numbers)
            if digest is not None:
                mine = select(RESULTS.c.number).where(
                    RESULTS.c.digest == digest,
                    RESULTS.c.storage == self._scope.storage,
                    RESULTS.c.user_name == self._scope.program.user,
                )
                chosen.update(connection.scalars(mine))
            now = self._scope.database.now(connection)
            return list(going(connection, tuple(chosen), why, now))

    def sweep(self) -> list[CatalogedResult]:
        """Lets go of what nobody holds any more: lifetimes that are over, programs that have ended.

        Returns:
            what is at the place of this program's storage to be removed.
        """
        with self._scope.database.writing(alone=True) as connection:
            now = self._scope.database.now(connection)
            dead = list(
                connection.scalars(
                    select(PROGRAMS.c.application).where(PROGRAMS.c.alive_until <= now)
                )
            )
            end(connection, dead, now)
            unheld = connection.scalars(
                select(RESULTS.c.number).where(
                    RESULTS.c.state == ResultState.KEPT.value, ~is_held(now)
                )
            )
            going(connection, tuple(unheld), "its lifetime was over", now)
            lives = exists().where(PROGRAMS.c.application == RESULTS.c.application)
            connection.execute(
                update(RESULTS)
                .where(RESULTS.c.state == ResultState.COMING.value, ~lives)
                .values(state=ResultState.GOING.value, why_gone="its program ended", gone=now)
            )
            _forget(connection, now)
            rows = connection.execute(
                select(RESULTS).where(
                    RESULTS.c.state == ResultState.GOING.value,
                    RESULTS.c.storage == self._scope.storage,
                    self._scope.may_remove(),
                )
            )
            return list(map(result_in, rows))

    def unheld(self) -> list[CatalogedResult]:
        """What nobody holds any more, and `sweep` would let go of; without doing so."""
        with self._scope.database.reading() as connection:
            now = self._scope.database.now(connection)
            rows = connection.execute(
                select(RESULTS).where(
                    RESULTS.c.state == ResultState.KEPT.value,
                    RESULTS.c.storage == self._scope.storage,
                    self._scope.may_remove(),
                    ~is_held(now),
                )
            )
            return list(map(result_in, rows))

    def recorded(self, names: Collection[str]) -> dict[str, bool]:
        """Whether results are announced or held still, by their names; without those unknown.

        Args:
            names: of productions, `<dataset>-<attempt>`.
        """
        alive = (ResultState.COMING.value, ResultState.KEPT.value)
        # Names have no index, datasets have one.
        datasets = {name.rpartition("-")[0] for name in names}
        with self._scope.database.reading() as connection:
            rows = connection.execute(
                select(RESULTS.c.name, RESULTS.c.state).where(
                    RESULTS.c.dataset_id.in_(datasets), RESULTS.c.name.in_(names)
                )
            )
            found: dict[str, bool] = {}
            for row in rows:
                found[row.name] = found.get(row.name, False) or row.state in alive
            return found

    def removed(self, numbers: Collection[int]) -> None:
        """The files of results that were to go have been removed."""
        if not numbers:
            return
        with self._scope.database.writing() as connection:
            connection.execute(
                update(RESULTS)
                .where(RESULTS.c.number.in_(numbers))
                .values(state=ResultState.GONE.value)
            )


def _forget(connection: Connection, now: float) -> None:
    """Forgets what was long ago."""
    connection.execute(
        delete(RESULTS).where(
            RESULTS.c.state.in_((ResultState.GONE.value, ResultState.NOT_KEPT.value)),
            RESULTS.c.created < now - _HISTORY_SECONDS,
        )
    )
    connection.execute(
        delete(CLAIMS).where(
            CLAIMS.c.application.is_(None), CLAIMS.c.since < now - _HISTORY_SECONDS
        )
    )

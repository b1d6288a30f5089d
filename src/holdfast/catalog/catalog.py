"""The catalog of kept results: which there are, who produces one, and who holds them.

Every call is one transaction. Rows are changed before files are removed, and after they are put in
their place, so that what a crash leaves behind is known to be garbage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)

from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.cataloged_result import (
    Audience,
    CatalogClaim,
    CatalogedResult,
    InProduction,
    MadeFrom,
    ProducedResult,
    ProgramIdentity,
    ResultState,
)
from holdfast.catalog.near_misses import AskedFor
from holdfast.catalog.profit import REFERENCES, Room, Valued, make_room
from holdfast.catalog.records import (
    checksum,
    packed,
    packed_sources,
    packed_statistics,
    result_in,
    unpacked,
    unpacked_sources,
    unpacked_statistics,
)
from holdfast.catalog.schema import (
    CLAIMS,
    HOLDERS,
    INPUTS,
    MANIFESTS,
    PROGRAMS,
    RESULTS,
    USES,
)
from holdfast.errors import CatalogError, ClaimFencedError
from holdfast.ids import IntermediateDataSetID
from holdfast.storage.column_statistics import ColumnStatistics
from holdfast.storage.kept_dataset import KeptDataSet

THE_CATALOG = ""
"""Which holder the catalog is itself."""
_CANDIDATES = 1000
_HISTORY_SECONDS = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Published:
    """What became of a publication.

    Attributes:
        number: of the result's record; None where it was not admitted, for lack of room.
        evicted: what had to go for it, whose files are now to be removed.
        is_shared: whether it lies where it outlives its program.
    """

    number: int | None
    evicted: tuple[CatalogedResult, ...] = ()
    is_shared: bool = False


class Catalog:
    """The catalog, as one program uses it. Safe for use by several threads.

    Args:
        database: where it is.
        storage: gives the identity of where the program keeps bytes: what is elsewhere can't be
            read. An OSError where it has none.
        environment: gives what the digests of the program's computations take for granted, 64
            hexadecimal digits; an OSError where that can't be told.
        program: which program.
        lease_seconds: how long the program, and what it claims, lives without a sign of life.

    Every method raises CatalogError when the database can't be used.

    Source: FLIP-36, phase 2, and "Long Term Goal".
    """

    def __init__(
        self,
        database: CatalogDatabase,
        storage: Callable[[], str],
        environment: Callable[[], str],
        program: ProgramIdentity,
        lease_seconds: float,
    ) -> None:
        self.database = database
        self.program = program
        self._identity = storage
        self._environment_of = environment
        self._lease_seconds = lease_seconds
        self._me = program.application.hex

    @cached_property
    def _storage(self) -> str:
        return self._asked(self._identity)

    @cached_property
    def _environment(self) -> str:
        return self._asked(self._environment_of)

    def _asked(self, give: Callable[[], str]) -> str:
        try:
            return give()
        except OSError as error:
            raise CatalogError(self.database.name, str(error)) from error

    # -- the program

    def renew(self) -> None:
        """The program lives: it, and what it claims, has its lease from now on."""
        with self.database.writing() as connection:
            now = self.database.now(connection)
            until = now + self._lease_seconds
            renewed = connection.execute(
                update(PROGRAMS).where(PROGRAMS.c.application == self._me).values(alive_until=until)
            )
            if not renewed.rowcount:
                connection.execute(PROGRAMS.insert().values(self._own_row(now, until)))
            connection.execute(
                update(CLAIMS)
                # A claim that has lapsed may be another one's at any moment.
                .where(CLAIMS.c.application == self._me, CLAIMS.c.until > now)
                .values(until=until)
            )

    def leave(self) -> None:
        """The program has ended: it holds and produces nothing any more."""
        with self.database.writing() as connection:
            self._end(connection, [self._me])

    def _own_row(self, now: float, until: float) -> dict[str, Any]:
        return {
            "application": self._me,
            "user_name": self.program.user,
            "host": self.program.host,
            "process": self.program.process,
            "started": now,
            "alive_until": until,
        }

    def _end(self, connection: Connection, applications: Collection[str]) -> None:
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
            .values(state=ResultState.GONE.value, why_gone="the program that had kept it ended")
        )

    @property
    def environment(self) -> str:
        """What the digests of the program's computations take for granted."""
        return self._environment

    # -- finding

    def find(
        self, dataset_ids: Collection[IntermediateDataSetID]
    ) -> dict[IntermediateDataSetID, CatalogedResult]:
        """What of these this program may read, of others' results; one of each dataset.

        Args:
            dataset_ids: the datasets.
        """
        if not dataset_ids:
            return {}
        with self.database.reading() as connection:
            now = self.database.now(connection)
            rows = connection.execute(
                select(RESULTS)
                .where(
                    RESULTS.c.dataset_id.in_([each.hex for each in dataset_ids]),
                    *self._from_here(),
                    RESULTS.c.application != self._me,
                    self._may_read(),
                    _is_held(now),
                )
                # What stays longer comes later, and is the one that is taken.
                .order_by(RESULTS.c.is_shared, RESULTS.c.number)
            )
            found = map(result_in, rows)
            return {each.dataset_id: each for each in found}

    def is_empty(self) -> bool:
        """Whether there is nothing that this program could read of others."""
        with self.database.reading() as connection:
            found = connection.scalar(
                select(RESULTS.c.number)
                .where(
                    *self._from_here(),
                    RESULTS.c.application != self._me,
                    self._may_read(),
                )
                .limit(1)
            )
            return found is None

    def near(
        self, asked: Collection[AskedFor]
    ) -> dict[str, tuple[AskedFor, CatalogedResult, MadeFrom]]:
        """For what is not kept the results that are most like it, by its digests.

        Args:
            asked: what is not kept.
        """
        by_shape = {each.shape: each for each in asked}
        by_dataset = {each.dataset_id.hex: each for each in asked}
        found: dict[str, tuple[AskedFor, CatalogedResult, MadeFrom]] = {}
        with self.database.reading() as connection:
            rows = connection.execute(
                select(RESULTS, MANIFESTS.c.made_from)
                .join(MANIFESTS, MANIFESTS.c.result == RESULTS.c.number)
                .where(
                    RESULTS.c.storage == self._storage,
                    RESULTS.c.environment == self._environment,
                    RESULTS.c.state != ResultState.COMING.value,
                    or_(
                        RESULTS.c.shape.in_(list(by_shape)),
                        RESULTS.c.dataset_id.in_(list(by_dataset)),
                    ),
                    self._may_read(),
                )
                # The last one is shown: rather one that is kept, and rather a late one.
                .order_by(RESULTS.c.state == ResultState.KEPT.value, RESULTS.c.number)
            )
            for row in rows:
                each = by_dataset.get(row.dataset_id) or by_shape[row.shape]
                found[each.digest] = (each, result_in(row), unpacked_sources(row.made_from))
        return found

    def where_it_lies(self, numbers: Collection[int]) -> dict[int, KeptDataSet]:
        """The datasets of some results; without those whose record is damaged."""
        with self.database.reading() as connection:
            rows = connection.execute(select(MANIFESTS).where(MANIFESTS.c.result.in_(numbers)))
            found = {}
            for row in rows:
                if checksum(row.content) != row.checksum:
                    continue
                try:
                    found[row.result] = unpacked(row.content)
                except ValueError:
                    # Another version of Holdfast has described it.
                    continue
            return found

    def sources(self, numbers: Collection[int]) -> dict[int, MadeFrom]:
        """What some results were made from."""
        with self.database.reading() as connection:
            rows = connection.execute(
                select(MANIFESTS.c.result, MANIFESTS.c.made_from).where(
                    MANIFESTS.c.result.in_(numbers)
                )
            )
            return {row.result: unpacked_sources(row.made_from) for row in rows}

    def statistics(self, number: int) -> dict[str, ColumnStatistics]:
        """What is known of a result's columns, by their names in its files."""
        with self.database.reading() as connection:
            found = connection.scalar(
                select(MANIFESTS.c.statistics).where(MANIFESTS.c.result == number)
            )
            return {} if found is None else unpacked_statistics(found)

    def all(self, states: Collection[ResultState] = (ResultState.KEPT,)) -> list[CatalogedResult]:
        """Every result that is recorded, in the order of publication.

        Args:
            states: in one of these.
        """
        with self.database.reading() as connection:
            rows = connection.execute(
                select(RESULTS)
                .where(RESULTS.c.state.in_([each.value for each in states]))
                .order_by(RESULTS.c.number)
            )
            return list(map(result_in, rows))

    # -- producing

    def claim(
        self, dataset_id: IntermediateDataSetID
    ) -> CatalogClaim | CatalogedResult | InProduction:
        """Asks for the right to produce a dataset; doesn't wait.

        Returns:
            the right, to be published or abandoned; or the result of another program; or who
            produces it.
        """
        key = self._claim_of(dataset_id)
        with self.database.writing(alone=True) as connection:
            now = self.database.now(connection)
            found = self._kept_by_others(connection, dataset_id, now)
            if found is not None:
                return found
            claim = connection.execute(select(CLAIMS).where(key)).first()
            epoch = 1 if claim is None else claim.epoch + 1
            values = {
                "epoch": epoch,
                "application": self._me,
                "since": now,
                "until": now + self._lease_seconds,
            }
            if claim is None:
                row = {
                    "storage": self._storage,
                    "environment": self._environment,
                    "dataset_id": dataset_id.hex,
                    **values,
                }
                connection.execute(CLAIMS.insert().values(row))
            elif claim.until > now and claim.application not in (None, self._me):
                return self._in_production(connection, dataset_id, claim, now)
            else:
                connection.execute(update(CLAIMS).where(key).values(values))
            return CatalogClaim(dataset_id, epoch)

    def producer(self, dataset_id: IntermediateDataSetID) -> CatalogedResult | InProduction | None:
        """Whether it is worth asking again for a dataset that another program has been producing.

        Returns:
            its result; who produces it; None where nobody does, so that it may be claimed.
        """
        key = self._claim_of(dataset_id)
        with self.database.reading() as connection:
            now = self.database.now(connection)
            found = self._kept_by_others(connection, dataset_id, now)
            if found is not None:
                return found
            claim = connection.execute(select(CLAIMS).where(key, CLAIMS.c.until > now)).first()
            if claim is None or claim.application is None:
                return None
            return self._in_production(connection, dataset_id, claim, now)

    def abandon(self, claim: CatalogClaim) -> bool:
        """A claimed dataset is not going to be there. Returns True: this is noted."""
        with self.database.writing() as connection:
            connection.execute(
                update(CLAIMS).where(self._is_mine(claim)).values(application=None, until=0.0)
            )
        return True

    def announce(self, produced: ProducedResult) -> int:
        """Files are about to be put where they outlive this program.

        Args:
            produced: what lies there then.

        Returns:
            the number that the result is published under, or given up.
        """
        with self.database.writing() as connection:
            now = self.database.now(connection)
            return self._insert(connection, produced, ResultState.COMING, now)

    def publish(
        self,
        produced: ProducedResult,
        claim: CatalogClaim | None,
        limit: Callable[[int], int | None],
        *,
        announced: int | None = None,
        statistics: Mapping[str, ColumnStatistics] | None = None,
    ) -> Published:
        """Records a result, whose files are where they stay, and makes room for it.

        Args:
            produced: the result.
            claim: the right under which it was produced; None where nobody else could have it.
            limit: how many bytes all results may have, of how many they have now; None: any number.
            announced: what `announce` gave.
            statistics: of its columns, by name.

        Raises:
            ClaimFencedError: when the claim has lapsed, and another program has taken it.
        """
        with self.database.writing(alone=True) as connection:
            now = self.database.now(connection)
            if claim is not None:
                self._use_up(connection, claim)
            room = self._room(connection, produced, limit, now)
            if not room.is_admitted:
                return Published(None)
            evicted = self._going(connection, room.evicted, "evicted to make room")
            number = announced
            if number is None:
                number = self._insert(connection, produced, ResultState.KEPT, now)
            else:
                connection.execute(
                    update(RESULTS)
                    .where(RESULTS.c.number == number)
                    .values(
                        state=ResultState.KEPT.value,
                        directories=json.dumps(produced.kept.directories),
                    )
                )
            self._describe(connection, number, produced, statistics or {})
            until = None if produced.lifetime is None else now + produced.lifetime
            self._hold(connection, number, self._me, None)
            if until is not None:
                self._hold(connection, number, THE_CATALOG, until)
            return Published(number, evicted, produced.is_shared)

    # -- holding

    def use(self, number: int, *, hold: bool) -> bool:
        """This program reads a result, and holds it if it isn't to be evicted meanwhile.

        Returns:
            whether it is still there.
        """
        with self.database.writing() as connection:
            now = self.database.now(connection)
            row = connection.execute(
                select(RESULTS).where(
                    RESULTS.c.number == number, RESULTS.c.state == ResultState.KEPT.value
                )
            ).first()
            if row is None:
                return False
            used = [*json.loads(row.used), now][-REFERENCES:]
            connection.execute(
                update(RESULTS)
                .where(RESULTS.c.number == number)
                .values(
                    uses=RESULTS.c.uses + 1,
                    saved_seconds=RESULTS.c.saved_seconds + row.seconds,
                    used=json.dumps(used),
                )
            )
            connection.execute(
                USES.insert().values(
                    result=number,
                    application=self._me,
                    user_name=self.program.user,
                    used=now,
                    saved_seconds=row.seconds,
                )
            )
            if row.lifetime is not None:
                connection.execute(
                    update(HOLDERS)
                    .where(HOLDERS.c.result == number, HOLDERS.c.application == THE_CATALOG)
                    .values(until=now + row.lifetime)
                )
            if hold:
                self._hold(connection, number, self._me, None)
            return True

    def let_go(self, numbers: Collection[int]) -> None:
        """This program holds these no longer."""
        if not numbers:
            return
        with self.database.writing() as connection:
            connection.execute(
                delete(HOLDERS).where(
                    HOLDERS.c.result.in_(numbers), HOLDERS.c.application == self._me
                )
            )

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
        with self.database.writing() as connection:
            chosen = set(numbers)
            if digest is not None:
                mine = select(RESULTS.c.number).where(
                    RESULTS.c.digest == digest,
                    RESULTS.c.storage == self._storage,
                    RESULTS.c.user_name == self.program.user,
                )
                chosen.update(connection.scalars(mine))
            return list(self._going(connection, tuple(chosen), why))

    def sweep(self) -> list[CatalogedResult]:
        """Lets go of what nobody holds any more: lifetimes that are over, programs that have ended.

        Returns:
            what is at the place of this program's storage to be removed.
        """
        with self.database.writing(alone=True) as connection:
            now = self.database.now(connection)
            dead = list(
                connection.scalars(
                    select(PROGRAMS.c.application).where(PROGRAMS.c.alive_until <= now)
                )
            )
            self._end(connection, dead)
            unheld = connection.scalars(
                select(RESULTS.c.number).where(
                    RESULTS.c.state == ResultState.KEPT.value, ~_is_held(now)
                )
            )
            self._going(connection, tuple(unheld), "its lifetime was over")
            lives = exists().where(PROGRAMS.c.application == RESULTS.c.application)
            connection.execute(
                update(RESULTS)
                .where(RESULTS.c.state == ResultState.COMING.value, ~lives)
                .values(state=ResultState.GOING.value, why_gone="its program ended")
            )
            self._forget(connection, now)
            rows = connection.execute(
                select(RESULTS).where(
                    RESULTS.c.state == ResultState.GOING.value,
                    RESULTS.c.storage == self._storage,
                )
            )
            return list(map(result_in, rows))

    def unheld(self) -> list[CatalogedResult]:
        """What nobody holds any more, and `sweep` would let go of; without doing so."""
        with self.database.reading() as connection:
            now = self.database.now(connection)
            rows = connection.execute(
                select(RESULTS).where(
                    RESULTS.c.state == ResultState.KEPT.value,
                    RESULTS.c.storage == self._storage,
                    ~_is_held(now),
                )
            )
            return list(map(result_in, rows))

    def restore(self, produced: ProducedResult, program: ProgramIdentity, environment: str) -> bool:
        """Records a result whose files are there, and that the catalog has lost.

        Args:
            produced: the result, with a lifetime that begins now.
            program: who had kept it.
            environment: what that program's digests took for granted.

        Returns:
            whether it was not recorded.
        """
        with self.database.writing(alone=True) as connection:
            now = self.database.now(connection)
            known = connection.scalar(
                select(RESULTS.c.number).where(
                    RESULTS.c.name == produced.kept.name,
                    RESULTS.c.storage == self._storage,
                    RESULTS.c.state != ResultState.GONE.value,
                )
            )
            if known is not None or produced.lifetime is None:
                return False
            number = self._insert(connection, produced, ResultState.KEPT, now, program, environment)
            self._describe(connection, number, produced, {})
            self._hold(connection, number, THE_CATALOG, now + produced.lifetime)
            return True

    def removed(self, numbers: Collection[int]) -> None:
        """The files of results that were to go have been removed."""
        if not numbers:
            return
        with self.database.writing() as connection:
            connection.execute(
                update(RESULTS)
                .where(RESULTS.c.number.in_(numbers))
                .values(state=ResultState.GONE.value)
            )

    # -- within a transaction

    def _from_here(self) -> tuple[ColumnElement[bool], ...]:
        return (
            RESULTS.c.storage == self._storage,
            RESULTS.c.environment == self._environment,
            RESULTS.c.state == ResultState.KEPT.value,
        )

    def _may_read(self) -> ColumnElement[bool]:
        shared = (Audience.USER.value, Audience.GROUP.value, Audience.ALL.value)
        return or_(
            and_(RESULTS.c.user_name == self.program.user, RESULTS.c.audience.in_(shared)),
            and_(
                RESULTS.c.audience == Audience.GROUP.value,
                RESULTS.c.group_name.in_(self.program.groups),
            ),
            RESULTS.c.audience == Audience.ALL.value,
        )

    def _kept_by_others(
        self, connection: Connection, dataset_id: IntermediateDataSetID, now: float
    ) -> CatalogedResult | None:
        row = connection.execute(
            select(RESULTS)
            .where(
                RESULTS.c.dataset_id == dataset_id.hex,
                *self._from_here(),
                RESULTS.c.application != self._me,
                self._may_read(),
                _is_held(now),
            )
            .order_by(RESULTS.c.is_shared.desc(), RESULTS.c.number.desc())
            .limit(1)
        ).first()
        return None if row is None else result_in(row)

    def _in_production(
        self, connection: Connection, dataset_id: IntermediateDataSetID, claim: Any, now: float
    ) -> InProduction:
        expected = connection.scalar(
            select(RESULTS.c.seconds)
            .where(RESULTS.c.dataset_id == dataset_id.hex)
            .order_by(RESULTS.c.number.desc())
            .limit(1)
        )
        return InProduction(claim.application, now - claim.since, expected)

    def _claim_of(self, dataset_id: IntermediateDataSetID) -> ColumnElement[bool]:
        return and_(
            CLAIMS.c.storage == self._storage,
            CLAIMS.c.environment == self._environment,
            CLAIMS.c.dataset_id == dataset_id.hex,
        )

    def _is_mine(self, claim: CatalogClaim) -> ColumnElement[bool]:
        return and_(
            self._claim_of(claim.dataset_id),
            CLAIMS.c.epoch == claim.epoch,
            CLAIMS.c.application == self._me,
        )

    def _use_up(self, connection: Connection, claim: CatalogClaim) -> None:
        """A claim that has lapsed, and that nobody has taken since, is as good as any."""
        done = connection.execute(
            update(CLAIMS).where(self._is_mine(claim)).values(application=None, until=0.0)
        )
        if not done.rowcount:
            raise ClaimFencedError(self.database.name, claim.dataset_id.hex, claim.epoch)

    def _room(
        self,
        connection: Connection,
        produced: ProducedResult,
        limit: Callable[[int], int | None],
        now: float,
    ) -> Room[int]:
        here = and_(RESULTS.c.storage == self._storage, RESULTS.c.state == ResultState.KEPT.value)
        total = int(connection.scalar(select(func.sum(RESULTS.c.bytes)).where(here)) or 0)
        most = limit(total)
        if most is None or total + produced.kept.bytes <= most:
            return Room(True)
        held = exists().where(
            HOLDERS.c.result == RESULTS.c.number,
            HOLDERS.c.application == PROGRAMS.c.application,
            PROGRAMS.c.alive_until > now,
        )
        rows = connection.execute(
            select(RESULTS)
            .where(here, ~held)
            # What may be worth least; the rest of the formula is reckoned with these alone.
            .order_by(
                (RESULTS.c.uses + 1)
                * RESULTS.c.seconds
                / ((RESULTS.c.bytes + 1) * (now - RESULTS.c.created + 1.0))
            )
            .limit(_CANDIDATES)
        ).all()
        newcomer = Valued(
            0, produced.kept.bytes, produced.seconds, self._asked_for(connection, produced, now)
        )
        made_of = connection.execute(
            select(INPUTS).where(INPUTS.c.result.in_([row.number for row in rows]))
        ).all()
        gone = self._gone(connection, {row.dataset_id for row in made_of})
        numbers = {row.dataset_id: row.number for row in (*gone, *rows)}
        inputs: dict[int, list[int]] = {}
        for row in made_of:
            if row.dataset_id in numbers:
                inputs.setdefault(row.result, []).append(numbers[row.dataset_id])
        return make_room(
            newcomer,
            [_valued(row, inputs) for row in rows],
            most - total,
            now,
            gone=[_valued(row, inputs) for row in gone],
            must_be_kept=True,
        )

    def _gone(self, connection: Connection, dataset_ids: Collection[str]) -> list[Row[Any]]:
        """Of datasets that aren't kept any more the last result of each."""
        rows = connection.execute(
            select(RESULTS)
            .where(RESULTS.c.dataset_id.in_(dataset_ids), RESULTS.c.storage == self._storage)
            # The last one counts: one that is kept, where there is one.
            .order_by(RESULTS.c.state == ResultState.KEPT.value, RESULTS.c.number)
        )
        last = {row.dataset_id: row for row in rows}
        return [row for row in last.values() if row.state != ResultState.KEPT.value]

    def _asked_for(
        self, connection: Connection, produced: ProducedResult, now: float
    ) -> tuple[float, ...]:
        """When a new result was asked for, with what is remembered from when it was kept before."""
        before = connection.scalar(
            select(RESULTS.c.used)
            .where(RESULTS.c.dataset_id == produced.dataset_id.hex)
            .order_by(RESULTS.c.number.desc())
            .limit(1)
        )
        known: list[float] = [] if before is None else json.loads(before)
        return tuple([*known, now][-REFERENCES:])

    def _insert(
        self,
        connection: Connection,
        produced: ProducedResult,
        state: ResultState,
        now: float,
        program: ProgramIdentity | None = None,
        environment: str | None = None,
    ) -> int:
        kept, program = produced.kept, program or self.program
        inserted = connection.execute(
            RESULTS.insert().values(
                storage=self._storage,
                environment=environment or self._environment,
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
                used=json.dumps(self._asked_for(connection, produced, now)),
            )
        )
        key = inserted.inserted_primary_key
        assert key is not None
        return int(key[0])

    def _describe(
        self,
        connection: Connection,
        number: int,
        produced: ProducedResult,
        statistics: Mapping[str, ColumnStatistics],
    ) -> None:
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

    def _hold(
        self, connection: Connection, number: int, application: str, until: float | None
    ) -> None:
        of_this = and_(HOLDERS.c.result == number, HOLDERS.c.application == application)
        held = connection.execute(update(HOLDERS).where(of_this).values(until=until))
        if not held.rowcount:
            connection.execute(
                HOLDERS.insert().values(result=number, application=application, until=until)
            )

    def _going(
        self, connection: Connection, numbers: Sequence[int], why: str
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
                .values(state=state.value, why_gone=why)
            )
        connection.execute(delete(HOLDERS).where(HOLDERS.c.result.in_(numbers)))
        return tuple(map(result_in, rows))

    def _forget(self, connection: Connection, now: float) -> None:
        """Forgets what was long ago."""
        connection.execute(
            delete(RESULTS).where(
                RESULTS.c.state == ResultState.GONE.value,
                RESULTS.c.created < now - _HISTORY_SECONDS,
            )
        )
        connection.execute(
            delete(CLAIMS).where(
                CLAIMS.c.application.is_(None), CLAIMS.c.since < now - _HISTORY_SECONDS
            )
        )


def _valued(row: Row[Any], inputs: Mapping[int, Sequence[int]]) -> Valued[int]:
    used = tuple(json.loads(row.used))
    made_of = tuple(inputs.get(row.number, ()))
    return Valued(row.number, row.bytes, row.seconds, used, made_of)


def _is_held(now: float) -> ColumnElement[bool]:
    by_program = exists().where(
        HOLDERS.c.result == RESULTS.c.number,
        HOLDERS.c.application == PROGRAMS.c.application,
        PROGRAMS.c.alive_until > now,
    )
    by_the_catalog = exists().where(
        HOLDERS.c.result == RESULTS.c.number,
        HOLDERS.c.application == THE_CATALOG,
        HOLDERS.c.until > now,
    )
    return or_(by_program, by_the_catalog)

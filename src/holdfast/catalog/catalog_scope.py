"""What one program sees of a catalog: its own storage, and what it may read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property

from sqlalchemy import ColumnElement, Table, and_, exists, or_, true

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.cataloged_result import ProgramIdentity, ResultState
from holdfast.catalog.schema import CLAIMS, HOLDERS, PROGRAMS, RESULTS
from holdfast.errors import CatalogError
from holdfast.ids import IntermediateDataSetID

_SUPERUSER = "root"
THE_CATALOG = ""
"""Which holder the catalog is itself."""

PINNED = "pinned"
"""Which holder what people have pinned has: a program that never ends."""

Moment = float | ColumnElement[float]
"""By the database's clock, in seconds since 1970; or what stands for it in a query."""


class CatalogScope:
    """Which rows of a catalog are a program's business.

    Attributes:
        database: where the catalog is.
        program: which program.
        lease_seconds: how long the program, and what it claims, lives without a sign of life.
        me: the program's application, in hexadecimal digits.

    Args:
        database: see above.
        storage: gives the identity of where the program keeps bytes; an OSError without one.
        environment: gives what the digests of its computations take for granted; an OSError where
            that can't be told.
        program: see above.
        lease_seconds: see above.
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
        self.lease_seconds = lease_seconds
        self.me = program.application.hex
        self._storage_of = storage
        self._environment_of = environment

    @cached_property
    def storage(self) -> str:
        """The identity of where the program keeps bytes: what is elsewhere can't be read.

        Raises:
            CatalogError: when it has none.
        """
        return self._asked(self._storage_of)

    @cached_property
    def environment(self) -> str:
        """What the digests of the program's computations take for granted.

        Raises:
            CatalogError: when that can't be told.
        """
        return self._asked(self._environment_of)

    def _asked(self, give: Callable[[], str]) -> str:
        try:
            return give()
        except OSError as error:
            raise CatalogError(self.database.name, str(error)) from error

    def from_here(self) -> tuple[ColumnElement[bool], ...]:
        """The results that are kept where the program can read them, by programs like it."""
        return (
            RESULTS.c.storage == self.storage,
            RESULTS.c.environment == self.environment,
            # Not as the index of states has it: nearly all are kept, so it would find no few.
            RESULTS.c.state.concat("") == ResultState.KEPT.value,
        )

    def offered(self) -> tuple[ColumnElement[bool], ...]:
        """The results of other programs that this one may read, as long as somebody holds them."""
        return (*self.from_here(), RESULTS.c.application != self.me, self.may_read())

    def may_read(self, table: Table = RESULTS) -> ColumnElement[bool]:
        """What is for the program's user, of those it shares with.

        Args:
            table: of results, or of queries.
        """
        return or_(
            and_(
                table.c.user_name == self.program.user,
                table.c.audience != Audience.NOBODY.value,
            ),
            *self._of_others(self.program.shares_with, table),
        )

    def may_remove(self) -> ColumnElement[bool]:
        """The results whose files the program's user may remove."""
        if self.program.user == _SUPERUSER:
            return true()
        return or_(RESULTS.c.user_name == self.program.user, *self._of_others(Audience.ALL))

    def _of_others(
        self, shares_with: Audience, table: Table = RESULTS
    ) -> list[ColumnElement[bool]]:
        of_group = and_(
            table.c.audience == Audience.GROUP.value,
            table.c.group_name.in_(self.program.groups),
        )
        if shares_with is Audience.ALL:
            return [of_group, table.c.audience == Audience.ALL.value]
        return [of_group] if shares_with is Audience.GROUP else []

    @cached_property
    def circle(self) -> str:
        """Those among whom a dataset is produced once: they can read what each other keeps."""
        program = self.program
        if program.shares_with is Audience.ALL:
            return "all"
        if program.shares_with is Audience.GROUP and program.groups:
            return f"group {program.groups[0]}"
        return f"user {program.user}"

    def claim_of(self, dataset_id: IntermediateDataSetID) -> ColumnElement[bool]:
        """The claim to a dataset, whoever has it of those this program shares with."""
        return and_(
            CLAIMS.c.circle == self.circle,
            CLAIMS.c.storage == self.storage,
            CLAIMS.c.environment == self.environment,
            CLAIMS.c.dataset_id == dataset_id.hex,
        )


def is_held(now: Moment) -> ColumnElement[bool]:
    """The results that somebody holds: a program that lives, or the catalog for a while yet."""
    by_the_catalog = exists().where(
        HOLDERS.c.result == RESULTS.c.number,
        HOLDERS.c.application == THE_CATALOG,
        HOLDERS.c.until > now,
    )
    return or_(is_held_by_program(now), by_the_catalog)


def is_held_by_program(
    now: Moment, me: str = "", giving_way: Collection[int] = ()
) -> ColumnElement[bool]:
    """The results that a program that lives holds.

    Args:
        now: the time, in seconds since 1970.
        me: a program,
        giving_way: and which ones it does not count as holding.
    """
    held = exists().where(
        HOLDERS.c.result == RESULTS.c.number,
        HOLDERS.c.application == PROGRAMS.c.application,
        PROGRAMS.c.alive_until > now,
    )
    if not giving_way:
        return held
    return held.where(or_(HOLDERS.c.application != me, HOLDERS.c.result.not_in(giving_way)))

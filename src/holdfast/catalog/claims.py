"""Claims in a catalog: of all programs one alone produces a dataset. A call is a transaction."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, select, update

from holdfast.catalog.catalog_scope import CatalogScope
from holdfast.catalog.cataloged_result import CatalogClaim, CatalogedResult, InProduction
from holdfast.catalog.schema import CLAIMS, RESULTS
from holdfast.catalog.search import kept_by_others
from holdfast.errors import ClaimFencedError
from holdfast.ids import ApplicationID, IntermediateDataSetID


class CatalogClaims:
    """The claims of a program.

    Args:
        scope: of the program.

    Every method raises CatalogError when the database can't be used.
    """

    def __init__(self, scope: CatalogScope) -> None:
        self._scope = scope

    def claim(
        self, dataset_id: IntermediateDataSetID
    ) -> CatalogClaim | CatalogedResult | InProduction:
        """Asks for the right to produce a dataset; doesn't wait.

        Returns:
            the right, to be published or abandoned; or the result of another program; or who
            produces it.
        """
        key = self._scope.claim_of(dataset_id)
        with self._scope.database.writing(alone=True) as connection:
            now = self._scope.database.now(connection)
            found = kept_by_others(connection, self._scope, dataset_id, now)
            if found is not None:
                return found
            claim = connection.execute(select(CLAIMS).where(key)).first()
            epoch = 1 if claim is None else claim.epoch + 1
            values = {
                "epoch": epoch,
                "application": self._scope.me,
                "since": now,
                "until": now + self._scope.lease_seconds,
            }
            if claim is None:
                row = {
                    "storage": self._scope.storage,
                    "environment": self._scope.environment,
                    "dataset_id": dataset_id.hex,
                    "circle": self._scope.circle,
                    **values,
                }
                connection.execute(CLAIMS.insert().values(row))
            elif claim.until > now and claim.application not in (None, self._scope.me):
                return self._in_production(connection, dataset_id, claim, now)
            else:
                connection.execute(update(CLAIMS).where(key).values(values))
            return CatalogClaim(dataset_id, epoch)

    def producer(self, dataset_id: IntermediateDataSetID) -> CatalogedResult | InProduction | None:
        """Whether it is worth asking again for a dataset that another program has been producing.

        Returns:
            its result; who produces it; None where nobody does, so that it may be claimed.
        """
        key = self._scope.claim_of(dataset_id)
        with self._scope.database.reading() as connection:
            now = self._scope.database.now(connection)
            found = kept_by_others(connection, self._scope, dataset_id, now)
            if found is not None:
                return found
            claim = connection.execute(select(CLAIMS).where(key, CLAIMS.c.until > now)).first()
            if claim is None or claim.application is None:
                return None
            return self._in_production(connection, dataset_id, claim, now)

    def abandon(self, claim: CatalogClaim) -> bool:
        """A claimed dataset is not going to be there. Returns True: this is noted."""
        with self._scope.database.writing() as connection:
            _end(connection, self._is_mine(claim))
        return True

    def withdraw(self, dataset_id: IntermediateDataSetID) -> bool:
        """This program doesn't produce a dataset, whether it was given the right or not.

        Returns:
            True: this is noted.
        """
        with self._scope.database.writing() as connection:
            _end(connection, self._is_here(dataset_id))
        return True

    def use_up(self, connection: Connection, claim: CatalogClaim) -> None:
        """What is claimed is there; within a transaction.

        A claim that has lapsed, and that nobody has taken since, is as good as any.

        Raises:
            ClaimFencedError: when another program has taken it.
        """
        if not _end(connection, self._is_mine(claim)):
            raise ClaimFencedError(self._scope.database.name, claim.dataset_id.hex, claim.epoch)

    def _in_production(
        self, connection: Connection, dataset_id: IntermediateDataSetID, claim: Any, now: float
    ) -> InProduction:
        expected = connection.scalar(
            select(RESULTS.c.seconds)
            .where(RESULTS.c.dataset_id == dataset_id.hex)
            .order_by(RESULTS.c.number.desc())
            .limit(1)
        )
        return InProduction(ApplicationID(claim.application), now - claim.since, expected)

    def _is_mine(self, claim: CatalogClaim) -> ColumnElement[bool]:
        return and_(self._is_here(claim.dataset_id), CLAIMS.c.epoch == claim.epoch)

    def _is_here(self, dataset_id: IntermediateDataSetID) -> ColumnElement[bool]:
        return and_(self._scope.claim_of(dataset_id), CLAIMS.c.application == self._scope.me)


def _end(connection: Connection, which: ColumnElement[bool]) -> int:
    """Ends claims; how many."""
    ended = connection.execute(update(CLAIMS).where(which).values(application=None, until=0.0))
    return ended.rowcount

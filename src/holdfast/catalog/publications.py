"""How results come into a catalog. Each call is one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping

from sqlalchemy import Connection, delete, select, update

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog_scope import THE_CATALOG, CatalogScope
from holdfast.catalog.cataloged_result import (
    CatalogClaim,
    ProducedResult,
    ProgramIdentity,
    Published,
    ResultState,
)
from holdfast.catalog.claims import CatalogClaims
from holdfast.catalog.days import Counts, count
from holdfast.catalog.eviction import room_for
from holdfast.catalog.recording import EVICTED, add_holder, describe, going, insert
from holdfast.catalog.schema import RESULTS
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.reasons import Reason
from holdfast.storage.column_statistics import ColumnStatistics
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, Manifest


class CatalogPublications:
    """What a program publishes. Files are put in their place before, and removed after that.

    Args:
        scope: of the program.
        claims: the program's.

    Every method raises CatalogError when the database can't be used.
    """

    def __init__(self, scope: CatalogScope, claims: CatalogClaims) -> None:
        self._scope = scope
        self._claims = claims

    def announce(self, produced: ProducedResult) -> int:
        """Files are about to be put where they outlive this program.

        Args:
            produced: what lies there then.

        Returns:
            the number that the result is published under, or given up.
        """
        with self._scope.database.writing() as connection:
            now = self._scope.database.now(connection)
            return insert(connection, self._scope, produced, ResultState.COMING, now)

    def publish(
        self,
        produced: ProducedResult,
        claim: CatalogClaim | None,
        limit: Callable[[int], int | None],
        *,
        announced: int | None = None,
        statistics: Mapping[str, ColumnStatistics] | None = None,
        must_be_kept: bool = True,
        giving_way: Collection[int] = (),
    ) -> Published:
        """Records a result, whose files are where they stay, and makes room for it.

        Args:
            produced: the result.
            claim: the right under which it was produced; None where nobody else could have it.
            limit: how many bytes all results may have, of how many they have now; None: any number.
            announced: what `announce` gave.
            statistics: of its columns, by name.
            must_be_kept: whether somebody has asked for it, so that it is kept whatever others are
                worth that have to go for it.
            giving_way: what may be evicted although this program holds it.

        Raises:
            ClaimFencedError: when the claim has lapsed, and another program has taken it.
        """
        with self._scope.database.writing(alone=True) as connection:
            now = self._scope.database.now(connection)
            if claim is not None:
                self._claims.use_up(connection, claim)
            room = room_for(
                connection,
                self._scope,
                produced,
                limit,
                now,
                announced=announced,
                must_be_kept=must_be_kept,
                giving_way=giving_way,
            )
            if not room.is_admitted:
                return Published(None)
            evicted = going(connection, room.evicted, EVICTED, now)
            number = announced
            if number is None:
                number = insert(connection, self._scope, produced, ResultState.KEPT, now)
            else:
                connection.execute(
                    update(RESULTS)
                    .where(RESULTS.c.number == number)
                    .values(
                        state=ResultState.KEPT.value,
                        directories=json.dumps(produced.kept.directories),
                    )
                )
            describe(connection, number, produced, statistics or {})
            self._forget_refusal(connection, produced.dataset_id)
            add_holder(connection, number, self._scope.me, None)
            if produced.outlives is not None:
                add_holder(connection, number, THE_CATALOG, now + produced.outlives)
            kept = Counts(kept=1, kept_bytes=produced.kept.bytes, produced_seconds=produced.seconds)
            count(connection, self._scope.program.user, now, kept)
            return Published(number, evicted, produced.is_shared)

    def refuse(
        self, dataset_id: IntermediateDataSetID, digest: str, computes: str, reason: Reason
    ) -> None:
        """Records that a result is not kept, until it is.

        Args:
            dataset_id: the dataset.
            digest: of the computation, without the settings it ran under.
            computes: the computation in a few words.
            reason: why it is not kept.
        """
        described = DataSetDescription(
            dataset_id=dataset_id.hex, computes=computes, columns=(), spark_version=""
        )
        nothing = KeptDataSet(
            directories=(), manifest=Manifest(created="", dataset=described, partitions=())
        )
        refused = ProducedResult(
            dataset_id,
            digest,
            shape=digest,
            kept=nothing,
            is_shared=False,
            audience=Audience.NOBODY,
            lifetime=None,
            seconds=0.0,
            reasons=(reason,),
        )
        with self._scope.database.writing() as connection:
            self._forget_refusal(connection, dataset_id)
            now = self._scope.database.now(connection)
            insert(connection, self._scope, refused, ResultState.NOT_KEPT, now)

    def _forget_refusal(self, connection: Connection, dataset_id: IntermediateDataSetID) -> None:
        connection.execute(
            delete(RESULTS).where(
                RESULTS.c.dataset_id == dataset_id.hex,
                RESULTS.c.application == self._scope.me,
                RESULTS.c.state == ResultState.NOT_KEPT.value,
            )
        )

    def restore(self, produced: ProducedResult, program: ProgramIdentity, environment: str) -> bool:
        """Records a result whose files are there, and that the catalog has lost.

        Args:
            produced: the result, with a lifetime that begins now.
            program: who had kept it.
            environment: what that program's digests took for granted.

        Returns:
            whether it was not recorded.
        """
        with self._scope.database.writing(alone=True) as connection:
            now = self._scope.database.now(connection)
            known = connection.scalar(
                select(RESULTS.c.number).where(
                    RESULTS.c.name == produced.kept.name,
                    RESULTS.c.storage == self._scope.storage,
                    RESULTS.c.state != ResultState.GONE.value,
                )
            )
            if known is not None or produced.lifetime is None:
                return False
            number = insert(
                connection, self._scope, produced, ResultState.KEPT, now, program, environment
            )
            describe(connection, number, produced, {})
            add_holder(connection, number, THE_CATALOG, now + produced.lifetime)
            return True

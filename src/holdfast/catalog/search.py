"""Finding results in a catalog. Each call is one transaction."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

from sqlalchemy import Connection, Float, Select, bindparam, or_, select

from holdfast.catalog.catalog_scope import CatalogScope, is_held
from holdfast.catalog.cataloged_result import (
    CatalogedResult,
    MadeFrom,
    OfferedResult,
    ResultState,
)
from holdfast.catalog.near_misses import AskedFor
from holdfast.catalog.records import (
    offered_in,
    result_in,
    unpacked_sources,
)
from holdfast.catalog.schema import MANIFESTS, RESULTS
from holdfast.ids import IntermediateDataSetID


class CatalogSearch:
    """What a program may know of results.

    Args:
        scope: of the program.

    Every method raises CatalogError when the database can't be used.
    """

    def __init__(self, scope: CatalogScope) -> None:
        self._scope = scope

    def find(
        self, dataset_ids: Collection[IntermediateDataSetID]
    ) -> dict[IntermediateDataSetID, OfferedResult]:
        """What of these this program may read, of others' results; one of each dataset.

        Args:
            dataset_ids: the datasets.
        """
        if not dataset_ids:
            return {}
        with self._scope.database.reading() as connection:
            now = self._scope.database.now(connection)
            asked = {"now": now, "datasets": [each.hex for each in dataset_ids]}
            rows = connection.execute(self._offered, asked).all()
        found = filter(None, map(offered_in, rows))
        return {each.result.dataset_id: each for each in found}

    @cached_property
    def _offered(self) -> Select[Any]:
        """Made once: to put it together takes longer than to run it, and each job does."""
        return (
            select(RESULTS, MANIFESTS)
            .join(MANIFESTS, MANIFESTS.c.result == RESULTS.c.number)
            .where(
                RESULTS.c.dataset_id.in_(bindparam("datasets", expanding=True)),
                *self._scope.offered(),
                is_held(bindparam("now", type_=Float)),
            )
            # What stays longer comes later, and is the one that is taken.
            .order_by(RESULTS.c.is_shared, RESULTS.c.number)
        )

    def is_empty(self) -> bool:
        """Whether there is nothing that this program could read of others."""
        with self._scope.database.reading() as connection:
            found = connection.scalar(
                select(RESULTS.c.number)
                .where(
                    *self._scope.offered(),
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
        with self._scope.database.reading() as connection:
            rows = connection.execute(
                select(RESULTS, MANIFESTS.c.made_from)
                .join(MANIFESTS, MANIFESTS.c.result == RESULTS.c.number)
                .where(
                    RESULTS.c.storage == self._scope.storage,
                    RESULTS.c.environment == self._scope.environment,
                    RESULTS.c.state != ResultState.COMING.value,
                    or_(
                        RESULTS.c.shape.in_(list(by_shape)),
                        RESULTS.c.dataset_id.in_(list(by_dataset)),
                    ),
                    self._scope.may_read(),
                )
                # The last one is shown: rather one that is kept, and rather a late one.
                .order_by(RESULTS.c.state == ResultState.KEPT.value, RESULTS.c.number)
            )
            for row in rows:
                each = by_dataset.get(row.dataset_id) or by_shape[row.shape]
                found[each.digest] = (each, result_in(row), unpacked_sources(row.made_from))
        return found

    def all(self, states: Collection[ResultState] = (ResultState.KEPT,)) -> list[CatalogedResult]:
        """Every result that is recorded, in the order of publication.

        Args:
            states: in one of these.
        """
        with self._scope.database.reading() as connection:
            rows = connection.execute(
                select(RESULTS)
                .where(RESULTS.c.state.in_([each.value for each in states]))
                .order_by(RESULTS.c.number)
            )
            return list(map(result_in, rows))


def kept_by_others(
    connection: Connection, scope: CatalogScope, dataset_id: IntermediateDataSetID, now: float
) -> CatalogedResult | None:
    """The result of another program that is to be read of a dataset; within a transaction."""
    row = connection.execute(
        select(RESULTS)
        .where(
            RESULTS.c.dataset_id == dataset_id.hex,
            *scope.offered(),
            is_held(now),
        )
        .order_by(RESULTS.c.is_shared.desc(), RESULTS.c.number.desc())
        .limit(1)
    ).first()
    return None if row is None else result_in(row)

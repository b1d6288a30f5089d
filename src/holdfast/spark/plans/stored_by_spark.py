"""What Spark itself has persisted, or checkpointed, of a plan."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, cast

from pyspark.sql import SparkSession

from holdfast.errors import UnsupportedSparkError
from holdfast.plan.fixed_parts import with_fixed_parts
from holdfast.spark.cache_entries import cached_by_spark
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.java_classes import new_object


class StoredBySpark:
    """Leaves alone what `persist()` has stored: Spark finds it by the plan as it was written.

    Args:
        spark: PySpark's own session.
        left_alone: for as long as it lasts, nobody replaces what Spark looks up.
    """

    def __init__(
        self, spark: SparkSession, left_alone: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._spark = spark
        self._left_alone = left_alone
        self._is_stored: Any = None

    def has_any(self) -> bool:
        """Whether Spark has stored anything, of any plan."""
        entries = cached_by_spark(self._spark)
        if entries is not None:
            return bool(entries.get())
        session = cast(Any, self._spark)._jsparkSession
        return not session.sharedState().cacheManager().isEmpty()

    def fixed(self, query: Query) -> Query:
        """The query in which nothing is replaced below what Spark has stored.

        Args:
            query: any query of the session; the same object comes back where nothing is stored.
        """
        if not self.has_any():
            return query
        try:
            stored = self._found(query)
        except UnsupportedSparkError:
            # Then a persisted plan may be computed from what is kept below it.
            return replace(query)
        # Nothing is below a leaf.
        handles = {handle for handle, found in enumerate(stored) if found == "part"}
        return replace(query, root=with_fixed_parts(query.root, handles))

    def has(self, query: Query) -> bool:
        """Whether Spark has stored the query itself.

        Args:
            query: any query of the session.
        """
        if not self.has_any():
            return False
        session = cast(Any, self._spark)._jsparkSession
        with self._left_alone():
            found = session.sharedState().cacheManager().lookupCachedData(session, query.written)
        return bool(found.isDefined())

    def has_part_of(self, query: Query) -> bool:
        """Whether Spark has stored the query, or anything that it is made of.

        Args:
            query: any query of the session.
        """
        if not self.has_any():
            return False
        try:
            return any(self._found(query))
        except UnsupportedSparkError:
            return True

    def _found(self, query: Query) -> list[str]:
        """What Spark has stored of each node, by handle."""
        with self._left_alone():
            if self._is_stored is None:
                session = self._spark._jsparkSession
                self._is_stored = new_object(self._spark, "StoredBySpark", session)
            return query.reading.each(self._is_stored).split(",")

"""The catalog of a session whose DataFrames are Tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark import StorageLevel
from pyspark.sql.catalog import Catalog

from holdfast.api.storage_levels import is_kept

if TYPE_CHECKING:
    from holdfast.api.table import Table
    from holdfast.api.table_session import TableSession


class TableCatalog(Catalog):
    """PySpark's catalog, in which to cache a table means what `Table.persist` does.

    Args:
        session: The session.

    Source: FLIP-36, phase 1 (the table environment).

    Example:
        >>> catalog = table.sparkSession.catalog
        >>> table.createOrReplaceTempView("cached_by_name")
        >>> catalog.cacheTable("cached_by_name")
        >>> catalog.isCached("cached_by_name")
        True
        >>> catalog.uncacheTable("cached_by_name")
    """

    def __init__(self, session: TableSession) -> None:
        super().__init__(session)
        self._holdfast_session = session

    def isCached(self, tableName: str) -> bool:
        with self._holdfast_session.holdfast.left_alone():
            by_spark = super().isCached(tableName)
        return by_spark or self._of(tableName).storageLevel.useDisk

    def cacheTable(self, tableName: str, storageLevel: StorageLevel | None = None) -> None:
        level = StorageLevel.MEMORY_AND_DISK_DESER if storageLevel is None else storageLevel
        if is_kept(level):
            self._of(tableName).persist(level)
            return
        with self._holdfast_session.holdfast.left_alone():
            super().cacheTable(tableName, level)

    def uncacheTable(self, tableName: str) -> None:
        self._holdfast_session.holdfast.uncache(self._of(tableName))
        # What reads a table is uncached with it, as far as Spark knows.
        with self._holdfast_session.holdfast.left_alone():
            super().uncacheTable(tableName)

    def clearCache(self) -> None:
        self._holdfast_session.holdfast.uncache_all()
        super().clearCache()

    def _of(self, name: str) -> Table:
        return cast("Table", self._holdfast_session.table(name))

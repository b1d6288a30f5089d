"""Writing a streaming table."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as ParentDataFrame
    from pyspark.sql import SparkSession

    from holdfast.api.table import Table

logger = logging.getLogger(__name__)


class TableStreamWriter(DataStreamWriter):
    """PySpark's writer of streaming tables, whose `foreachBatch` gives Tables.

    Args:
        table: The streaming table to write.

    Source: FLIP-36, phase 1 (a sink is a job like any other).

    Example:
        >>> events = table.sparkSession.readStream.format("rate").load()
        >>> writer = events.writeStream.foreachBatch(lambda batch, number: None)
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._holdfast_context = table._holdfast_context

    def foreachBatch(self, func: Callable[[ParentDataFrame, int], None]) -> TableStreamWriter:
        """Has a function process each micro-batch.

        What the batch is joined with reads kept results, and what the function caches is kept.

        Args:
            func: Takes the batch, a Table, and its number.

        Source: FLIP-36, phase 1 (a sink is a job like any other).

        Example:
            >>> events = table.sparkSession.readStream.format("rate").load()
            >>> writer = events.writeStream.foreachBatch(lambda batch, number: batch.count())
        """
        beside: list[tuple[SparkSession, SparkSession]] = []

        def process(batch: ParentDataFrame, number: int) -> None:
            func(self._as_table(batch, beside), number)

        super().foreachBatch(process)
        return self

    def _as_table(
        self, batch: ParentDataFrame, beside: list[tuple[SparkSession, SparkSession]]
    ) -> ParentDataFrame:
        """The table of a batch, whose session Spark has made for the query."""
        plain = batch.sparkSession
        try:
            if not beside or beside[0][0]._jsparkSession != plain._jsparkSession:
                beside[:] = [(plain, self._holdfast_context.session_beside(plain))]
            return DataFrame(batch._jdf, beside[0][1])
        except Exception:
            logger.warning("a micro-batch is processed without kept results", exc_info=True)
            return batch

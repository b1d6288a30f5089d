"""A grouped table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.group import GroupedData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.pandas.group_ops import PandasCogroupedOps

    from holdfast.api.members import transformation
    from holdfast.api.table import Table

_RELATIONAL_GROUPED_DATASET = "org.apache.spark.sql.classic.RelationalGroupedDataset"


class GroupedTable(GroupedData):
    """The result of ``groupBy``, ``rollup``, ``cube`` and ``groupingSets`` of a Table.

    It has every method of PySpark's GroupedData; their results are Tables.

    Args:
        java_grouped: Spark's own grouped dataset, of the original plan.
        table: The table that was grouped.

    Source: FLIP-36, phase 1 (a cached table is a table like any other).

    Example:
        >>> table.groupBy("k").count()
        DataFrame[k: bigint, count: bigint]
    """

    _df: Table

    def __init__(self, java_grouped: Any, table: Table) -> None:
        super().__init__(java_grouped, table)
        self._holdfast_context = table._holdfast_context

    if TYPE_CHECKING:
        apply = transformation(GroupedData.apply)
        applyInArrow = transformation(GroupedData.applyInArrow)
        applyInPandas = transformation(GroupedData.applyInPandas)
        applyInPandasWithState = transformation(GroupedData.applyInPandasWithState)
        avg = transformation(GroupedData.avg)
        count = transformation(GroupedData.count)
        max = transformation(GroupedData.max)
        mean = transformation(GroupedData.mean)
        min = transformation(GroupedData.min)
        sum = transformation(GroupedData.sum)
        transformWithState = transformation(GroupedData.transformWithState)
        transformWithStateInPandas = transformation(GroupedData.transformWithStateInPandas)

        def agg(self, *exprs: Column | dict[str, str]) -> Table: ...
        def cogroup(self, other: GroupedData) -> PandasCogroupedOps: ...

    def pivot(self, pivot_col: str, values: Sequence[Any] | None = None) -> GroupedTable:
        """Pivots a column, as PySpark does.

        Without ``values``, Spark runs a query for the distinct values of the column when this is
        called. Here that query is a job, which reads kept results.

        Args:
            pivot_col: The column to pivot.
            values: The values that become columns.

        Raises:
            pyspark.errors.AnalysisException: The column doesn't exist, or has more distinct values
                than ``spark.sql.pivotMaxValues``.
            pyspark.errors.UnsupportedOperationException: The table isn't grouped by ``groupBy``.

        Source: FLIP-36, phase 1 (a job replaces a node by what is kept of it).

        Example:
            >>> table.groupBy().pivot("k").count().columns
            ['1', '2']
        """
        if values is not None:
            return GroupedTable(self._jgd.pivot(pivot_col, values), self._df)
        # Without values there is nothing to compute, but Spark checks everything else.
        unfilled = self._jgd.pivot(pivot_col, [])
        pivot_values = self._holdfast_context.run_action(
            self._df, "pivot", lambda df: _pivot_type_of(_pivoted(df, pivot_col)).values()
        )
        # The values are literals of Spark's own, so no type is lost on a way through Python.
        pivot_type = _pivot_type_of(unfilled)
        filled = pivot_type.copy(pivot_type.pivotCol(), pivot_values)
        companion = getattr(self.session._jvm, _RELATIONAL_GROUPED_DATASET)
        java_grouped = companion.apply(unfilled.df(), unfilled.groupingExprs(), filled)
        return GroupedTable(java_grouped, self._df)


def _pivoted(df: DataFrame, pivot_col: str) -> Any:
    return df.groupBy().pivot(pivot_col)._jgd


def _pivot_type_of(java_grouped: Any) -> Any:
    # Spark has no method that gives it.
    field = java_grouped.getClass().getDeclaredField("groupType")
    field.setAccessible(True)
    return field.get(java_grouped)

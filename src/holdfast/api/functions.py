"""``table.na`` and ``table.stat``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.classic.dataframe import DataFrameNaFunctions, DataFrameStatFunctions

if TYPE_CHECKING:
    from holdfast.api.table import Table


class TableNaFunctions(DataFrameNaFunctions):
    """PySpark's functions for missing values, whose results are Tables.

    Args:
        table: The table to work on.

    Source: FLIP-36, phase 1 (a cached table is a table like any other).

    Example:
        >>> table.na.fill(0, ["v"]).na.drop()
        Table[k: bigint, v: bigint]
    """

    df: Table

    def __init__(self, table: Table) -> None:
        super().__init__(table)

    def drop(
        self,
        how: str = "any",
        thresh: int | None = None,
        subset: str | tuple[str, ...] | list[str] | None = None,
    ) -> Table:
        return self.df.dropna(how=how, thresh=thresh, subset=subset)

    def fill(self, value: Any, subset: list[str] | None = None) -> Table:
        return self.df.fillna(value=value, subset=subset)

    def replace(self, *args: Any, **kwargs: Any) -> Table:
        return self.df.replace(*args, **kwargs)


class TableStatFunctions(DataFrameStatFunctions):
    """PySpark's statistics: numbers are computed by jobs, and DataFrames are Tables.

    Args:
        table: The table to work on.

    Source: FLIP-36, phase 1 (a cached table is a table like any other).

    Example:
        >>> table.stat.approxQuantile("k", [0.0, 1.0], 0.0)
        [1.0, 2.0]
    """

    df: Table

    def __init__(self, table: Table) -> None:
        super().__init__(table)

    def crosstab(self, col1: str, col2: str) -> Table:
        return self.df.crosstab(col1, col2)

    def freqItems(self, cols: list[str], support: float | None = None) -> Table:
        return self.df.freqItems(cols, support)

    def sampleBy(self, col: str, fractions: dict[Any, float], seed: int | None = None) -> Table:
        return self.df.sampleBy(col, fractions, seed)

"""Reading files and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.readwriter import DataFrameReader

from holdfast.api.members import transformation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql._typing import OptionalPrimitiveType
    from pyspark.sql.types import StructType

    from holdfast.api.context import TableContext
    from holdfast.api.table import Table


class TableReader(DataFrameReader):
    """PySpark's reader, whose results are Tables, as returned by ``env.read``.

    Reading strings from a Table (``json``, ``csv``, ``xml``) infers the schema, if none is
    given, with a query of Spark's own on the table's original plan.

    Args:
        session: The session to read with.
        context: The environment that the tables belong to.

    Source: FLIP-36, phase 1 (sources of a table environment).

    Example:
        >>> env.read.schema("a int").csv([])
        Table[a: int]
    """

    def __init__(self, session: SparkSession, context: TableContext) -> None:
        super().__init__(session)
        self._holdfast_context = context

    if TYPE_CHECKING:  # PySpark returns self

        def format(self, source: str) -> TableReader: ...
        def option(self, key: str, value: Any) -> TableReader: ...
        def options(self, **options: Any) -> TableReader: ...
        def schema(self, schema: Any) -> TableReader: ...

    changes = transformation(DataFrameReader.changes)
    csv = transformation(DataFrameReader.csv)
    json = transformation(DataFrameReader.json)
    orc = transformation(DataFrameReader.orc)
    table = transformation(DataFrameReader.table)
    text = transformation(DataFrameReader.text)
    xml = transformation(DataFrameReader.xml)

    def jdbc(self, *args: Any, **kwargs: Any) -> Table:
        return self._holdfast_context.wrap(super().jdbc(*args, **kwargs))

    def load(
        self,
        path: str | list[str] | None = None,
        format: str | None = None,
        schema: StructType | str | None = None,
        **options: OptionalPrimitiveType,
    ) -> Table:
        return self._holdfast_context.wrap(super().load(path, format, schema, **options))

    def parquet(self, *paths: str, **options: OptionalPrimitiveType) -> Table:
        return self._holdfast_context.wrap(super().parquet(*paths, **options))

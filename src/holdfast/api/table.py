"""The table: a DataFrame whose jobs read kept results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pyspark import StorageLevel
from pyspark.sql import DataFrame as ParentDataFrame
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.api.grouped import GroupedTable
from holdfast.api.members import action, as_table, eager_transformation
from holdfast.api.safe_points import now_or_later
from holdfast.api.storage_levels import is_kept
from holdfast.api.stream_writer import TableStreamWriter
from holdfast.api.writers import TableMergeWriter, TableWriter, TableWriterV2
from holdfast.spark.versions import returns_json_as_dataframe

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark import RDD
    from pyspark.pandas.frame import DataFrame as PandasOnSparkDataFrame
    from pyspark.sql import Column, Row

    from holdfast.api.cached_table import CachedTable
    from holdfast.api.context import TableContext
    from holdfast.api.data_stream import DataStream
    from holdfast.api.members import transformation
    from holdfast.api.table_session import TableSession

    ColumnOrName = Column | str
    ColumnOrNameOrOrdinal = Column | str | int


class Table(DataFrame):
    """A PySpark DataFrame whose jobs read kept results.

    It has every method and property of PySpark's DataFrame, with the same arguments and results,
    and is accepted wherever PySpark takes a DataFrame. Transformations return a Table and run
    nothing. Actions run as a job of the environment: every part of the plan that is kept is read
    instead of being computed. What a Table shows of its plan (``schema``, views, ``inputFiles``)
    refers to the plan as it was written.

    A job is resubmitted if kept data was lost while it ran, so a function passed to ``foreach`` may
    see a row twice, as it may when Spark reruns a task.

    Args:
        jdf: Spark's own Dataset, with the original plan.
        session: The session of an environment, which runs this table's jobs.

    Source: FLIP-36, phase 1 (explicit cache on a ``Table``).

    Example:
        >>> hot = table.groupBy("k").count().cache()
        >>> sorted(hot.collect())
        [Row(k=1, count=1), Row(k=2, count=1)]
        >>> hot.where("k > 1").count()
        1
        >>> hot.invalidate_cache()
    """

    def __init__(self, jdf: JavaObject, session: TableSession) -> None:
        super().__init__(jdf, session)
        # PySpark also takes an SQLContext, and has made a session of it.
        self._holdfast_context: TableContext = cast("TableSession", self._session).holdfast

    # --- transformations: PySpark's own; what they create for this session are Tables

    if TYPE_CHECKING:
        agg = transformation(DataFrame.agg)
        alias = transformation(DataFrame.alias)
        coalesce = transformation(DataFrame.coalesce)
        crossJoin = transformation(DataFrame.crossJoin)
        describe = transformation(DataFrame.describe)
        distinct = transformation(DataFrame.distinct)
        drop = transformation(DataFrame.drop)
        dropDuplicates = transformation(DataFrame.dropDuplicates)
        dropDuplicatesWithinWatermark = transformation(DataFrame.dropDuplicatesWithinWatermark)
        drop_duplicates = transformation(DataFrame.drop_duplicates)
        dropna = transformation(DataFrame.dropna)
        exceptAll = transformation(DataFrame.exceptAll)
        fillna = transformation(DataFrame.fillna)
        filter = transformation(DataFrame.filter)
        freqItems = transformation(DataFrame.freqItems)
        hint = transformation(DataFrame.hint)
        intersect = transformation(DataFrame.intersect)
        intersectAll = transformation(DataFrame.intersectAll)
        join = transformation(DataFrame.join)
        lateralJoin = transformation(DataFrame.lateralJoin)
        limit = transformation(DataFrame.limit)
        mapInArrow = transformation(DataFrame.mapInArrow)
        mapInPandas = transformation(DataFrame.mapInPandas)
        melt = transformation(DataFrame.melt)
        nearestByJoin = transformation(DataFrame.nearestByJoin)
        observe = transformation(DataFrame.observe)
        offset = transformation(DataFrame.offset)
        repartition = transformation(DataFrame.repartition)
        repartitionById = transformation(DataFrame.repartitionById)
        repartitionByRange = transformation(DataFrame.repartitionByRange)
        sampleBy = transformation(DataFrame.sampleBy)
        subtract = transformation(DataFrame.subtract)
        summary = transformation(DataFrame.summary)
        to = transformation(DataFrame.to)
        toDF = transformation(DataFrame.toDF)
        transform = transformation(DataFrame.transform)
        union = transformation(DataFrame.union)
        unionAll = transformation(DataFrame.unionAll)
        unionByName = transformation(DataFrame.unionByName)
        unpivot = transformation(DataFrame.unpivot)
        where = transformation(DataFrame.where)
        withColumn = transformation(DataFrame.withColumn)
        withColumnRenamed = transformation(DataFrame.withColumnRenamed)
        withColumns = transformation(DataFrame.withColumns)
        withColumnsRenamed = transformation(DataFrame.withColumnsRenamed)
        withMetadata = transformation(DataFrame.withMetadata)
        withWatermark = transformation(DataFrame.withWatermark)
        zip = transformation(DataFrame.zip)
        zipWithIndex = transformation(DataFrame.zipWithIndex)
        _joinAsOf = transformation(DataFrame._joinAsOf)

        def replace(self, *args: Any, **kwargs: Any) -> Table: ...
        def select(self, *cols: Sequence[ColumnOrName] | ColumnOrName) -> Table: ...
        def selectExpr(self, *expr: str | list[str]) -> Table: ...
        def sort(
            self, *cols: Sequence[ColumnOrNameOrOrdinal] | ColumnOrNameOrOrdinal, **kwargs: Any
        ) -> Table: ...
        def sortWithinPartitions(
            self, *cols: Sequence[ColumnOrNameOrOrdinal] | ColumnOrNameOrOrdinal, **kwargs: Any
        ) -> Table: ...
        def randomSplit(self, weights: list[float], seed: int | None = None) -> list[Table]: ...  # type: ignore[override]

        orderBy = sort

    def groupBy(
        self, *cols: Sequence[ColumnOrNameOrOrdinal] | ColumnOrNameOrOrdinal
    ) -> GroupedTable:
        return GroupedTable(super().groupBy(*cols)._jgd, self)  # type: ignore[arg-type]

    groupby = groupBy

    def rollup(
        self, *cols: Sequence[ColumnOrNameOrOrdinal] | ColumnOrNameOrOrdinal
    ) -> GroupedTable:
        return GroupedTable(super().rollup(*cols)._jgd, self)  # type: ignore[arg-type]

    def cube(self, *cols: Sequence[ColumnOrNameOrOrdinal] | ColumnOrNameOrOrdinal) -> GroupedTable:
        return GroupedTable(super().cube(*cols)._jgd, self)  # type: ignore[arg-type]

    def groupingSets(
        self,
        groupingSets: Sequence[Sequence[ColumnOrNameOrOrdinal]],
        *cols: ColumnOrNameOrOrdinal,
    ) -> GroupedTable:
        return GroupedTable(super().groupingSets(groupingSets, *cols)._jgd, self)

    def sample(
        self,
        withReplacement: float | bool | None = None,
        fraction: float | None = None,
        seed: int | None = None,
    ) -> Table:
        """Returns a sample of the rows, as PySpark does, whose seed is the one that is given.

        PySpark draws another one where the seed is given by name and the fraction is not.

        Args:
            withReplacement: Whether a row may be in it twice; or the fraction.
            fraction: How much of the rows, from 0 to 1; or the seed.
            seed: Decides which rows; random by default.

        Example:
            >>> table.sample(0.5, seed=3).collect() == table.sample(0.5, seed=3).collect()
            True
        """
        if isinstance(withReplacement, float) and fraction is None:
            withReplacement, fraction = None, withReplacement
        sampled = super().sample(withReplacement, fraction, seed)  # type: ignore[arg-type]
        return cast("Table", sampled)

    # --- actions: run as a job

    approxQuantile = action(DataFrame.approxQuantile)
    collect = action(DataFrame.collect, takes_all_rows=True)
    corr = action(DataFrame.corr)
    count = action(DataFrame.count, takes_all_rows=True)
    cov = action(DataFrame.cov)
    crosstab = eager_transformation(DataFrame.crosstab)
    first = action(DataFrame.first)
    foreach = action(DataFrame.foreach, is_repeatable=False)
    foreachPartition = action(DataFrame.foreachPartition, is_repeatable=False)
    head = action(DataFrame.head)
    isEmpty = action(DataFrame.isEmpty)
    show = action(DataFrame.show)
    tail = action(DataFrame.tail)
    take = action(DataFrame.take)
    toArrow = action(DataFrame.toArrow, takes_all_rows=True)
    toPandas = action(DataFrame.toPandas, takes_all_rows=True)
    transpose = eager_transformation(DataFrame.transpose)
    _collect_as_arrow = action(DataFrame._collect_as_arrow, takes_all_rows=True)
    _show_string = action(DataFrame._show_string)
    if hasattr(DataFrame, "_to_pandas"):
        _to_pandas = action(DataFrame._to_pandas, takes_all_rows=True)

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Row]:
        return self._holdfast_context.stream_action(
            self, "toLocalIterator", lambda df: df.toLocalIterator(prefetchPartitions)
        )

    def checkpoint(self, eager: bool = True) -> Table:
        """Returns this table with its plan truncated, saved in the checkpoint directory.

        Args:
            eager: Save it now, in a job. Otherwise Spark saves it on first use; cached
                computations that it needs are computed and kept now, as `rdd` does.

        Source: FLIP-36, phase 1 (a job replaces a node by what is kept of it).

        Example:
            >>> table.checkpoint().count()
            2
        """
        return self._holdfast_checkpointed("checkpoint", eager, lambda df: df.checkpoint(eager))

    def localCheckpoint(
        self, eager: bool = True, storageLevel: StorageLevel | None = None
    ) -> Table:
        """Returns this table with its plan truncated, saved in the executors.

        Args:
            eager: Save it now, in a job. Otherwise Spark saves it on first use; cached
                computations that it needs are computed and kept now, as `rdd` does.
            storageLevel: How the executors store it; Spark's default when not given.

        Source: FLIP-36, phase 1 (a job replaces a node by what is kept of it).

        Example:
            >>> table.localCheckpoint().count()
            2
        """
        return self._holdfast_checkpointed(
            "localCheckpoint", eager, lambda df: df.localCheckpoint(eager, storageLevel)
        )

    def _holdfast_checkpointed(
        self, name: str, eager: bool, cut_off: Callable[[ParentDataFrame], ParentDataFrame]
    ) -> Table:
        if eager:
            cut = self._holdfast_context.run_action(self, name, cut_off)
        else:
            prepared = self._holdfast_context.prepare(self, name)
            with self._holdfast_context.left_alone():
                cut = cut_off(prepared)
        return as_table(self._holdfast_context, cut)

    @property
    def write(self) -> TableWriter:
        return TableWriter(self)

    @property
    def writeStream(self) -> TableStreamWriter:
        return TableStreamWriter(self)

    def writeTo(self, table: str) -> TableWriterV2:
        return TableWriterV2(self, table)

    def mergeInto(self, table: str, condition: Column) -> TableMergeWriter:
        return TableMergeWriter(self, table, condition)

    # --- hand-outs: what is handed out reads what is kept now

    @property
    def rdd(self) -> RDD[Row]:
        """This table as an RDD that reads kept results.

        Cached computations that it needs are computed and kept first. What the RDD reads stays
        as long as it, or an RDD derived from it, exists and the environment is open.

        Source: FLIP-36, phase 1 (a job replaces a node by what is kept of it).

        Example:
            >>> table.rdd.map(lambda row: row.k).sum()
            3
        """
        return self._holdfast_context.prepare(self, "rdd").rdd

    def pandas_api(self, index_col: str | list[str] | None = None) -> PandasOnSparkDataFrame[Any]:
        if self._holdfast_context.is_attached:
            # Other frames of pandas-on-Spark are made of Tables there as well, and they mix.
            return super().pandas_api(index_col)
        prepared = self._holdfast_context.prepare(self, "pandas_api", is_run_later=True)
        return prepared.pandas_api(index_col)

    def toJSON(self, use_unicode: bool = True) -> RDD[str] | Table:
        """Returns each row as a JSON string.

        Args:
            use_unicode: Return ``str`` rather than UTF-8 ``bytes``; only for an RDD.

        Returns:
            An RDD that reads kept results, or a Table, depending on PySpark's configuration.

        Source: FLIP-36, phase 1 (a job replaces a node by what is kept of it).

        Example:
            >>> table.where("k = 1").toJSON().first()
            '{"k":1,"v":10}'
        """
        if returns_json_as_dataframe(self.sparkSession):
            return as_table(self._holdfast_context, super().toJSON(use_unicode))
        handed_out = self._holdfast_context.prepare(self, "toJSON")
        return cast("RDD[str]", handed_out.toJSON(use_unicode))

    def to_dataframe(self) -> ParentDataFrame:
        """Returns the plain DataFrame, with kept results substituted. Runs nothing.

        Its jobs are Spark's own: they keep nothing, unless the session is attached. What it reads
        stays as long as this DataFrame, or one derived from it, exists and the environment is open;
        the rest is computed of a catalog's tables as they are when Spark plans each query.

        Returns:
            A DataFrame with this table's schema.

        Source: FLIP-36, phase 1 (clients replace the matching digest with a source).

        Example:
            >>> table.to_dataframe()
            DataFrame[k: bigint, v: bigint]
        """
        return self._holdfast_context.hand_out(self)

    def to_data_stream(self) -> DataStream:
        """Returns this table's rows as a stream of ``Row``. Runs nothing.

        Its jobs are jobs of Holdfast: they read kept results of this table, and keep cached ones.

        Raises:
            holdfast.errors.EnvironmentClosedError: The environment has been closed.

        Source: PyFlink, ``StreamTableEnvironment.to_data_stream``.

        Example:
            >>> sorted(table.to_data_stream().map(lambda row: row.v).execute_and_collect())
            [10, 20]
        """
        return self._holdfast_context.to_data_stream(self)

    # --- keeping

    def cache(
        self, lifetime: timedelta | str | None = None, *, name: str | None = None
    ) -> CachedTable:
        """Caches this table's rows, so that later jobs read them.

        Nothing runs now. The first job whose plan contains this computation, on this object or
        not, leaves its rows behind; every later job that contains it reads them. They stay until
        they are invalidated or the environment closes. With a lifetime they stay for that long
        after their last use, and later programs read them.

        Args:
            lifetime: A time such as ``"7 d"``; ``"application"`` for as long as the environment
                lives; None for what ``intermediate-result-storage.lifetime`` says.
            name: What ``list_cached()`` and ``holdfast ls`` call it, beside what it computes; by
                default the variable that the program has it in.

        Returns:
            This table, cached.

        Raises:
            holdfast.errors.ConfigurationError: The lifetime is none.
            holdfast.errors.UnsupportedTypeError: A lifetime is given, and a column's type can't be
                kept; else Spark's own cache holds the table.
            holdfast.errors.UnsupportedSparkError: Plans of the session's Spark can't be read.

        Source: FLIP-36, phases 1 and 2 (``Table.cache()``).

        Example:
            >>> hot = table.where("v > 10").cache()
            >>> hot.count()
            1
        """
        if lifetime is None:
            level = StorageLevel.MEMORY_AND_DISK_DESER
            self._holdfast_context.persist(self, level, name)
        else:
            self._holdfast_context.cache(self, lifetime, name)
        self.is_cached = True
        return cast("CachedTable", self)

    def persist(
        self, storageLevel: StorageLevel = StorageLevel.MEMORY_AND_DISK_DESER
    ) -> ParentDataFrame:
        """Caches this table's rows, as `cache()` does, or has Spark persist them.

        Holdfast keeps rows on disk. So a level that allows for the disk, with one replica, is what
        `cache()` does; `MEMORY_ONLY`, `OFF_HEAP` and replicated levels are Spark's own, and so is
        any level where a column's type can't be kept.

        Args:
            storageLevel: As for PySpark's DataFrame.

        Returns:
            This table.

        Source: FLIP-36, phase 1 (``Table.cache()``).

        Example:
            >>> table.where("v > 20").persist().is_cached
            True
        """
        if is_kept(storageLevel):
            return self._holdfast_context.persist(self, storageLevel)
        return self._holdfast_persisted(storageLevel)

    def unpersist(self, blocking: bool = False) -> Table:
        """Releases what is kept of this table's rows, by Holdfast and by Spark.

        Args:
            blocking: As for PySpark's DataFrame.

        Returns:
            This table.

        Source: FLIP-36, phase 1 (``Table.invalidateCache()``).

        Example:
            >>> table.persist().unpersist().is_cached
            False
        """
        self.is_cached = False
        now_or_later(partial(self._holdfast_unpersisted, blocking))
        return self

    def _holdfast_unpersisted(self, blocking: bool) -> None:
        self._holdfast_context.uncache(self)
        super().unpersist(blocking)

    @property
    def storageLevel(self) -> StorageLevel:
        """The level that the table was cached with, be it by Holdfast or by Spark.

        Source: FLIP-36, phase 1 (``Table.cache()``).

        Example:
            >>> table.where("v > 30").storageLevel
            StorageLevel(False, False, False, False, 1)
        """
        return self._holdfast_context.storage_level(self) or super().storageLevel

    def _holdfast_persisted(self, level: StorageLevel) -> Table:
        """Has Spark persist the rows: of the original plan, by which Spark finds them again."""
        with self._holdfast_context.left_alone():
            self._holdfast_context.plain(self, fresh=True).persist(level)
        self.is_cached = True
        return self

    def invalidate_cache(self) -> None:
        """Drops what is kept of this table's computation; the next job recomputes it.

        Does nothing if nothing is kept.

        Source: FLIP-36, phase 1 (``Table.invalidateCache()``).

        Example:
            >>> hot = table.cache()
            >>> hot.invalidate_cache()
        """
        self.is_cached = False
        self._holdfast_context.invalidate(self)

    def explain(self, extended: bool | str | None = None, mode: str | None = None) -> None:
        """Prints which kept results a job would read, then Spark's plan of that job.

        Args:
            extended: As for PySpark's DataFrame.
            mode: As for PySpark's DataFrame.

        Source: FLIP-36, phase 1 (clients replace the matching digest with a source).

        Example:
            >>> table.explain("formatted")  # doctest: +ELLIPSIS
            == ...
        """
        kept = self._holdfast_context.explain_kept(self)
        plain = self._holdfast_context.substituted(self)
        print(kept)
        plain.explain(extended, mode)

    # --- how a table shows itself

    def __repr__(self) -> str:
        if self._holdfast_shows_rows() and not self._support_repr_html:
            return self._holdfast_context.run_action(self, "__repr__", repr)
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.dtypes)
        return f"DataFrame[{columns}]"

    def _repr_html_(self) -> str | None:
        # PySpark's way to not run the query a second time for __repr__.
        self._support_repr_html = True
        if not self._holdfast_shows_rows():
            return None
        return self._holdfast_context.run_action(self, "_repr_html_", lambda df: df._repr_html_())

    def _holdfast_shows_rows(self) -> bool:
        return self.sparkSession.conf.get("spark.sql.repl.eagerEval.enabled") == "true"

    def __dir__(self) -> list[str]:
        columns = (name for name in self.columns if name.isidentifier())
        return sorted({*dir(type(self)), *columns})

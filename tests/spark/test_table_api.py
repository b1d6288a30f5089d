"""A Table does what PySpark's DataFrame does, and its jobs go through its environment."""

from __future__ import annotations

import contextlib
import copy
import doctest
import io
import itertools
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyspark
import pytest
from pyspark import StorageLevel
from pyspark.errors import AnalysisException, PySparkAttributeError
from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.group import GroupedData
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from holdfast import Environment, JobExecutionResult, VertexOutcome
from holdfast.api import (
    attachment,
    cached_table,
    grouped,
    members,
    storage_levels,
    stream_writer,
    table,
    table_catalog,
    table_session,
    writers,
)
from holdfast.api.cached_table import CachedTable
from holdfast.api.grouped import GroupedTable
from holdfast.api.members import (
    COGROUPED_MEMBERS,
    GROUPED_MEMBERS,
    NA_MEMBERS,
    READER_MEMBERS,
    STAT_MEMBERS,
    TABLE_MEMBERS,
    WRITER_MEMBERS,
    MemberKind,
    members_of,
)
from holdfast.api.table import Table
from holdfast.api.writers import TableMergeWriter, TableWriter, TableWriterV2
from holdfast.spark.versions import NEWEST, returns_json_as_dataframe, version_of

pytestmark = pytest.mark.usefixtures("interpreted")
T = TypeVar("T")

SCHEMA = "k bigint, v bigint, s string"
ROWS = [(1, 10, "a"), (1, 30, None), (2, 20, "b"), (2, None, "a")]
COMMITTER_VERSION = "mapreduce.fileoutputcommitter.algorithm.version"


class RecordingEnvironment(Environment):
    """An environment that writes down what goes through it.

    Attributes:
        actions: the names of the actions that were called.
        calls: what else its tables asked of it.
        jobs: how its jobs went.
    """

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        super().__init__(spark, {"intermediate-result-storage.directory": str(directory)})
        self.actions: list[str] = []
        self.calls: list[str] = []
        self.jobs: list[JobExecutionResult] = []

    def clear(self) -> None:
        """Forgets what was written down."""
        for notes in (self.actions, self.calls, self.jobs):
            notes.clear()

    def keep(self, df: DataFrame) -> CachedTable:
        """The table of a DataFrame whose rows lie on disk already."""
        hot = Environment.cache(self, self.wrap(df))
        Environment.prepare(self, hot, "keep")
        assert self.last_job_result is not None
        assert self.last_job_result.vertices[-2].outcome is VertexOutcome.PRODUCED
        return hot

    def assert_read(self) -> None:
        """Every job read what is kept, instead of computing it."""
        assert self.jobs
        for job in self.jobs:
            outcomes = [vertex.outcome for vertex in job.vertices]
            assert outcomes == [VertexOutcome.READ, VertexOutcome.RUN], job
            assert not job.losses

    def run_action(
        self,
        table: Table,
        name: str,
        action: Callable[[DataFrame], T],
        *,
        before_retry: Callable[[], None] | None = None,
        takes_all_rows: bool = False,
        is_repeatable: bool = True,
    ) -> T:
        self.actions.append(name)
        answer = super().run_action(
            table,
            name,
            action,
            before_retry=before_retry,
            takes_all_rows=takes_all_rows,
            is_repeatable=is_repeatable,
        )
        self._note_job()
        return answer

    def stream_action(
        self, table: Table, name: str, action: Callable[[DataFrame], Iterator[Row]]
    ) -> Iterator[Row]:
        self.actions.append(name)
        yield from super().stream_action(table, name, action)
        self._note_job()

    def prepare(self, table: Table, name: str, *, is_run_later: bool = False) -> DataFrame:
        self.calls.append(f"prepare {name}")
        prepared = super().prepare(table, name, is_run_later=is_run_later)
        self._note_job()
        return prepared

    def substituted(self, table: Table) -> DataFrame:
        self.calls.append("substituted")
        return super().substituted(table)

    def cache(self, table: Table, lifetime: Any = None, name: str | None = None) -> CachedTable:
        self.calls.append("cache")
        return super().cache(table, lifetime, name)

    def invalidate(self, table: Table) -> None:
        self.calls.append("invalidate")
        super().invalidate(table)

    def forget(self, table: Table) -> None:
        self.calls.append("forget")
        super().forget(table)

    def _note_job(self) -> None:
        assert self.last_job_result is not None
        self.jobs.append(self.last_job_result)


class LosingEnvironment(RecordingEnvironment):
    """Loses the last kept partition when the first attempt of an action has begun."""

    def run_action(
        self,
        table: Table,
        name: str,
        action: Callable[[DataFrame], T],
        *,
        before_retry: Callable[[], None] | None = None,
        takes_all_rows: bool = False,
        is_repeatable: bool = True,
    ) -> T:
        attempts = []

        def losing(df: DataFrame) -> T:
            if not attempts:
                self.lose_a_partition()
            attempts.append(df)
            return action(df)

        answer = super().run_action(
            table,
            name,
            losing,
            before_retry=before_retry,
            takes_all_rows=takes_all_rows,
            is_repeatable=is_repeatable,
        )
        assert len(attempts) == 2
        assert len(self.jobs[-1].losses) == 1
        return answer

    def lose_a_partition(self) -> None:
        (cached,) = self.list_cached()
        assert cached.location is not None
        sorted(cached.location.glob("part-*.parquet"))[-1].unlink()


@pytest.fixture(scope="module", autouse=True)
def side_files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Checkpoints and Derby's log go to directories of their own."""
    spark.sparkContext.setCheckpointDir(str(tmp_path_factory.mktemp("checkpoints")))
    derby_log = tmp_path_factory.mktemp("derby") / "derby.log"
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(derby_log))


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    # Two partitions, so that one can fail after the other has finished.
    return spark.createDataFrame(spark.sparkContext.parallelize(ROWS, 2), SCHEMA)


@pytest.fixture(scope="module")
def module_context(
    spark: SparkSession, df: DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RecordingEnvironment]:
    """Keeps `df` for as many tests as only read it."""
    with RecordingEnvironment(spark, tmp_path_factory.mktemp("kept")) as environment:
        environment.keep(df)
        yield environment


@pytest.fixture
def context(module_context: RecordingEnvironment) -> RecordingEnvironment:
    """An environment that keeps `df` already."""
    module_context.clear()
    return module_context


@pytest.fixture
def fresh(spark: SparkSession, tmp_path: Path) -> Iterator[RecordingEnvironment]:
    """An environment that keeps nothing yet."""
    with RecordingEnvironment(spark, tmp_path / "kept") as environment:
        yield environment


@pytest.fixture
def losing(spark: SparkSession, tmp_path: Path) -> Iterator[LosingEnvironment]:
    with LosingEnvironment(spark, tmp_path / "kept") as environment:
        yield environment


@pytest.fixture
def t(df: DataFrame, context: RecordingEnvironment) -> Table:
    """A table that is kept, but not the object that was cached."""
    return context.wrap(df)


def rows(df: DataFrame) -> list[str]:
    return sorted(map(str, df.collect()))


def same_rows(got: DataFrame, expected: DataFrame) -> None:
    assert got.schema == expected.schema
    assert rows(got) == rows(expected)


# --- transformations ------------------------------------------------------------------------------

IDENTITY = staticmethod(lambda batches: batches)
TIMED = "timestamp_seconds(v) AS at"

INSTALLED = version_of(pyspark.__version__) or NEWEST


def lacking(name: str) -> tuple[pytest.MarkDecorator, ...]:
    """Skips what tests a member that the installed PySpark doesn't have."""
    has = hasattr(ClassicDataFrame, name) or hasattr(GroupedData, name)
    return () if has else (pytest.mark.skip(reason=f"this PySpark has no {name}"),)


TRANSFORMATIONS: dict[str, Callable[[DataFrame], Any]] = {
    "agg": lambda d: d.agg(F.sum("v"), F.max("s")),
    "alias": lambda d: d.alias("x").select("x.k"),
    "coalesce": lambda d: d.coalesce(1),
    "crossJoin": lambda d: d.crossJoin(d.select(F.col("k").alias("j"))),
    "cube": lambda d: d.cube("k", "s").count(),
    "describe": lambda d: d.describe("v"),
    "distinct": lambda d: d.select("k").distinct(),
    "drop": lambda d: d.drop("v"),
    "dropDuplicates": lambda d: d.select("k").dropDuplicates(["k"]),
    "drop_duplicates": lambda d: d.select("k").drop_duplicates(),
    "dropna": lambda d: d.dropna(),
    "exceptAll": lambda d: d.exceptAll(d.limit(0)),
    "fillna": lambda d: d.fillna(0, ["v"]),
    "filter": lambda d: d.filter("v > 10"),
    "freqItems": lambda d: d.freqItems(["k"], 0.9),
    "groupBy": lambda d: d.groupBy("k").agg({"v": "sum"}),
    "groupby": lambda d: d.groupby(["k"]).count(),
    "groupingSets": lambda d: d.groupingSets([["k"], []], "k").agg(F.sum("v")),
    "hint": lambda d: d.hint("broadcast"),
    "intersect": lambda d: d.intersect(d),
    "intersectAll": lambda d: d.intersectAll(d),
    "join": lambda d: d.join(d.groupBy("k").count(), "k", "left"),
    "lateralJoin": lambda d: d.alias("o").lateralJoin(
        d.sparkSession.range(3).where(F.col("id") < F.col("o.k").outer())
    ),
    "limit": lambda d: d.sort("k", "v").limit(2),
    "mapInArrow": lambda d: d.mapInArrow(lambda batches: batches, d.schema),
    "mapInPandas": lambda d: d.select("k").mapInPandas(lambda frames: frames, "k long"),
    "melt": lambda d: d.melt("s", ["k", "v"], "name", "value"),
    "nearestByJoin": lambda d: d.select("k").nearestByJoin(
        d.select("v"), F.abs(F.col("k") - F.col("v")), 1, "exact", "distance"
    ),
    "observe": lambda d: d.observe("seen", F.count(F.lit(1)).alias("n")),
    "offset": lambda d: d.sort("k", "v").offset(1),
    "orderBy": lambda d: d.orderBy("v", ascending=False),
    "randomSplit": lambda d: d.randomSplit([0.5, 0.5], seed=7),
    "repartition": lambda d: d.repartition(3, "k"),
    "repartitionById": lambda d: d.repartitionById(2, F.col("k").cast("int")),
    "repartitionByRange": lambda d: d.repartitionByRange(2, "k"),
    "replace": lambda d: d.replace({"a": "z"}),
    "rollup": lambda d: d.rollup("k").sum("v"),
    "sample": lambda d: d.sample(fraction=0.5, seed=3),
    "sampleBy": lambda d: d.sampleBy("k", {1: 0.5}, seed=3),
    "select": lambda d: d.select(["k", d.v + 1]),
    "selectExpr": lambda d: d.selectExpr("k + 1 AS j"),
    "sort": lambda d: d.sort(F.desc("v")),
    "sortWithinPartitions": lambda d: d.sortWithinPartitions("v"),
    "subtract": lambda d: d.subtract(d.where("k = 1")),
    "summary": lambda d: d.summary("count", "max"),
    "to": lambda d: d.to(d.select("v", "k").schema),
    "toDF": lambda d: d.toDF("a", "b", "c"),
    "transform": lambda d: d.transform(lambda x, n: x.limit(n), 2).select("k").distinct(),
    "union": lambda d: d.union(d),
    "unionAll": lambda d: d.unionAll(d),
    "unionByName": lambda d: d.unionByName(d.drop("s"), allowMissingColumns=True),
    "unpivot": lambda d: d.unpivot(["s"], ["k", "v"], "name", "value"),
    "where": lambda d: d.where(d.k == 2),
    "withColumn": lambda d: d.withColumn("w", F.col("v") * 2),
    "withColumnRenamed": lambda d: d.withColumnRenamed("k", "j"),
    "withColumns": lambda d: d.withColumns({"w": F.lit(1), "x": F.lit("y")}),
    "withColumnsRenamed": lambda d: d.withColumnsRenamed({"k": "j"}),
    "withMetadata": lambda d: d.withMetadata("k", {"unit": "km"}),
    "withWatermark": lambda d: d.selectExpr("k", TIMED).withWatermark("at", "1 minute"),
    "zip": lambda d: d.select("k").zip(d.select("v")),
    "zipWithIndex": lambda d: d.coalesce(1).zipWithIndex("i"),
    "_joinAsOf": lambda d: d._joinAsOf(d.select(F.col("k").alias("j")), "k", "j"),
}
ON_STREAMS: dict[str, Callable[[DataFrame], Any]] = {
    "dropDuplicatesWithinWatermark": lambda d: d.dropDuplicatesWithinWatermark(["value"]),
}
GROUPED_TRANSFORMATIONS: dict[str, Callable[[DataFrame], Any]] = {
    "agg": lambda d: d.groupBy("k").agg(F.sum("v").alias("total")),
    "applyInArrow": lambda d: d.groupBy("k").applyInArrow(lambda group: group, d.schema),
    "applyInPandas": lambda d: d.groupBy("k").applyInPandas(lambda group: group.head(1), d.schema),
    "avg": lambda d: d.groupBy("k").avg("v"),
    "cogroup": lambda d: COGROUPED["applyInArrow"](d),
    "count": lambda d: d.groupBy("k").count(),
    "max": lambda d: d.groupBy("k").max("v"),
    "mean": lambda d: d.groupBy("k").mean(),
    "min": lambda d: d.groupBy("k").min("v"),
    "sum": lambda d: d.groupBy("k").sum("v"),
}
COGROUPED: dict[str, Callable[[DataFrame], Any]] = {
    "applyInArrow": lambda d: (
        d.groupBy("k")
        .cogroup(d.limit(1).groupBy("k"))
        .applyInArrow(lambda left, right: left, d.schema)
    ),
    "applyInPandas": lambda d: (
        d.groupBy("k")
        .cogroup(d.groupBy("k"))
        .applyInPandas(lambda key, left, right: left.head(1)[["k"]], "k long")
    ),
}


class Forgetful(StatefulProcessor):
    """Gives nothing; only there to build a plan with."""

    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        yield from ()

    def close(self) -> None: ...


def ungrouped_udf() -> Any:
    kind = F.PandasUDFType.GROUPED_MAP
    return F.pandas_udf(lambda group: group, "value long", kind)


GROUPED_ON_STREAMS: dict[str, Callable[[DataFrame], Any]] = {
    "apply": lambda d: d.select("value").groupBy("value").apply(ungrouped_udf()),
    "applyInPandasWithState": lambda d: d.groupBy("value").applyInPandasWithState(
        lambda key, frames, state: frames, "n long", "n long", "append", "NoTimeout"
    ),
    "transformWithState": lambda d: d.groupBy("value").transformWithState(
        Forgetful(), "n long", "Append", "None"
    ),
    "transformWithStateInPandas": lambda d: d.groupBy("value").transformWithStateInPandas(
        Forgetful(), "n long", "Append", "None"
    ),
}


def test_every_transformation_has_an_example() -> None:
    lazy = MemberKind.TRANSFORMATION
    grouping = {"cube", "groupBy", "groupby", "groupingSets", "rollup"}
    lazy_members = members_of(TABLE_MEMBERS, lazy) | grouping | {"sample"}
    assert TRANSFORMATIONS.keys() | ON_STREAMS.keys() == lazy_members
    grouped_examples = GROUPED_TRANSFORMATIONS.keys() | GROUPED_ON_STREAMS.keys()
    assert grouped_examples == members_of(GROUPED_MEMBERS, lazy)
    assert COGROUPED.keys() == members_of(COGROUPED_MEMBERS, lazy)


@pytest.mark.parametrize(
    "example",
    [
        *(pytest.param(do, marks=lacking(name), id=name) for name, do in TRANSFORMATIONS.items()),
        *(
            pytest.param(do, marks=lacking(name), id=f"grouped.{name}")
            for name, do in GROUPED_TRANSFORMATIONS.items()
        ),
        *(pytest.param(do, id=f"cogrouped.{name}") for name, do in COGROUPED.items()),
    ],
)
def test_a_transformation_gives_a_table_and_runs_nothing(
    example: Callable[[DataFrame], Any], t: Table, df: DataFrame, context: RecordingEnvironment
) -> None:
    got, expected = example(t), example(df)
    assert not context.actions
    tables = got if isinstance(got, list) else [got]
    frames = expected if isinstance(expected, list) else [expected]
    assert len(tables) == len(frames)
    for table_, frame in zip(tables, frames, strict=True):
        assert type(table_) is Table
        same_rows(table_, frame)
    # Spark can't plan an as-of join whose left side is a union, so it runs without what is kept.
    if example is not TRANSFORMATIONS["_joinAsOf"]:
        context.assert_read()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    "example",
    [
        *(pytest.param(do, marks=lacking(name), id=name) for name, do in ON_STREAMS.items()),
        *(
            pytest.param(do, marks=lacking(name), id=f"grouped.{name}")
            for name, do in GROUPED_ON_STREAMS.items()
        ),
    ],
)
def test_a_transformation_of_a_stream_gives_a_table(
    example: Callable[[DataFrame], Any], spark: SparkSession, context: RecordingEnvironment
) -> None:
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    got = example(context.wrap(stream))
    assert type(got) is Table
    assert got.isStreaming


def test_grouping_gives_grouped_tables(t: Table) -> None:
    for grouped_table in (
        t.groupBy("k"),
        t.groupby(),
        t.rollup("k"),
        t.cube(["k"]),
        t.groupingSets([["k"]], "k"),
    ):
        assert type(grouped_table) is GroupedTable
    assert repr(t.groupBy("k")).startswith("GroupedData[grouping expressions: [k]")


NA: dict[str, Callable[[DataFrame], Any]] = {
    "drop": lambda d: d.na.drop(subset=["s"]),
    "fill": lambda d: d.na.fill({"v": 0, "s": "?"}),
    "replace": lambda d: d.na.replace(["a", "b"], ["x", "y"], "s"),
}
STAT: dict[str, Callable[[DataFrame], Any]] = {
    "approxQuantile": lambda d: d.stat.approxQuantile(["k", "v"], [0.5], 0.0),
    "corr": lambda d: d.stat.corr("k", "v"),
    "cov": lambda d: d.stat.cov("k", "v"),
    "crosstab": lambda d: d.stat.crosstab("k", "s"),
    "freqItems": lambda d: d.stat.freqItems(["k"]),
    "sampleBy": lambda d: d.stat.sampleBy("k", {1: 1.0}, 1),
}


def test_every_function_of_na_and_stat_has_an_example() -> None:
    assert NA.keys() == NA_MEMBERS.keys()
    assert STAT.keys() == STAT_MEMBERS.keys()


@pytest.mark.parametrize("name", [*NA, *STAT])
def test_na_and_stat(name: str, t: Table, df: DataFrame, context: RecordingEnvironment) -> None:
    kind = (NA_MEMBERS | STAT_MEMBERS)[name]
    example = (NA | STAT)[name]
    got, expected = example(t), example(df)
    assert context.actions == ([] if kind is MemberKind.TRANSFORMATION else [name])
    if isinstance(expected, DataFrame):
        assert type(got) is Table
        same_rows(got, expected)
    else:
        assert got == expected
    # What Spark has computed already by then is rows in memory.
    del context.jobs[1 if kind is MemberKind.EAGER_TRANSFORMATION else len(context.jobs) :]
    context.assert_read()


# --- actions --------------------------------------------------------------------------------------


def printed(show: Callable[[], None]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        show()
    return out.getvalue()


def counted(d: DataFrame, run: Callable[[Any], None]) -> int:
    accumulator = d.sparkSession.sparkContext.accumulator(0)
    run(accumulator)
    return accumulator.value


ACTIONS: dict[str, Callable[[DataFrame], Any]] = {
    "approxQuantile": lambda d: d.approxQuantile("v", [0.0, 0.5, 1.0], 0.0),
    "collect": lambda d: d.sort("k", "v").collect(),
    "corr": lambda d: d.corr("k", "v"),
    "count": lambda d: d.count(),
    "cov": lambda d: d.cov("k", "v"),
    "crosstab": lambda d: sorted(map(tuple, d.crosstab("k", "s").toPandas().values.tolist())),
    "first": lambda d: d.sort("v").first(),
    "foreach": lambda d: counted(d, lambda seen: d.foreach(lambda row: seen.add(row.k))),
    "foreachPartition": lambda d: counted(
        d, lambda seen: d.foreachPartition(lambda part: seen.add(len(list(part))))
    ),
    "head": lambda d: (d.sort("v").head(), d.sort("v").head(2)),
    "isEmpty": lambda d: (d.isEmpty(), d.where("k = 7").isEmpty()),
    "show": lambda d: (
        printed(d.sort("v").show),
        printed(lambda: d.sort("v").show(2, truncate=1, vertical=True)),
        printed(lambda: d.show(n=0)),
    ),
    "tail": lambda d: d.sort("v").tail(2),
    "take": lambda d: d.sort("v").take(2),
    "toArrow": lambda d: d.sort("v").toArrow(),
    "toPandas": lambda d: d.sort("v").toPandas().to_dict("list").__repr__(),
    "toLocalIterator": lambda d: list(d.sort("v").toLocalIterator(prefetchPartitions=True)),
    "transpose": lambda d: sorted(
        map(str, d.select("k").limit(2).transpose().toArrow().to_pylist())
    ),
    "_collect_as_arrow": lambda d: d.sort("v")._collect_as_arrow(),
    "_show_string": lambda d: d.sort("v")._show_string(3),
    "_to_pandas": lambda d: d._to_pandas(pandasStructHandlingMode="dict").shape,
}


def test_every_action_has_an_example() -> None:
    running = (
        MemberKind.ACTION,
        MemberKind.EAGER_TRANSFORMATION,
        MemberKind.STREAMING_ACTION,
    )
    assert ACTIONS.keys() == members_of(TABLE_MEMBERS, *running)


@pytest.mark.parametrize("name", [pytest.param(name, marks=lacking(name)) for name in ACTIONS])
def test_an_action_gives_what_pyspark_gives_and_runs_as_a_job(
    name: str, t: Table, df: DataFrame, context: RecordingEnvironment
) -> None:
    assert ACTIONS[name](t) == ACTIONS[name](df)
    assert name in context.actions
    if name in ("crosstab", "transpose"):
        assert context.jobs.pop().vertices[0].outcome is VertexOutcome.RUN  # of rows in memory
    context.assert_read()


def test_an_eager_transformation_gives_a_table(t: Table, context: RecordingEnvironment) -> None:
    assert type(t.crosstab("k", "s")) is Table
    assert type(t.select("k").limit(2).transpose()) is Table
    assert context.actions == ["crosstab", "transpose"]
    context.assert_read()


@pytest.mark.parametrize("name", ["checkpoint", "localCheckpoint"])
def test_a_checkpoint_is_a_job_if_it_is_eager(
    name: str, t: Table, df: DataFrame, context: RecordingEnvironment
) -> None:
    eager = getattr(t, name)()
    assert context.actions == [name]
    context.assert_read()
    lazy = getattr(t, name)(eager=False)
    assert context.actions == [name]
    for cut in (eager, lazy):
        assert type(cut) is Table
        same_rows(cut, df)
        assert cut.where(t.k == 1).count() == 2  # the columns are still the table's


def test_an_observation_sees_the_job_s_rows(t: Table, context: RecordingEnvironment) -> None:
    observation = Observation()
    observed = t.observe(observation, F.count(F.lit(1)).alias("n"))
    assert type(observed) is Table
    observed.collect()
    assert observation.get == {"n": 4}
    context.assert_read()


def test_eager_evaluation_shows_rows(
    spark: SparkSession, t: Table, df: DataFrame, context: RecordingEnvironment
) -> None:
    assert repr(t) == "DataFrame[k: bigint, v: bigint, s: string]"
    assert t._repr_html_() is None
    spark.conf.set("spark.sql.repl.eagerEval.enabled", "true")
    try:
        fresh = context.wrap(df)
        assert repr(fresh) == repr(df)
        assert fresh._repr_html_() == df._repr_html_()
        assert context.actions == ["__repr__", "_repr_html_"]
        context.assert_read()
        assert (
            repr(fresh) == "DataFrame[k: bigint, v: bigint, s: string]"
        )  # the page shows it already
    finally:
        spark.conf.unset("spark.sql.repl.eagerEval.enabled")


@pytest.mark.skipif(not hasattr(ClassicDataFrame, "__arrow_c_stream__"), reason="PySpark has none")
def test_an_arrow_stream_is_a_job(t: Table, df: DataFrame, context: RecordingEnvironment) -> None:
    pa = pytest.importorskip("pyarrow")
    got = pa.RecordBatchReader.from_stream(t).read_all()
    assert got.sort_by("v").to_pylist() == df.toArrow().sort_by("v").to_pylist()
    assert context.actions == ["toLocalIterator"]
    context.assert_read()


def test_plotting_queries_are_jobs(t: Table, context: RecordingEnvironment) -> None:
    assert not context.actions
    assert t.plot.data is t


# --- pivot ----------------------------------------------------------------------------------------

PIVOTED = """
    SELECT id % 2 AS g, id AS l, CAST(id AS tinyint) AS b, CAST(id AS decimal(9, 2)) AS dec,
        CAST(id AS float) / 3 AS fl, IF(id = 1, double('NaN'), -0.0D) AS dbl, id = 1 AS bool,
        IF(id = 2, NULL, CONCAT('s', id)) AS s, DATE '2020-01-01' + CAST(id AS int) AS d,
        TIMESTAMP_SECONDS(id) AS ts, CAST(TIMESTAMP_SECONDS(id) AS timestamp_ntz) AS ntz,
        MAKE_DT_INTERVAL(CAST(id AS int)) AS iv, STRUCT(id AS x) AS st, ARRAY(id) AS ar,
        id AS `a.b`
    FROM RANGE(3)
"""


@pytest.fixture(scope="module")
def pivoted(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RecordingEnvironment, DataFrame]]:
    """An environment that keeps a table with a column of many a type, and that table."""
    df = spark.sql(PIVOTED)
    with RecordingEnvironment(spark, tmp_path_factory.mktemp("pivoted")) as environment:
        environment.keep(df)
        yield environment, df


def outcome(run: Callable[[], Any]) -> Any:
    try:
        result = run()
    except Exception as error:
        return type(error), str(error).splitlines()[0]
    return result.columns, rows(result)


@pytest.mark.parametrize(
    "column",
    "g l b dec fl dbl bool s d ts ntz iv st ar `a.b` st.x missing".split(),
)
def test_pivot_without_values_is_a_job_with_spark_s_own_answer(
    column: str, pivoted: tuple[RecordingEnvironment, DataFrame]
) -> None:
    context, df = pivoted
    context.clear()
    t = context.wrap(df)
    got = outcome(lambda: t.groupBy("g").pivot(column).agg(F.count("l")))
    assert got == outcome(lambda: df.groupBy("g").pivot(column).agg(F.count("l")))
    if column != "missing":
        assert context.actions[0] == "pivot"
    if column not in ("st", "ar", "missing"):  # Spark refuses to pivot by these
        context.assert_read()


def test_pivot_with_values_runs_nothing(
    t: Table, df: DataFrame, context: RecordingEnvironment
) -> None:
    pivoted = t.groupBy("s").pivot("k", [2, 1])
    assert type(pivoted) is GroupedTable
    assert not context.actions
    same_rows(pivoted.sum("v"), df.groupBy("s").pivot("k", [2, 1]).sum("v"))
    context.assert_read()


def test_pivot_refuses_what_spark_refuses(
    spark: SparkSession, t: Table, df: DataFrame, context: RecordingEnvironment
) -> None:
    for run in (
        lambda d: d.rollup("s").pivot("k").count(),
        lambda d: d.groupBy("s").pivot("k", [1]).pivot("k").count(),
    ):
        assert outcome(lambda run=run: run(t)) == outcome(lambda run=run: run(df))
    assert not context.actions
    spark.conf.set("spark.sql.pivotMaxValues", 1)
    try:
        expected = outcome(lambda: df.groupBy("s").pivot("k").count())
        assert outcome(lambda: t.groupBy("s").pivot("k").count()) == expected
        assert "pivot" in expected[1]
    finally:
        spark.conf.unset("spark.sql.pivotMaxValues")
    assert context.actions == ["pivot"]


# --- hand-outs ------------------------------------------------------------------------------------


def test_an_rdd_reads_what_is_kept(t: Table, df: DataFrame, context: RecordingEnvironment) -> None:
    assert t.rdd.collect() == df.rdd.collect()
    assert t.rdd.map(lambda row: row.k).sum() == 6
    assert context.calls == ["prepare rdd", "prepare rdd"]
    context.assert_read()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_json_is_handed_out_only_as_an_rdd(
    spark: SparkSession, t: Table, df: DataFrame, context: RecordingEnvironment
) -> None:
    assert t.toJSON().collect() == df.toJSON().collect()
    assert context.calls == ["prepare toJSON"]
    context.assert_read()
    setting = "spark.sql.legacy.pyspark.toJSON.returnDataFrame"
    if INSTALLED >= (4, 2) and not spark._jconf.pysparkToJSONReturnDataFrame():
        with contextlib.suppress(AnalysisException):
            spark.conf.set(setting, "true")
    if returns_json_as_dataframe(spark):
        assert type(t.toJSON()) is Table
        same_rows(t.toJSON(), df.toJSON())
    spark.conf.unset(setting)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_pandas_on_spark(t: Table, df: DataFrame, context: RecordingEnvironment) -> None:
    try:
        import pyspark.pandas  # noqa: F401
    except ImportError as error:
        pytest.skip(str(error))
    if INSTALLED < (4, 1):
        pytest.skip("pandas on Spark 4.0 refuses ANSI mode, which the session is in")
    on_spark = t.pandas_api()
    assert on_spark.shape == (4, 3)
    pd.testing.assert_frame_equal(on_spark.to_pandas(), df.toPandas())
    assert context.calls == ["prepare pandas_api"]
    context.assert_read()


def test_to_dataframe_is_plain(t: Table, df: DataFrame, context: RecordingEnvironment) -> None:
    plain = t.to_dataframe()
    assert type(plain) is ClassicDataFrame
    assert not context.calls
    same_rows(plain, df)
    assert context.list_cached()[0].location is not None
    # As Spark says of its own cache.
    assert not plain.inputFiles()
    assert not context.actions


def test_a_hand_out_keeps_what_is_to_be_kept(df: DataFrame, fresh: RecordingEnvironment) -> None:
    hot = fresh.wrap(df).cache()
    same_rows(hot.to_dataframe(), df)
    assert fresh.list_cached()[0].location is None  # it runs nothing
    assert hot.rdd.collect() == df.rdd.collect()
    assert fresh.jobs[-1].vertices[0].outcome is VertexOutcome.PRODUCED
    assert fresh.list_cached()[0].rows == 4


EXPLAINED: list[dict[str, Any]] = [
    {},
    {"extended": True},
    {"mode": "formatted"},
    {"extended": "cost"},
]


def test_explain_says_what_is_kept_first(
    t: Table, df: DataFrame, context: RecordingEnvironment
) -> None:
    cached = context.list_cached()[0]
    kept = (
        f"== Holdfast ==\nread: {cached.computes}\n  from {cached.location}: 2 partitions, 4 rows, "
        f"{cached.bytes:,} bytes\n"
        "  only this program reads it: an RDD, which no other program has\n\n"
    )
    other = context.wrap(df.sparkSession.range(3))
    nothing = (
        "== Holdfast ==\nnothing that is cached is part of this plan\n"
        f"  not part of it: {cached.computes}\n\n"
    )
    for arguments in EXPLAINED:
        got = printed(lambda arguments=arguments: t.explain(**arguments))
        plain = printed(lambda arguments=arguments: context.substituted(t).explain(**arguments))
        assert without_ids(got) == kept + without_ids(plain)
        assert str(cached.location) in plain or "..." in plain
        got = printed(lambda arguments=arguments: other.explain(**arguments))
        plain = printed(lambda arguments=arguments: context.substituted(other).explain(**arguments))
        assert without_ids(got) == nothing + without_ids(plain)
    assert not context.actions


def without_ids(plan: str) -> str:
    return re.sub(r"#\d+", "#", plan)


# --- keeping --------------------------------------------------------------------------------------


def test_cache_gives_a_cached_table(df: DataFrame, fresh: RecordingEnvironment) -> None:
    t = fresh.wrap(df)
    hot = t.cache()
    assert type(hot) is CachedTable
    assert hot.cache() is hot
    assert t.is_cached
    assert hot.is_cached
    assert hot.where("k = 1").count() == 2
    assert type(hot.where("k = 1")) is Table
    assert fresh.list_cached()[0].rows == 4
    t.invalidate_cache()
    hot.invalidate_cache()
    assert fresh.calls == ["cache", "cache", "invalidate", "invalidate"]
    assert not t.is_cached
    assert fresh.list_cached()[0].location is None


def test_a_cached_table_is_forgotten_at_the_end_of_its_block(
    df: DataFrame, fresh: RecordingEnvironment
) -> None:
    with pytest.raises(ZeroDivisionError), fresh.wrap(df).cache() as hot:
        assert hot.count() // 0
    assert fresh.calls == ["cache", "forget"]
    assert not fresh.list_cached()
    assert not hot.is_cached


@pytest.mark.parametrize("level", [None, StorageLevel.DISK_ONLY, StorageLevel.MEMORY_AND_DISK])
def test_persist_with_a_level_that_may_be_disk_keeps(
    df: DataFrame, fresh: RecordingEnvironment, level: StorageLevel | None
) -> None:
    t = fresh.wrap(df)
    assert (t.persist() if level is None else t.persist(level)) is t
    assert t.is_cached
    assert t.storageLevel == (level or StorageLevel.MEMORY_AND_DISK_DESER)
    assert t.count() == 4
    fresh.clear()
    assert fresh.wrap(df).where("k = 1").count() == 2
    fresh.assert_read()
    assert t.unpersist(blocking=True) is t
    assert not t.is_cached
    assert not t.storageLevel.useDisk
    assert not fresh.list_cached()
    assert t.count() == 4
    assert [vertex.outcome for vertex in fresh.jobs[-1].vertices] == [VertexOutcome.RUN]


def test_unpersist_releases_what_another_object_has_cached(
    df: DataFrame, fresh: RecordingEnvironment
) -> None:
    fresh.wrap(df).cache().count()
    (kept,) = fresh.list_cached()
    assert kept.location is not None
    assert kept.location.exists()
    fresh.wrap(df).unpersist()
    assert not kept.location.exists()


def test_persist_in_memory_is_spark_s_own(
    spark: SparkSession, df: DataFrame, fresh: RecordingEnvironment
) -> None:
    computed = spark.sparkContext.accumulator(0)

    def counting(value: int | None) -> int | None:
        computed.add(1)
        return value

    kept = fresh.wrap(df).cache()
    t = kept.withColumn("w", F.udf(counting, "bigint")("v"))
    assert t.persist(StorageLevel.MEMORY_ONLY) is t
    assert t.storageLevel == StorageLevel.MEMORY_ONLY
    for _ in range(3):
        assert t.groupBy("k").agg(F.sum("w")).count() == 2
    # Spark's cache has answered, so that nothing below it was needed.
    assert computed.value == 4
    assert not t.unpersist(blocking=True).storageLevel.useMemory
    assert t.groupBy("k").agg(F.sum("w")).count() == 2
    assert [cached.rows for cached in fresh.list_cached()] == [4]


# --- as a DataFrame -------------------------------------------------------------------------------


def test_columns_are_attributes_and_items(t: Table) -> None:
    assert t.select(t.k, t["v"], t[2]).columns == ["k", "v", "s"]
    assert type(t[["k"]]) is Table
    assert type(t[t.k > 1]) is Table
    assert {"k", "v", "s", "collect", "to_dataframe"} <= set(dir(t))
    assert "__enter__" in dir(t.cache())
    assert t._ipython_key_completions_() == ["k", "v", "s"]
    with pytest.raises(PySparkAttributeError):
        t.missing  # noqa: B018


def test_a_column_named_like_a_member_is_an_item(t: Table) -> None:
    clash = t.toDF("count", "write", "s")
    assert callable(clash.count)
    assert type(clash.write) is TableWriter
    assert clash.select(clash["count"], clash["write"]).count() == 4


def test_pyspark_takes_a_table_for_a_dataframe(
    spark: SparkSession, t: Table, df: DataFrame
) -> None:
    assert isinstance(t, DataFrame)
    assert spark.sql("SELECT * FROM {t} WHERE k = 1", t=t).count() == 2
    same_rows(df.join(t, "k"), df.join(df, "k"))
    same_rows(t.join(F.broadcast(t.select("k")), "k"), df.join(df.select("k"), "k"))
    assert df.union(t).count() == 8
    t.createOrReplaceTempView("of_a_table")
    same_rows(spark.table("of_a_table"), df)
    spark.catalog.dropTempView("of_a_table")
    assert t.sameSemantics(df)
    assert df.where(F.col("v") == t.agg(F.max("v")).scalar()).count() == 1
    assert DataFrame.count(t) == 4


@pytest.mark.parametrize("do", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_table_is_copied_and_pickled_as_little_as_a_dataframe(
    do: Callable[[Any], Any], t: Table, df: DataFrame
) -> None:
    with pytest.raises(Exception) as expected:  # noqa: B017, PT011
        do(df)
    with pytest.raises(expected.type):
        do(t)


# --- reading --------------------------------------------------------------------------------------


def test_every_loading_call_gives_a_table(
    spark: SparkSession, df: DataFrame, context: RecordingEnvironment, tmp_path: Path
) -> None:
    def read() -> DataFrameReader:
        return context.read

    path = {name: str(tmp_path / name) for name in ("parquet", "csv", "json", "orc", "text")}
    df.write.parquet(path["parquet"])
    df.write.csv(path["csv"], header=True)
    df.write.json(path["json"])
    df.write.orc(path["orc"])
    df.select("s").write.text(path["text"])
    xml = str(tmp_path / "xml")
    df.write.xml(xml, rowTag="row")
    df.createOrReplaceTempView("read_by_name")
    url = "jdbc:derby:memory:reading;create=true"
    df.select("k", "v").write.jdbc(url, "numbers")
    loaded: dict[str, list[DataFrame]] = {
        "csv": [
            read().csv(path["csv"], header=True, schema=SCHEMA),
            read().schema(SCHEMA).csv(spark.sparkContext.parallelize(["1,10,a"] * 4)),
        ],
        "jdbc": [read().jdbc(url, "numbers"), read().jdbc(url, "numbers", predicates=['"k" > 0'])],
        "json": [read().schema(SCHEMA).json(path["json"])],
        "load": [read().format("csv").option("header", True).options(sep=",").load(path["csv"])],
        "orc": [read().orc(path["orc"])],
        "parquet": [
            read().parquet(path["parquet"]),
            read().parquet(path["parquet"], mergeSchema=True),
        ],
        "table": [read().table("read_by_name")],
        "text": [read().text(path["text"])],
        "xml": [read().xml(xml, rowTag="row")],
    }
    if INSTALLED >= (4, 2):
        texts = context.wrap(spark.createDataFrame([("1,2,a",)] * 4, "v string"))
        loaded["csv"].append(read().schema(SCHEMA).csv(texts))
    lazily_loaded = members_of(READER_MEMBERS, MemberKind.TRANSFORMATION)
    assert loaded.keys() == lazily_loaded - {"changes"}
    for tables in loaded.values():
        for table_ in tables:
            assert type(table_) is Table
            assert table_.count() == 4
    if hasattr(DataFrameReader, "changes"):
        with pytest.raises(AnalysisException):
            read().changes("read_by_name")


# --- writing --------------------------------------------------------------------------------------


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[list[str]]:
    """Names of managed tables, dropped at the end."""
    names = ["holdfast_one", "holdfast_two", "holdfast_three"]
    yield names
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


FORMATS = sorted(
    members_of(WRITER_MEMBERS, MemberKind.ACTION) - {"insertInto", "jdbc", "saveAsTable"}
)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.sampled(2)
def test_a_writing_call_is_a_job(
    name: str, t: Table, df: DataFrame, context: RecordingEnvironment, tmp_path: Path
) -> None:
    if name == "text":
        t, df = t.select("s").na.drop(), df.select("s").na.drop()
    keywords = {"rowTag": "row"} if name == "xml" else {}
    for frame, path in ((t, tmp_path / "got"), (df, tmp_path / "expected")):
        assert getattr(frame.write, name)(str(path), **keywords) is None
    source = "parquet" if name == "save" else name
    reader_ = df.sparkSession.read.format(source).options(**keywords)
    same_rows(reader_.load(str(tmp_path / "got")), reader_.load(str(tmp_path / "expected")))
    assert context.actions == [f"write.{name}"]
    context.assert_read()


def test_writing_tables(
    spark: SparkSession, t: Table, df: DataFrame, context: RecordingEnvironment, tables: list[str]
) -> None:
    one, two, _ = tables
    t.write.bucketBy(2, "k").sortBy("v").saveAsTable(one)
    t.write.partitionBy("k").format("csv").saveAsTable(two)
    t.write.insertInto(one)
    assert spark.table(one).count() == 8
    t.write.insertInto(one, overwrite=True)
    same_rows(spark.table(one), df)
    t.write.mode("append").format("csv").partitionBy("k").saveAsTable(two)
    assert spark.table(two).count() == 8
    t.limit(1).write.mode("overwrite").saveAsTable(two)
    assert spark.table(two).count() == 1
    calls = ["saveAsTable", "saveAsTable", "insertInto", "insertInto", "saveAsTable", "saveAsTable"]
    assert context.actions == [f"write.{call}" for call in calls]
    context.assert_read()


def test_writing_over_jdbc(spark: SparkSession, t: Table, context: RecordingEnvironment) -> None:
    url = "jdbc:derby:memory:writing;create=true"
    numbers = t.select("k", "v")
    numbers.write.jdbc(url, "numbers", properties={"isolationLevel": "NONE"})
    numbers.write.jdbc(url, "numbers", mode="append")
    assert spark.read.jdbc(url, "numbers").count() == 8
    numbers.write.format("jdbc").option("url", url).option("dbtable", "numbers").mode(
        "overwrite"
    ).save()
    assert spark.read.jdbc(url, "numbers").count() == 4
    assert context.actions == ["write.jdbc", "write.jdbc", "write.save"]
    context.assert_read()


def test_a_writer_can_be_used_twice_and_remembers_like_pyspark_s(
    spark: SparkSession, t: Table, tmp_path: Path
) -> None:
    writer = t.write.option("header", "true").partitionBy("k")
    assert type(writer) is TableWriter
    writer.csv(str(tmp_path / "a"), mode="overwrite", sep=";")
    writer.csv(str(tmp_path / "b"))
    writer.save(str(tmp_path / "a"))  # still csv, and still overwriting
    for name in "ab":
        back = spark.read.csv(str(tmp_path / name), header=True, sep=";")
        assert set(back.columns) == {"k", "v", "s"}
        assert back.count() == 4


def test_a_writer_is_checked_at_once(
    t: Table, context: RecordingEnvironment, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="bogus"):
        t.write.mode("bogus")
    with pytest.raises(AnalysisException):
        t.write.bucketBy(2, "k").parquet(str(tmp_path / "x"))
    with pytest.raises(TypeError):
        t.write.parquet(str(tmp_path / "x"), compresion="zstd")
    assert not context.actions


def test_what_is_there_already_costs_no_job(
    spark: SparkSession,
    t: Table,
    df: DataFrame,
    context: RecordingEnvironment,
    tmp_path: Path,
    tables: list[str],
) -> None:
    path = str(tmp_path / "there")
    df.limit(1).write.parquet(path)
    df.limit(1).write.saveAsTable(tables[0])
    with pytest.raises(AnalysisException, match="PATH_ALREADY_EXISTS"):
        t.write.parquet(path)
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        t.write.saveAsTable(tables[0])
    t.write.mode("ignore").parquet(path)
    t.write.mode("ignore").saveAsTable(tables[0])
    assert spark.read.parquet(path).count() == spark.table(tables[0]).count() == 1
    assert not context.actions


def test_a_table_does_not_overwrite_what_it_is_read_from(
    spark: SparkSession,
    df: DataFrame,
    fresh: RecordingEnvironment,
    tmp_path: Path,
    tables: list[str],
) -> None:
    path = str(tmp_path / "own")
    df.write.parquet(path)
    own = fresh.wrap(spark.read.parquet(path).groupBy("k").count())
    with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE.PATH"):
        own.write.mode("overwrite").parquet(path)
    fresh.clear()
    df.write.saveAsTable(tables[0])
    plain = spark.table(tables[0]).where("k > 1")
    kept = fresh.keep(plain)
    for write in (
        lambda d: d.write.mode("overwrite").saveAsTable(tables[0]),
        lambda d: d.write.insertInto(tables[0], overwrite=True),
    ):
        with pytest.raises(AnalysisException, match="UNSUPPORTED_OVERWRITE.TABLE") as expected:
            write(plain)
        with pytest.raises(AnalysisException) as got:
            write(kept)
        assert str(got.value).splitlines()[0] == str(expected.value).splitlines()[0]
    assert not fresh.actions
    assert spark.read.parquet(path).count() == spark.table(tables[0]).count() == 4


def test_a_partition_may_be_overwritten_by_what_is_read_from_it(
    spark: SparkSession, df: DataFrame, fresh: RecordingEnvironment, tmp_path: Path
) -> None:
    path = str(tmp_path / "own")
    df.write.partitionBy("k").parquet(path)
    own = fresh.keep(spark.read.parquet(path).where("k = 1").limit(1))
    writer = own.write.mode("overwrite").partitionBy("k")
    writer.option("partitionOverwriteMode", "dynamic").parquet(path)
    assert spark.read.parquet(path).count() == 3
    fresh.assert_read()


WRITES = list(itertools.product(("error", "ignore", "append", "overwrite"), (False, True)))


@pytest.mark.parametrize(
    ("name", "mode", "partitioned"),
    [
        *(("parquet", *write) for write in WRITES),
        ("csv", "append", False),
        # What is undone before a retry is files in a directory, of whichever format.
        *(
            pytest.param("csv", *write, marks=pytest.mark.soak)
            for write in WRITES
            if write != ("append", False)
        ),
    ],
)
def test_a_write_starts_again_when_kept_data_are_lost(
    name: str,
    mode: str,
    partitioned: bool,
    spark: SparkSession,
    df: DataFrame,
    losing: LosingEnvironment,
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "out")
    source = df.select("k").withColumn("v", F.lit(1))
    before = 0
    if mode in ("append", "overwrite"):
        writer = source.write.partitionBy("k") if partitioned else source.write
        writer.format(name).save(path)
        before = 4 if mode == "append" else 0
    writer = losing.keep(source).write.mode(mode).format(name)
    if partitioned:
        writer = writer.partitionBy("k")
    writer.save(path)
    assert spark.read.schema("k bigint, v bigint").format(name).load(path).count() == before + 4


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("mode", ["error", "ignore", "append", "overwrite"])
@pytest.mark.sampled(3)
def test_a_table_is_written_again_when_kept_data_are_lost(
    mode: str,
    external: bool,
    spark: SparkSession,
    df: DataFrame,
    losing: LosingEnvironment,
    tmp_path: Path,
    tables: list[str],
) -> None:
    writer = losing.keep(df).write.mode(mode)
    if external:
        writer = writer.option("path", str(tmp_path / "external"))
    writer.saveAsTable(tables[0])
    assert spark.table(tables[0]).count() == 4
    if mode in ("append", "overwrite"):
        writer.saveAsTable(tables[0])
        assert spark.table(tables[0]).count() == (8 if mode == "append" else 4)


@pytest.mark.usefixtures("a_task_for_each_file")
@pytest.mark.parametrize("mode", ["error", "ignore", "append"])
def test_a_write_is_not_repeated_over_the_rows_of_its_first_attempt(
    mode: str, spark: SparkSession, losing: LosingEnvironment, tmp_path: Path
) -> None:
    path = str(tmp_path / "out")
    # The last of six partitions is lost, when most others have been committed.
    df = spark.range(0, 60, 1, 6)
    if mode == "append":
        df.write.parquet(path)
    writer = losing.keep(df).write.mode(mode).option(COMMITTER_VERSION, "2")
    with pytest.raises(Exception, match="FAILED_READ_FILE") as lost:
        writer.parquet(path)
    assert 0 < len(list(Path(path).glob("part-*"))) < (12 if mode == "append" else 6)
    assert any("was not retried" in note for note in lost.value.__notes__)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_directory_that_was_there_is_not_deleted(
    mode: str, spark: SparkSession, df: DataFrame, losing: LosingEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir(mode=0o700)
    losing.keep(df).write.mode(mode).parquet(str(tmp_path / "out"))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 4


@pytest.mark.parametrize("mode", ["append", "error"])
def test_a_write_over_jdbc_is_not_repeated(
    mode: str, df: DataFrame, losing: LosingEnvironment
) -> None:
    url = f"jdbc:derby:memory:losing_{mode};create=true"
    t = losing.keep(df.select("k", "v"))
    with pytest.raises(Exception, match="FAILED_READ_FILE") as lost:
        t.write.jdbc(url, "numbers", mode=mode)
    assert any("was not retried" in note for note in lost.value.__notes__)
    t.write.jdbc(url, "numbers", mode="overwrite")
    assert df.sparkSession.read.jdbc(url, "numbers").count() == 4


@pytest.fixture
def catalog(spark: SparkSession) -> Iterator[str]:
    """A catalog of JDBC tables, which Spark writes to through its version 2 of sources."""
    settings = {
        "": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        ".url": "jdbc:derby:memory:catalog;create=true",
        ".driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    for suffix, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.holdfast_h{suffix}", value)
    yield "holdfast_h.APP"
    for suffix in settings:
        spark.conf.unset(f"spark.sql.catalog.holdfast_h{suffix}")


def test_writing_to_a_catalog(
    spark: SparkSession, df: DataFrame, fresh: RecordingEnvironment, catalog: str, tables: list[str]
) -> None:
    t = fresh.keep(df)  # the catalog is one of the settings that it is kept under
    numbers, name = t.select("k", "v"), f"{catalog}.numbers"
    writer = numbers.writeTo(name)
    assert type(writer) is TableWriterV2
    writer.create()
    writer.append()
    assert spark.table(name).count() == 8
    numbers.writeTo(name).overwrite(F.lit(True))
    assert spark.table(name).count() == 4
    numbers.limit(2).writeTo(name).createOrReplace()
    numbers.limit(1).writeTo(name).replace()
    assert spark.table(name).count() == 1
    t.writeTo(tables[0]).using("csv").partitionedBy("k").option("sep", ";").options(
        header=True
    ).tableProperty("a", "b").create()
    assert spark.table(tables[0]).count() == 4
    calls = ["create", "append", "overwrite", "createOrReplace", "replace", "create"]
    assert fresh.actions == [f"writeTo.{call}" for call in calls]
    fresh.assert_read()
    with pytest.raises(AnalysisException):
        numbers.writeTo(name).overwritePartitions()
    with pytest.raises(AnalysisException):
        numbers.writeTo(name).clusterBy("k").create()
    spark.sql(f"DROP TABLE {name}")


def test_appending_to_a_catalog_is_not_repeated_if_it_takes_rows_one_by_one(
    spark: SparkSession, df: DataFrame, losing: LosingEnvironment, catalog: str
) -> None:
    numbers, name = df.select("k", "v"), f"{catalog}.appended"
    numbers.writeTo(name).create()
    with pytest.raises(Exception, match="FAILED_READ_FILE") as lost:
        losing.keep(numbers).writeTo(name).append()
    assert any("was not retried" in note for note in lost.value.__notes__)
    spark.sql(f"DROP TABLE {name}")


def test_merging_is_a_job(
    spark: SparkSession, t: Table, df: DataFrame, context: RecordingEnvironment, tables: list[str]
) -> None:
    df.write.saveAsTable(tables[0])

    def merge(source: DataFrame) -> Any:
        return (
            source.alias("new")
            .mergeInto(tables[0], F.expr(f"new.k = {tables[0]}.k"))
            .whenMatched(F.col("new.k") == 1)
            .update({"v": F.col("new.v")})
            .whenMatched()
            .updateAll()
            .whenNotMatched()
            .insertAll()
            .whenNotMatchedBySource()
            .delete()
            .withSchemaEvolution()
        )

    writer = merge(t)
    assert type(writer) is TableMergeWriter
    # Spark comes with no source that can merge, so the error tells how far it got.
    with pytest.raises(Exception) as expected:  # noqa: B017, PT011
        merge(df).merge()
    with pytest.raises(expected.type) as got:
        writer.merge()
    assert str(got.value).splitlines()[0] == str(expected.value).splitlines()[0]
    assert context.actions == ["mergeInto.merge"]


def test_streams_are_written_by_spark(t: Table) -> None:
    with pytest.raises(AnalysisException, match="streaming"):
        t.writeStream  # noqa: B018


# --- examples of the docstrings -------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    [
        attachment,
        cached_table,
        grouped,
        members,
        storage_levels,
        stream_writer,
        table,
        table_catalog,
        table_session,
        writers,
    ],
    ids=lambda m: m.__name__,
)
def test_examples(module: Any, spark: SparkSession, env: Environment) -> None:
    small = env.from_dataframe(spark.createDataFrame([(1, 10), (2, 20)], "k bigint, v bigint"))
    names = {"table": small, "env": env, "expr": F.expr, "F": F, "spark": spark.newSession()}
    spark.sql("DROP TABLE IF EXISTS numbers")
    flags = doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testmod(module, extraglobs=names, optionflags=flags)
    spark.sql("DROP TABLE IF EXISTS numbers")
    assert tried
    assert not failed

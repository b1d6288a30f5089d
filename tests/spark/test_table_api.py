"""A Table does what PySpark's DataFrame does, and reads what is kept."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from pyspark import StorageLevel
from pyspark.errors import AnalysisException, PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.group import GroupedData
from pyspark.sql.pandas.group_ops import PandasCogroupedOps
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from holdfast import CachedTable, Environment, Table, VertexOutcome
from holdfast.testing import assert_reads, outcomes

READ = [VertexOutcome.READ, VertexOutcome.RUN]
SCHEMA = "k bigint, v bigint, s string"
ROWS = [(1, 10, "a"), (1, 30, None), (2, 20, "b"), (2, None, "a")]
Example = Callable[[DataFrame], Any]


@pytest.fixture(scope="module")
def df(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(spark.sparkContext.parallelize(ROWS, 2), SCHEMA)


@pytest.fixture(scope="module")
def keeping(
    spark: SparkSession, df: DataFrame, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Environment]:
    """An environment that keeps `df`, for tests that only read it."""
    spark.sparkContext.setCheckpointDir(str(tmp_path_factory.mktemp("checkpoints")))
    directory = str(tmp_path_factory.mktemp("kept"))
    with Environment(spark, {"intermediate-result-storage.directory": directory}) as environment:
        environment.from_dataframe(df).cache().count()
        yield environment


@pytest.fixture
def t(keeping: Environment, df: DataFrame) -> Table:
    """A table that is kept, but not the object that was cached."""
    return keeping.from_dataframe(df)


def same_rows(got: DataFrame, expected: DataFrame) -> None:
    assert got.schema == expected.schema
    assert Counter(map(str, got.collect())) == Counter(map(str, expected.collect()))


def job(env: Environment) -> str:
    """The name of the last job, which read what is kept."""
    assert env.last_job_result is not None and outcomes(env) == READ
    return env.last_job_result.name


# --- transformations ------------------------------------------------------------------------------

GROUPED = (GroupedData, PandasCogroupedOps)
TIMED = "timestamp_seconds(v) AS at"


def of_this_pyspark(examples: dict[str, Example]) -> list[Any]:
    """The names of examples; those of members that the installed PySpark lacks are skipped."""
    skipped = pytest.mark.skip(reason="this PySpark has no such member")
    return [
        name
        if any(hasattr(each, name.rpartition(".")[2]) for each in (ClassicDataFrame, *GROUPED))
        or name.startswith(("na.", "stat."))
        else pytest.param(name, marks=skipped)
        for name in examples
    ]


TRANSFORMATIONS: dict[str, Example] = {
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
    "grouped.agg": lambda d: d.groupBy("k").agg(F.sum("v").alias("total")),
    "grouped.applyInArrow": lambda d: d.groupBy("k").applyInArrow(lambda group: group, d.schema),
    "grouped.applyInPandas": lambda d: d.groupBy("k").applyInPandas(
        lambda group: group.head(1), d.schema
    ),
    "grouped.avg": lambda d: d.groupBy("k").avg("v"),
    "grouped.count": lambda d: d.groupBy("k").count(),
    "grouped.max": lambda d: d.groupBy("k").max("v"),
    "grouped.mean": lambda d: d.groupBy("k").mean(),
    "grouped.min": lambda d: d.groupBy("k").min("v"),
    "grouped.sum": lambda d: d.groupBy("k").sum("v"),
    "cogrouped.applyInArrow": lambda d: (
        d.groupBy("k")
        .cogroup(d.limit(1).groupBy("k"))
        .applyInArrow(lambda left, right: left, d.schema)
    ),
    "cogrouped.applyInPandas": lambda d: (
        d.groupBy("k")
        .cogroup(d.groupBy("k"))
        .applyInPandas(lambda key, left, right: left.head(1)[["k"]], "k long")
    ),
    "na.drop": lambda d: d.na.drop(subset=["s"]),
    "na.fill": lambda d: d.na.fill({"v": 0, "s": "?"}),
    "na.replace": lambda d: d.na.replace(["a", "b"], ["x", "y"], "s"),
    "stat.freqItems": lambda d: d.stat.freqItems(["k"]),
    "stat.sampleBy": lambda d: d.stat.sampleBy("k", {1: 1.0}, 1),
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


ON_STREAMS: dict[str, Example] = {
    "dropDuplicatesWithinWatermark": lambda d: d.dropDuplicatesWithinWatermark(["value"]),
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


@pytest.mark.parametrize("name", of_this_pyspark(TRANSFORMATIONS))
def test_a_transformation_gives_a_table_that_reads_and_runs_nothing(
    name: str, t: Table, df: DataFrame, keeping: Environment
) -> None:
    before = keeping.last_job_result
    for table, frame in zip(made(name, t), made(name, df), strict=True):
        assert type(table) is Table and table.schema == frame.schema
        assert_reads(table)
    assert keeping.last_job_result is before


def made(name: str, d: DataFrame) -> list[DataFrame]:
    given = TRANSFORMATIONS[name](d)
    return given if isinstance(given, list) else [given]


@pytest.mark.parametrize("name", of_this_pyspark(TRANSFORMATIONS))
@pytest.mark.sampled(18)
def test_a_transformation_has_the_rows_of_pyspark_s(
    name: str, t: Table, df: DataFrame, keeping: Environment
) -> None:
    for table, frame in zip(made(name, t), made(name, df), strict=True):
        same_rows(table, frame)
        assert job(keeping) == "collect"


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", of_this_pyspark(ON_STREAMS))
def test_a_transformation_of_a_stream_gives_a_table(
    name: str, spark: SparkSession, keeping: Environment
) -> None:
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    got = ON_STREAMS[name](keeping.from_dataframe(stream))
    assert type(got) is Table and got.isStreaming


def test_a_plan_that_spark_refuses_over_kept_files_runs_without_them(
    t: Table, df: DataFrame, keeping: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    def asked_for(d: DataFrame) -> str:
        with pytest.raises(AnalysisException) as refused:
            d.approxQuantile("missing", [0.5], 0.1)
        return str(refused.value)

    # Not where it refuses the plan anyway.
    assert asked_for(t) == asked_for(df) and "without kept results" not in caplog.text

    def counted(d: DataFrame) -> int:
        if "FileScan" in d._jdf.queryExecution().toString():
            raise AnalysisException("refused")
        return d.count()

    assert keeping.run_action(t, "count", counted) == 4
    assert "without kept results" in caplog.text
    assert_reads(keeping.from_dataframe(df))


# --- actions --------------------------------------------------------------------------------------


def printed(show: Callable[[], None]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        show()
    return out.getvalue()


def counted(d: DataFrame, run: Callable[[Any], None]) -> int:
    accumulator = d.sparkSession.sparkContext.accumulator(0)
    run(accumulator)
    return accumulator.value


ACTIONS: dict[str, Example] = {
    "approxQuantile": lambda d: d.approxQuantile("v", [0.0, 0.5, 1.0], 0.0),
    "collect": lambda d: d.sort("k", "v").collect(),
    "corr": lambda d: d.corr("k", "v"),
    "count": lambda d: d.count(),
    "cov": lambda d: d.cov("k", "v"),
    "crosstab": lambda d: d.crosstab("k", "s"),
    "first": lambda d: d.sort("v").first(),
    "foreach": lambda d: counted(d, lambda seen: d.foreach(lambda row: seen.add(row.k))),
    "foreachPartition": lambda d: counted(
        d, lambda seen: d.foreachPartition(lambda part: seen.add(len(list(part))))
    ),
    "head": lambda d: d.sort("v").head(2),
    "isEmpty": lambda d: d.where("k = 7").isEmpty(),
    "show": lambda d: printed(lambda: d.sort("v").show(2, truncate=1, vertical=True)),
    "tail": lambda d: d.sort("v").tail(2),
    "take": lambda d: d.sort("v").take(2),
    "toArrow": lambda d: d.sort("v").toArrow(),
    "toPandas": lambda d: d.sort("v").toPandas().to_dict("list").__repr__(),
    "toLocalIterator": lambda d: list(d.sort("v").toLocalIterator(prefetchPartitions=True)),
    "transpose": lambda d: d.select("k").limit(2).transpose(),
    "checkpoint": lambda d: d.checkpoint(),
    "localCheckpoint": lambda d: d.localCheckpoint(),
    "_collect_as_arrow": lambda d: d.sort("v")._collect_as_arrow(),
    "_show_string": lambda d: d.sort("v")._show_string(3),
    "_to_pandas": lambda d: d._to_pandas(pandasStructHandlingMode="dict").shape,
    "stat.approxQuantile": lambda d: d.stat.approxQuantile(["k", "v"], [0.5], 0.0),
    "stat.corr": lambda d: d.stat.corr("k", "v"),
    "stat.cov": lambda d: d.stat.cov("k", "v"),
    "stat.crosstab": lambda d: d.stat.crosstab("k", "s"),
}


@pytest.mark.parametrize("name", of_this_pyspark(ACTIONS))
@pytest.mark.sampled(6)
def test_an_action_gives_what_pyspark_gives_and_runs_as_a_job(
    name: str, t: Table, df: DataFrame, keeping: Environment
) -> None:
    got, expected = ACTIONS[name](t), ACTIONS[name](df)
    assert job(keeping) == name.rpartition(".")[2]
    if isinstance(expected, DataFrame):
        assert type(got) is Table
        same_rows(got, expected)
    else:
        assert got == expected


def test_every_member_of_pyspark_has_an_example() -> None:
    # The others run nothing, are no part of a plan, or stand in tests of their own.
    others = """
        asTable cache colRegex columns createGlobalTempView createOrReplaceGlobalTempView
        cogroup createOrReplaceTempView createTempView dtypes executionInfo exists explain
        inputFiles isLocal isStreaming mergeInto metadataColumn na pandas_api persist pivot plot
        printSchema rdd registerTempTable sameSemantics scalar schema semanticHash sparkSession
        sql_ctx stat storageLevel toJSON unpersist write writeStream writeTo
    """.split()
    shown = {each.rpartition(".")[2] for each in TRANSFORMATIONS | ON_STREAMS | ACTIONS}
    for described in (ClassicDataFrame, *GROUPED):
        public = {name for name in dir(described) if not name.startswith("_")}
        assert public - shown - {*others} == set(), described


def test_a_lazy_checkpoint_is_a_table(t: Table) -> None:
    cut = t.localCheckpoint(eager=False)
    assert type(cut) is Table
    assert cut.where(t.k == 1).count() == 2  # the columns are still the table's


def test_eager_evaluation_shows_rows(
    spark: SparkSession, t: Table, df: DataFrame, keeping: Environment
) -> None:
    assert repr(t) == "DataFrame[k: bigint, v: bigint, s: string]" and t._repr_html_() is None
    spark.conf.set("spark.sql.repl.eagerEval.enabled", "true")
    try:
        fresh = keeping.from_dataframe(df)
        assert repr(fresh) == repr(df) and job(keeping) == "__repr__"
        assert fresh._repr_html_() == df._repr_html_() and job(keeping) == "_repr_html_"
    finally:
        spark.conf.unset("spark.sql.repl.eagerEval.enabled")


@pytest.mark.skipif(not hasattr(ClassicDataFrame, "__arrow_c_stream__"), reason="PySpark has none")
def test_an_arrow_stream_is_a_job(t: Table, df: DataFrame, keeping: Environment) -> None:
    pa = pytest.importorskip("pyarrow")
    got = pa.RecordBatchReader.from_stream(t).read_all()
    assert got.sort_by("v").to_pylist() == df.toArrow().sort_by("v").to_pylist()
    assert job(keeping) == "toLocalIterator"


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


def answer(run: Callable[[], Any]) -> Any:
    try:
        result = run()
    except Exception as error:
        return type(error), str(error).splitlines()[0]
    return result.columns, sorted(map(str, result.collect()))


@pytest.fixture(scope="module")
def pivoted(keeping: Environment) -> Table:
    keeping.sql(PIVOTED).cache().count()
    return keeping.sql(PIVOTED)


@pytest.mark.parametrize(
    "column", "`a.b` s g l b dec fl dbl bool d ts ntz iv st ar st.x missing".split()
)
@pytest.mark.sampled(16)
def test_pivot_without_values_is_a_job_with_spark_s_own_answer(
    column: str, spark: SparkSession, pivoted: Table, keeping: Environment
) -> None:
    def run(d: DataFrame) -> DataFrame:
        return d.groupBy("g").pivot(column).agg(F.count("l"))

    assert answer(lambda: run(pivoted)) == answer(lambda: run(spark.sql(PIVOTED)))
    if column not in ("st", "ar", "missing"):  # Spark refuses to pivot by these
        pivoted.groupBy("g").pivot(column)
        assert job(keeping) == "pivot"


def test_pivot_with_values_runs_nothing(t: Table, df: DataFrame, keeping: Environment) -> None:
    before = keeping.last_job_result
    got = t.groupBy("s").pivot("k", [2, 1])
    assert keeping.last_job_result is before
    same_rows(got.sum("v"), df.groupBy("s").pivot("k", [2, 1]).sum("v"))


# --- keeping --------------------------------------------------------------------------------------


def test_explain_says_what_is_kept_in_every_mode(t: Table, keeping: Environment) -> None:
    (cached, *_) = keeping.list_cached()
    for arguments in ({}, {"extended": True}, {"mode": "formatted"}, {"extended": "cost"}):
        shown = printed(lambda arguments=arguments: t.explain(**arguments))
        assert shown.startswith(
            f"== Holdfast ==\nread: {cached.computes}\n  from {cached.location}"
        )
        assert "2 partitions, 4 rows" in shown and "parquet" in shown


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_json_reads(t: Table, df: DataFrame, keeping: Environment) -> None:
    got, expected = t.toJSON(), df.toJSON()
    assert isinstance(got, Table) == isinstance(expected, DataFrame)
    assert got.collect() == expected.collect()
    assert outcomes(keeping) == READ


def test_cache_gives_a_cached_table(df: DataFrame, env: Environment) -> None:
    t = env.from_dataframe(df)
    hot = t.cache()
    assert type(hot) is CachedTable and hot.cache() is hot
    assert t.is_cached and hot.is_cached
    assert type(hot.where("k = 1")) is Table and hot.where("k = 1").count() == 2
    assert "__enter__" in dir(hot)
    t.invalidate_cache()
    assert not t.is_cached and env.list_cached()[0].location is None


def test_persist_in_memory_is_spark_s_own(
    spark: SparkSession, df: DataFrame, env: Environment
) -> None:
    def run(d: DataFrame) -> int:
        computed = spark.sparkContext.accumulator(0)

        @F.udf("bigint")
        def counting(value):  # type: ignore[no-untyped-def]
            computed.add(1)
            return value

        t = d.withColumn("w", counting("v"))
        assert t.persist(StorageLevel.MEMORY_ONLY).storageLevel == StorageLevel.MEMORY_ONLY
        for _ in range(3):
            assert t.groupBy("k").agg(F.sum("w")).count() == 2
        # Spark's cache has answered, so that nothing below it was needed.
        assert computed.value == 4
        assert not t.unpersist(blocking=True).storageLevel.useMemory
        return t.groupBy("k").agg(F.sum("w")).count()

    assert run(env.from_dataframe(df).cache()) == 2
    assert [cached.rows for cached in env.list_cached()] == [4]


# --- as a DataFrame -------------------------------------------------------------------------------


def test_columns_are_attributes_and_items(t: Table) -> None:
    assert t.select(t.k, t["v"], t[2]).columns == ["k", "v", "s"]
    assert type(t[["k"]]) is Table and type(t[t.k > 1]) is Table
    assert {"k", "v", "s", "collect", "to_dataframe"} <= set(dir(t))
    assert t._ipython_key_completions_() == ["k", "v", "s"]
    assert repr(t.groupBy("k")).startswith("GroupedData[grouping expressions: [k]")
    assert t.plot.data is t
    with pytest.raises(PySparkAttributeError):
        t.missing
    # A column that is named like a member is an item.
    clash = t.toDF("count", "write", "s")
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
    with pytest.raises(Exception) as expected:
        do(df)
    with pytest.raises(expected.type):
        do(t)

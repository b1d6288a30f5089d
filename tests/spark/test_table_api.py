"""A Table does what PySpark's DataFrame does, and reads what is kept."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkAttributeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

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


TRANSFORMATIONS: dict[str, Example] = {
    "agg": lambda d: d.agg(F.sum("v"), F.max("s")),
    "cube": lambda d: d.cube("k", "s").count(),
    "dropDuplicates": lambda d: d.select("k").dropDuplicates(["k"]),
    "groupBy": lambda d: d.groupBy("k").agg({"v": "sum"}),
    "groupingSets": lambda d: d.groupingSets([["k"], []], "k").agg(F.sum("v")),
    "join": lambda d: d.join(d.groupBy("k").count(), "k", "left"),
    "lateralJoin": lambda d: d.alias("o").lateralJoin(
        d.sparkSession.range(3).where(F.col("id") < F.col("o.k").outer())
    ),
    "mapInPandas": lambda d: d.select("k").mapInPandas(lambda frames: frames, "k long"),
    "observe": lambda d: d.observe("seen", F.count(F.lit(1)).alias("n")),
    "randomSplit": lambda d: d.randomSplit([0.5, 0.5], seed=7),
    "rollup": lambda d: d.rollup("k").sum("v"),
    "sample": lambda d: d.sample(fraction=0.5, seed=3),
    "select": lambda d: d.select(["k", d.v + 1]),
    "sort": lambda d: d.sort(F.desc("v")),
    "sortWithinPartitions": lambda d: d.sortWithinPartitions("v"),
    "transform": lambda d: d.transform(lambda x, n: x.limit(n), 2).select("k").distinct(),
    "unionByName": lambda d: d.unionByName(d.drop("s"), allowMissingColumns=True),
    "grouped.agg": lambda d: d.groupBy("k").agg(F.sum("v").alias("total")),
    "grouped.applyInPandas": lambda d: d.groupBy("k").applyInPandas(
        lambda group: group.head(1), d.schema
    ),
    "grouped.sum": lambda d: d.groupBy("k").sum("v"),
    "cogrouped.applyInPandas": lambda d: (
        d.groupBy("k")
        .cogroup(d.groupBy("k"))
        .applyInPandas(lambda key, left, right: left.head(1)[["k"]], "k long")
    ),
    "na.fill": lambda d: d.na.fill({"v": 0, "s": "?"}),
    "stat.freqItems": lambda d: d.stat.freqItems(["k"]),
    "stat.sampleBy": lambda d: d.stat.sampleBy("k", {1: 1.0}, 1),
}


ON_STREAMS: dict[str, Example] = {
    "dropDuplicatesWithinWatermark": lambda d: d.dropDuplicatesWithinWatermark(["value"]),
    "applyInPandasWithState": lambda d: d.groupBy("value").applyInPandasWithState(
        lambda key, frames, state: frames, "n long", "n long", "append", "NoTimeout"
    ),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
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


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@pytest.mark.sampled(18)
def test_a_transformation_has_the_rows_of_pyspark_s(
    name: str, t: Table, df: DataFrame, keeping: Environment
) -> None:
    for table, frame in zip(made(name, t), made(name, df), strict=True):
        same_rows(table, frame)
        assert job(keeping) == "collect"


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", ON_STREAMS)
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
    "crosstab": lambda d: d.crosstab("k", "s"),
    "foreachPartition": lambda d: counted(
        d, lambda seen: d.foreachPartition(lambda part: seen.add(len(list(part))))
    ),
    "isEmpty": lambda d: d.where("k = 7").isEmpty(),
    "show": lambda d: printed(lambda: d.sort("v").show(2, truncate=1, vertical=True)),
    "tail": lambda d: d.sort("v").tail(2),
    "toArrow": lambda d: d.sort("v").toArrow(),
    "toPandas": lambda d: d.sort("v").toPandas().to_dict("list").__repr__(),
    "toLocalIterator": lambda d: list(d.sort("v").toLocalIterator(prefetchPartitions=True)),
    "transpose": lambda d: d.select("k").limit(2).transpose(),
    "checkpoint": lambda d: d.checkpoint(),
    "localCheckpoint": lambda d: d.localCheckpoint(),
    "_collect_as_arrow": lambda d: d.sort("v")._collect_as_arrow(),
    "_to_pandas": lambda d: d._to_pandas(pandasStructHandlingMode="dict").shape,
    "stat.approxQuantile": lambda d: d.stat.approxQuantile(["k", "v"], [0.5], 0.0),
}


@pytest.mark.parametrize("name", ACTIONS)
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

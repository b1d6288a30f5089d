"""Results of many small partitions are kept as few, with the same rows in the same order."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.api.cached_table import CachedTable
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.spark import partition_merger
from holdfast.spark.partition_merger import PartitionMerger
from holdfast.spark.partition_writer import PartitionWriter, describe
from holdfast.spark.session_settings import session_inputs
from holdfast.storage import merged_partitions
from holdfast.storage.intermediate_result_storage import StagedDataSet
from holdfast.storage.partition_directory import found_partitions

MANY = 40

_ODD = """
    SELECT id, IF(id % 3 = 0, NULL, id) AS n, double(IF(id % 5 = 0, 'NaN', -0.0)) AS d,
           float(-id) AS f, cast(id AS DECIMAL(38, 18)) AS dec, CAST(id % 2 AS BOOLEAN) AS b,
           concat('x', id) AS s, IF(id % 4 = 0, NULL, encode(string(id), 'utf-8')) AS bin,
           timestamp_seconds(id * 100000 - 1000000000) AS ts,
           TIMESTAMP_NTZ'0001-01-01 00:00:00' + make_dt_interval(CAST(id AS INT)) AS ntz,
           date_add(DATE'0001-01-01', CAST(id AS INT)) AS dt,
           array(id, NULL, 7L) AS a, map('k', id, 'l', NULL) AS m,
           named_struct('p', id, 'q', array(named_struct('r', id, 's', string(NULL)))) AS st,
           IF(id % 2 = 0, NULL, named_struct('p', id)) AS maybe,
           parse_json(concat('{"a": ', id, '}')) AS j, 'é' COLLATE UNICODE_CI AS c
    FROM range(0, 60, 1, 40)"""


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)


def _with_gaps(spark: SparkSession) -> DataFrame:
    return spark.range(0, 400, 1, MANY).where("id % 30 > 14 AND id > 30").toDF("k")


PLANS: dict[str, Callable[[SparkSession], DataFrame]] = {
    "ranges": lambda spark: _union(spark.range(i, i + 3, 1, 2) for i in range(20)),
    "rows of a program": lambda spark: _union(
        spark.createDataFrame([(i, f"s{i}")], "k int, v string") for i in range(20)
    ),
    "repartitioned": lambda spark: spark.range(100).repartition(MANY),
    "odd types": lambda spark: spark.sql(_ODD),
    "the same name twice": lambda spark: spark.range(0, 100, 1, MANY).select(
        "id", (F.col("id") * 2).alias("id")
    ),
    "clashing fields": lambda spark: spark.range(0, 100, 1, MANY).selectExpr(
        "named_struct('a', id, 'A', -id) AS st"
    ),
    "no columns": lambda spark: spark.range(0, 100, 1, MANY).select(),
    "empty ones in between": _with_gaps,
}


def _outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def _partitions(env: Environment) -> int:
    (listed,) = env.list_cached()
    assert listed.partitions is not None
    return listed.partitions


def _kept(env: Environment, df: DataFrame) -> CachedTable:
    hot = env.from_dataframe(df).cache()
    hot.count()
    assert VertexOutcome.PRODUCED in _outcomes(env)
    return hot


@pytest.fixture
def files(tmp_path: Path) -> Callable[[], list[Path]]:
    """The files of all that is kept."""
    return lambda: sorted(tmp_path.glob("kept/application-*/datasets/*/part-*.parquet"))


@pytest.mark.parametrize("name", PLANS)
def test_they_are_kept_as_one(
    env: Environment, spark: SparkSession, files: Callable[[], list[Path]], name: str
) -> None:
    df = PLANS[name](spark)
    hot = _kept(env, df)
    assert hot.count() == df.count()
    assert list(map(repr, hot.collect())) == list(map(repr, df.collect()))
    assert _outcomes(env)[0] is VertexOutcome.READ
    assert _partitions(env) == 1
    assert len(files()) == 1


@pytest.mark.parametrize(
    "ordered",
    [
        lambda spark: spark.range(0, 3000, 1, 50).orderBy(F.expr("hash(id)"), "id"),
        lambda spark: spark.range(0, 3000, 1, 3).repartitionByRange(60, "id").orderBy("id"),
        lambda spark: spark.range(0, 3000, 1, 50).sortWithinPartitions(F.desc("id")),
    ],
)
def test_rows_stay_in_their_order(
    env: Environment,
    spark: SparkSession,
    ordered: Callable[[SparkSession], DataFrame],
    settings: Any,
) -> None:
    with settings(
        {
            "spark.sql.shuffle.partitions": "60",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        }
    ):
        df = ordered(spark)
        expected = df.collect()
        hot = _kept(env, df)
        assert _partitions(env) == 1
        assert hot.collect() == expected
        assert hot.limit(70).collect() == expected[:70]
        assert [row.id for row in hot.select("id").toLocalIterator()] == [r.id for r in expected]
        assert hot.tail(5) == expected[-5:]


def test_rows_are_in_order_over_what_is_merged_and_what_is_not(
    env: Environment, spark: SparkSession, files: Callable[[], list[Path]]
) -> None:
    df = _one_large(spark)
    expected = df.sortWithinPartitions("id").collect()
    hot = _kept(env, df.sortWithinPartitions("id"))
    sizes = [file.stat().st_size for file in files()]
    assert len(sizes) == 3
    assert sizes[1] > 256 << 10
    assert hot.collect() == expected


def _one_large(spark: SparkSession) -> DataFrame:
    """A hundred partitions of ten rows, one of them with 64 KB in each row that hardly compress."""
    noise = "array_join(transform(sequence(1, 512), x -> sha2(id || '-' || x, 512)), '')"
    return spark.range(0, 1000, 1, 100).select(
        "id", F.expr(f"IF(id BETWEEN 400 AND 409, {noise}, NULL)").alias("v")
    )


def test_large_partitions_are_not_written_again(spark: SparkSession, tmp_path: Path) -> None:
    merger, staged, description = _written(spark, _one_large(spark), tmp_path)
    before = found_partitions(staged.directory)
    assert len(before) == 100
    merger.merge(staged, description, session_inputs(spark))
    after = found_partitions(staged.directory)
    assert [each.index for each in after] == [39, 40, 99]
    assert after[1] == before[40]
    assert sum(each.rows for each in after) == 1000
    names = {path.name for path in staged.directory.iterdir()}
    assert names == {name for each in after for name in (each.file, f".{each.file}.crc")}


def test_partitions_stay_where_they_cannot_be_merged(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    merger, staged, description = _written(spark, spark.range(0, 100, 1, MANY).toDF("k"), tmp_path)
    before = found_partitions(staged.directory)
    in_the_way = staged.directory / "_merged"
    in_the_way.write_text("no directory")
    with caplog.at_level(logging.DEBUG, logger="holdfast"):
        merger.merge(staged, description, session_inputs(spark))
    assert "stay" in caplog.text
    assert found_partitions(staged.directory) == before
    in_the_way.unlink()
    merger.merge(staged, description, session_inputs(spark))
    assert [each.rows for each in found_partitions(staged.directory)] == [100]


def test_a_damaged_partition_is_not_merged(spark: SparkSession, tmp_path: Path) -> None:
    merger, staged, description = _written(spark, spark.range(0, 100, 1, MANY).toDF("k"), tmp_path)
    before = found_partitions(staged.directory)
    file = staged.directory / before[7].file
    content = bytearray(file.read_bytes())
    content[10] ^= 1
    file.write_bytes(content)
    merger.merge(staged, description, session_inputs(spark))
    assert [each.index for each in found_partitions(staged.directory)] == list(range(MANY))


def _written(
    spark: SparkSession, df: DataFrame, tmp_path: Path
) -> tuple[PartitionMerger, StagedDataSet, Any]:
    digest = "ab" * 32
    description = describe(
        digest, "a test", df._jdf.schema().json(), False, spark.version, ["c"] * len(df.columns)
    )
    writer = PartitionWriter(spark, "zstd")
    directory = tmp_path / "staged"
    directory.mkdir()
    dataset_id = IntermediateDataSetID.from_digest(digest)
    staged = StagedDataSet(JobID.random(), dataset_id, "name", str(directory))
    plan = df._jdf.queryExecution().analyzed()
    writer.write(plan, spark._jsparkSession, description, staged.location)
    return PartitionMerger(spark, writer), staged, description


def test_a_few_are_kept_as_they_are(
    env: Environment, spark: SparkSession, files: Callable[[], list[Path]]
) -> None:
    hot = _kept(env, spark.range(0, 100, 1, 7).toDF("k"))
    assert _partitions(env) == len(files()) == 7
    assert Counter(hot.collect()) == Counter(spark.range(100).toDF("k").collect())


def test_a_barrier_stage_can_tell_that_there_were_others(
    env: Environment, spark: SparkSession
) -> None:
    _kept(env, spark.range(0, 100, 1, MANY).toDF("k"))
    assert env.last_job_result is not None
    found = env.last_job_result.persistent_result_partitions.descriptors.values()
    # It refuses to run over anything but indices from 0 on, without gaps.
    assert [[each.index for each in partitions] for partitions in found] == [[MANY - 1]]


def test_what_was_kept_in_many_files_is_read_in_few_tasks(
    env: Environment, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.storage.small_partitions.LEAST_SAVED", 1 << 30)
    hot = _kept(env, spark.range(0, 600, 1, 100))
    assert _partitions(env) == 100
    assert Counter(hot.collect()) == Counter(spark.range(600).collect())
    assert hot.select(F.spark_partition_id()).distinct().count() == 100
    assert tasks_of_scan(env, hot) <= 4


def test_a_large_file_is_read_by_several_tasks(
    env: Environment, spark: SparkSession, settings: Any
) -> None:
    noise = F.sha2(F.col("id").cast("string"), 512)
    with settings({"parquet.block.size": "100000", "spark.sql.files.maxPartitionBytes": "200000"}):
        hot = _kept(env, spark.range(0, 20_000, 1, 1).select("id", noise.alias("w")))
        assert _partitions(env) == 1
        assert hot.rdd.getNumPartitions() == 1
        assert tasks_of_scan(env, hot) > 2
        assert hot.select("id").distinct().count() == 20_000


def tasks_of_scan(env: Environment, table: DataFrame) -> int:
    """How many tasks read a table where none can see its partitions."""
    found: list[int] = []

    def look(df: Any) -> None:
        leaves = df._jdf.queryExecution().sparkPlan().collectLeaves()
        found.append(leaves.apply(0).inputRDDs().apply(0).getNumPartitions())

    env.run_action(table.selectExpr("max(id)"), "looks", look)
    return found[0]


MOMENTS = {
    "before it begins": (PartitionMerger, "_write"),
    "when it is written": (partition_merger, "_written"),
    "when it takes their place": (partition_merger, "put_in_place"),
    "when half of it has": (merged_partitions, "_checksums"),
}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS.keys())
def test_an_interrupt_while_merging_leaves_nothing(
    env: Environment,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: tuple[Any, str],
) -> None:
    where, name = moment
    step, calls = getattr(where, name), []

    def interrupted(*args: Any) -> Any:
        calls.append(name)
        # Of the checks for the files' checksums the fourth is in the middle.
        if len(calls) == (4 if name == "_checksums" else 1):
            raise KeyboardInterrupt
        return step(*args)

    df = spark.range(0, 100, 1, MANY).toDF("k")
    hot = env.from_dataframe(df).cache()
    with monkeypatch.context() as patched:
        patched.setattr(where, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            hot.count()
    assert calls
    assert _left(tmp_path / "kept") == []
    assert env.list_cached()[0].location is None
    assert hot.collect() == df.collect()
    assert VertexOutcome.PRODUCED in _outcomes(env)
    assert hot.collect() == df.collect()
    assert VertexOutcome.READ in _outcomes(env)
    assert _partitions(env) == 1


@pytest.mark.parametrize("small_disk", ["2m"], indirect=True)
@pytest.mark.parametrize("ends", [True, False], ids=["for a moment", "from then on"])
def test_a_disk_that_is_full_when_they_are_merged(
    spark: SparkSession, small_disk: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    write = PartitionMerger._write

    def without_room(*args: Any) -> None:
        rest = small_disk / "rest"
        with rest.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1024)):
                pass
        try:
            write(*args)
        finally:
            if ends:
                rest.unlink()

    monkeypatch.setattr(PartitionMerger, "_write", without_room)
    df = spark.range(0, 100, 1, MANY).toDF("k")
    config = {"intermediate-result-storage.directory": str(small_disk / "kept")}
    with Environment(spark, config) as env:
        hot = env.from_dataframe(df).cache()
        assert hot.collect() == df.collect()
        kept = VertexOutcome.PRODUCED if ends else VertexOutcome.NOT_KEPT
        assert _outcomes(env)[0] is kept
        assert not (small_disk / "rest").exists() or not ends
        assert _left(small_disk / "kept") == []
        assert list(small_disk.rglob("_merged")) == []
        assert len(list(small_disk.rglob("part-*.parquet"))) == (MANY if ends else 0)
        assert hot.collect() == df.collect()


def _left(root: Path) -> list[Path]:
    return list(root.glob("application-*/staging/*"))


def test_merging_is_named_in_sparks_ui(env: Environment, spark: SparkSession) -> None:
    _kept(env, spark.range(0, 100, 1, MANY).toDF("k"))
    store = spark.sparkContext._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    told = [jobs.apply(index).description() for index in range(jobs.size())]
    assert any("Holdfast merges small partitions of" in str(each) for each in told)

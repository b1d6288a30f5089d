"""Partitions that an earlier start has left are completed by those that are missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.execution_listeners import ExecutionListeners
from holdfast.runtime.vertex_runner import NotKeptError, Production
from holdfast.spark.catalyst_bridge import CatalystBridge
from holdfast.spark.partition_writer import WRITE_SETTINGS, PartitionWriter, describe
from holdfast.spark.recovery.partial_production import some_partitions
from holdfast.spark.recovery.split_signature import Split, split_of
from holdfast.spark.session_settings import session_inputs, session_under
from holdfast.spark.spark_vertex_runner import SparkVertexRunner
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("split")
    df = spark.range(600).selectExpr("id", "id % 3 AS k", "array(id, id + 1) AS pair")
    df.repartition(5).write.parquet(str(home / "flat"))
    df.write.partitionBy("k").orc(str(home / "by_k"))
    return home


@pytest.fixture
def many_tasks(settings: Any) -> Iterator[None]:
    """Each file is a task of its own."""
    with settings({"spark.sql.files.openCostInBytes": str(1 << 40)}):
        yield


def plan_of(df: Any) -> Any:
    return df._jdf.queryExecution().analyzed()


def split(spark: SparkSession, df: Any, kept: tuple[KeptDataSet, ...] = ()) -> Split | None:
    return split_of(spark, plan_of(df), kept)


def description_of(df: Any) -> DataSetDescription:
    return describe(
        "ab" * 32,
        "a test",
        df._jdf.schema().json(),
        False,
        "4",
        [*map(str, range(len(df.columns)))],
    )


QUERIES = {
    "a scan": lambda read: read,
    "rows of some files": lambda read: read.where("id % 3 = 1").selectExpr("id * 2 AS twice", "k"),
    "more rows": lambda read: read.select("k", F.explode("pair").alias("each")),
    "a function": lambda read: read.withColumn("n", F.udf(lambda n: n + 1, "long")("id")),
    "numbers by seed": lambda read: read.withColumn("r", F.rand(7)),
    "a union": lambda read: read.unionByName(read.selectExpr("id + 1000 AS id", "k", "pair")),
    "nothing": lambda read: read.where("id < 0"),
    "a broadcast join": lambda read: read.join(F.broadcast(other(read)), "id"),
    "two broadcast joins": lambda read: (
        read.join(F.broadcast(other(read)), "id", "left")
        .join(F.broadcast(read.select("id").join(F.broadcast(inline(read)), "id", "left")), "id")
        .where("h > 2")
    ),
    "a table that is inline": lambda read: read.join(F.broadcast(inline(read)), "id", "left_anti"),
    "a union of joins": lambda read: (
        inline(read).hint("broadcast").join(read, "id").unionByName(read)
    ),
    "an empty side": lambda read: read.join(F.broadcast(other(read).where("h < 0")), "id"),
}


# A scan, what stands above one, and what reads two: the others differ in nothing but that.
OF_DIRECTORIES = ("a scan", "a function", "a union", "a broadcast join")


def other(read: Any) -> Any:
    return read.where("id % 2 = 0").selectExpr("id", "id DIV 2 AS h")


def inline(read: Any) -> Any:
    return read.sparkSession.sql("SELECT * FROM VALUES (1L), (5L), (300L) AS v(id)")


@pytest.mark.parametrize(
    ("source", "query"),
    [
        pytest.param(source, query, id=f"{name}-{source}", marks=marks)
        for name, query in QUERIES.items()
        for source, marks in (
            ("flat", ()),
            ("by_k", () if name in OF_DIRECTORIES else pytest.mark.soak),
        )
    ],
)
def test_missing_partitions_are_those_of_a_whole_run(
    spark: SparkSession, files: Path, tmp_path: Path, many_tasks: None, source: str, query: Any
) -> None:
    reader = spark.read.parquet if source == "flat" else spark.read.orc
    df = query(reader(str(files / source)))
    found = split(spark, df)
    assert found is not None and found.parallelism >= 3
    description = description_of(df)
    writer = PartitionWriter(spark, "zstd")
    session = session_under(spark, session_inputs(spark), WRITE_SETTINGS)
    writer.write(plan_of(df), session, description, str(tmp_path / "whole"))
    missing = [1, found.parallelism - 1]
    again = query(reader(str(files / source)))
    found_again = split(spark, again)
    assert found_again == found
    part_of_it = some_partitions(spark, found_again, missing)
    writer.write(part_of_it, session, description, str(tmp_path / "part"))
    whole, part = by_index(spark, tmp_path / "whole"), by_index(spark, tmp_path / "part")
    assert set(part) <= {0, 1}
    for place, index in enumerate(missing):
        assert part.get(place, []) == whole.get(index, [])


def by_index(spark: SparkSession, directory: Path) -> dict[int, list[str]]:
    """The rows of each partition, by what the file's name says."""
    found = {}
    for file in directory.glob("part-*"):
        index = int(file.name.split("-")[1])
        found[index] = [repr(row) for row in spark.read.parquet(str(file)).collect()]
    return {index: rows for index, rows in found.items() if rows}


def test_the_same_files_are_split_the_same(
    spark: SparkSession, files: Path, settings: Any, many_tasks: None
) -> None:
    found = split(spark, spark.read.parquet(str(files / "flat")))
    assert found is not None and found.parallelism == 5
    assert split(spark, spark.read.parquet(str(files / "flat"))) == found
    with settings({"spark.sql.files.openCostInBytes": "1"}):
        assert split(spark, spark.read.parquet(str(files / "flat"))) != found
    file = next((files / "flat").glob("part-*"))
    os.utime(file, (file.stat().st_atime, file.stat().st_mtime + 5))
    assert split(spark, spark.read.parquet(str(files / "flat"))) != found


@pytest.mark.parametrize(
    "query",
    [
        lambda read: read.groupBy("k").count(),
        lambda read: read.join(read.selectExpr("id", "k AS j").hint("merge"), "id"),
        lambda read: read.join(F.broadcast(read.groupBy("id").count()), "id"),
        lambda read: read.join(F.broadcast(other(read)), F.expr("h < k"), "right"),
        lambda read: inline(read).join(F.broadcast(other(read)), "id"),
        lambda read: read.orderBy("id"),
        lambda read: read.limit(3),
        lambda read: read.coalesce(1),
        lambda read: read.where(F.expr("id = (SELECT max(v.id) FROM VALUES (1) AS v(id))")),
        lambda read: read.sparkSession.range(10),
        lambda read: read.union(read.sparkSession.range(10).selectExpr("id", "id", "array(id)")),
    ],
    ids=("group join shuffled no-keys values order limit coalesce subquery range mixed".split()),
)
def test_what_is_decided_otherwise_has_no_split(
    spark: SparkSession, files: Path, query: Any
) -> None:
    assert split(spark, query(spark.read.parquet(str(files / "flat")))) is None


def test_partitions_that_are_pruned_at_run_time_have_no_split(
    spark: SparkSession, files: Path
) -> None:
    by_k = spark.read.orc(str(files / "by_k"))
    few = spark.read.parquet(str(files / "flat")).where("id < 2").selectExpr("k", "id AS few")
    pruned = by_k.join(F.broadcast(few), "k")
    assert "dynamicpruning" in pruned._jdf.queryExecution().toString()
    assert split(spark, pruned) is None


@pytest.mark.parametrize(
    "chosen",
    [
        lambda read: read.orderBy("k").limit(3),
        lambda read: read.selectExpr("id", "row_number() OVER (ORDER BY k) AS n").where("n < 4"),
    ],
)
def test_what_is_chosen_by_chance_and_broadcast_leaves_no_split(
    spark: SparkSession, files: Path, many_tasks: None, chosen: Callable[[DataFrame], DataFrame]
) -> None:
    read = spark.read.parquet(str(files / "flat"))
    joined = read.join(F.broadcast(chosen(read).select("id")), "id")
    root = CatalystBridge(spark, "session").query(joined).root
    assert split(spark, joined) is not None
    # On other cores it may be other rows.
    plan = plan_of(joined)
    assert split_of(spark, plan, ambiguous=root.ambiguous) is None


def test_which_side_is_streamed_is_told(spark: SparkSession, files: Path, many_tasks: None) -> None:
    flat, by_k = spark.read.parquet(str(files / "flat")), spark.read.orc(str(files / "by_k"))
    read = [each.select("id") for each in (flat, by_k)]
    one = split(spark, read[0].join(F.broadcast(read[1]), "id"))
    two = split(spark, F.broadcast(read[0]).join(read[1], "id"))
    assert one is not None and two is not None
    assert one.parallelism == 5 and one != two
    plain = split(spark, read[0])
    assert plain is not None and plain.assignment == one.assignment
    assert one.broadcasts and not plain.broadcasts


def test_kept_partitions_count_by_what_they_are(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    bridge = CatalystBridge(spark, "one")
    storage = EmbeddedStorage(tmp_path / "kept")
    runner = SparkVertexRunner(spark, bridge, storage, "zstd")
    query = bridge.query(spark.read.parquet(str(files / "flat")))
    kept = runner.keep(
        Production(
            query,
            session_inputs(spark),
            JobID.random(),
            IntermediateDataSetID("cd" * 32),
            "a test",
            lambda _: None,
            ExecutionListeners(),
        )
    )
    moved = tmp_path / "moved"
    moved.mkdir()
    for partition, place in zip(kept.manifest.partitions, kept.locations, strict=True):
        os.link(place, moved / partition.file)
    elsewhere = kept.model_copy(update={"directories": (str(moved),), "holders": ()})
    splits = []
    for each in (kept, elsewhere):
        read = runner.substituted(query, query.root, lambda _, each=each: each)
        splits.append(split(spark, read.where("id > 3"), (each,)))
        assert splits[-1] != split(spark, read.where("id > 3"))
    assert splits[0] is not None and splits[0] == splits[1]
    storage.close()


def test_a_split_tells_under_which_settings_its_files_were_dealt(
    spark: SparkSession, files: Path
) -> None:
    found = split(spark, spark.read.parquet(str(files / "flat")))
    assert found is not None
    # What Spark goes by where it isn't set: the next start may have other cores.
    assert found.settings["spark.sql.files.minPartitionNum"] == str(
        spark.sparkContext.defaultParallelism
    )
    other = spark._jsparkSession.cloneSession()
    for key, value in found.settings.items():
        other.conf().set(key, value)
    plan = spark.read.parquet(str(files / "flat"))._jdf.queryExecution().analyzed()
    assert split_of(spark, plan, session=other) == found


def test_another_number_of_tasks_is_refused(spark: SparkSession, files: Path) -> None:
    found = split(spark, spark.read.parquet(str(files / "flat")))
    assert found is not None
    with pytest.raises(NotKeptError, match="expected 99"):
        some_partitions(spark, replace(found, parallelism=99), [0])

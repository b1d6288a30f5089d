"""A job that starts again is told from others, and reads the files that it read before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.recovery.job_digest import job_digest
from holdfast.spark.recovery.source_snapshot import SourcesChanged, SourceSnapshots
from holdfast.spark.session_settings import session_inputs


class Starts:
    """Starts of a program, which know nothing of each other."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._count = 0

    def query(self, df: Any) -> tuple[CatalystBridge, Query]:
        self._count += 1
        bridge = CatalystBridge(self.spark, f"start {self._count}")
        return bridge, bridge.query(df)

    def snapshot(self, df: Any) -> list[dict[str, Any]]:
        bridge, query = self.query(df)
        return SourceSnapshots(self.spark, bridge).snapshot(query)

    def restored(self, df: Any, snapshot: object) -> tuple[DataFrame, str] | SourcesChanged:
        """The rows' DataFrame and the plan's digest."""
        bridge, query = self.query(df)
        found = SourceSnapshots(self.spark, bridge).restore(query, snapshot)
        if isinstance(found, SourcesChanged):
            return found
        return bridge.dataframe(found.plan), found.root.digest

    def digest(self, df: Any) -> str | None:
        bridge, query = self.query(df)
        return job_digest(bridge, query, session_inputs(self.spark))


@pytest.fixture
def starts(spark: SparkSession) -> Starts:
    return Starts(spark)


def rows(df: DataFrame) -> list[str]:
    return sorted(repr(row) for row in df.collect())


def write(spark: SparkSession, path: Path, first: int, kind: str = "parquet", **parts: str) -> None:
    df = spark.range(first, first + 40).selectExpr("id", "id % 5 AS k", "concat('t', id) AS t")
    writer = df.coalesce(2).write.mode("append").format(kind)
    for column in parts.values():
        writer = writer.partitionBy(column)
    writer.save(str(path))


def check_old_rows(starts: Starts, make: Any, grow: Any) -> None:
    """After files were added, a restored query gives the old rows under the old digest."""
    before = rows(make())
    _, query = starts.query(make())
    snapshot, digest = starts.snapshot(make()), starts.digest(make())
    grow()
    assert rows(make()) != before
    assert starts.digest(make()) == digest
    restored = starts.restored(make(), snapshot)
    assert not isinstance(restored, SourcesChanged), restored
    assert rows(restored[0]) == before
    assert restored[1] == query.root.digest


@pytest.mark.parametrize("kind", ["parquet", "orc", "json", "csv"])
def test_files_that_came_later_are_not_read(
    spark: SparkSession, starts: Starts, tmp_path: Path, kind: str
) -> None:
    write(spark, tmp_path / "data", 0, kind)
    schema = "id long, k long, t string"
    check_old_rows(
        starts,
        lambda: spark.read.schema(schema).format(kind).load(str(tmp_path / "data")).where("id > 3"),
        lambda: write(spark, tmp_path / "data", 100, kind),
    )


@pytest.mark.parametrize("filtered", [True, False])
def test_partitioning_columns_keep_their_values(
    spark: SparkSession, starts: Starts, tmp_path: Path, filtered: bool
) -> None:
    write(spark, tmp_path / "data", 0, by="k")

    def query() -> DataFrame:
        df = spark.read.parquet(str(tmp_path / "data"))
        return df.where("k > 1") if filtered else df.groupBy("k").agg(F.count("*"), F.max("id"))

    def grow() -> None:
        more = spark.range(900, 950).selectExpr("id", "id % 7 AS k", "'more' AS t")
        more.write.mode("append").partitionBy("k").parquet(str(tmp_path / "data"))

    check_old_rows(starts, query, grow)


def test_each_of_several_sources_is_restored(
    spark: SparkSession, starts: Starts, tmp_path: Path
) -> None:
    for number, name in enumerate(("one", "two", "three")):
        write(spark, tmp_path / name, number * 10)

    def query() -> DataFrame:
        read = spark.read.parquet
        several = read(str(tmp_path / "one"), str(tmp_path / "two"))
        again = read(str(tmp_path / "one")).alias("again")
        joined = several.alias("s").join(again, F.col("s.id") == F.col("again.id"), "left")
        read(str(tmp_path / "three")).createOrReplaceTempView("third")
        joined.select("s.id", "again.k").createOrReplaceTempView("joined")
        return spark.sql(
            "SELECT *, (SELECT max(id) FROM third) m FROM joined WHERE id IN (SELECT id FROM third)"
        )

    def grow() -> None:
        for name in ("one", "three"):
            write(spark, tmp_path / name, 15)

    check_old_rows(starts, query, grow)


def test_a_start_over_unchanged_files_reads_its_own_plan(
    spark: SparkSession, starts: Starts, tmp_path: Path
) -> None:
    write(spark, tmp_path / "data", 0)
    snapshot = starts.snapshot(spark.read.parquet(str(tmp_path / "data")))
    bridge, query = starts.query(spark.read.parquet(str(tmp_path / "data")))
    assert SourceSnapshots(spark, bridge).restore(query, snapshot) is query


def test_changed_files_are_told(spark: SparkSession, starts: Starts, tmp_path: Path) -> None:
    write(spark, tmp_path / "data", 0)
    snapshot = starts.snapshot(spark.read.parquet(str(tmp_path / "data")))
    file = next((tmp_path / "data").glob("part-*"))
    os.utime(file, (1, 1))
    found = starts.restored(spark.read.parquet(str(tmp_path / "data")), snapshot)
    assert isinstance(found, SourcesChanged) and found.reason == f"file:{file} has changed"
    file.unlink()
    found = starts.restored(spark.read.parquet(str(tmp_path / "data")), snapshot)
    assert isinstance(found, SourcesChanged) and found.reason == f"file:{file} was removed"


@pytest.mark.parametrize(
    "snapshot", [None, "text", 3, [{}], [1], {"files": []}, []], ids=lambda each: repr(each)
)
def test_a_damaged_snapshot_is_told(
    spark: SparkSession, starts: Starts, tmp_path: Path, snapshot: object
) -> None:
    write(spark, tmp_path / "data", 0)
    found = starts.restored(spark.read.parquet(str(tmp_path / "data")), snapshot)
    assert isinstance(found, SourcesChanged)


def test_a_snapshot_of_another_format_is_told(
    spark: SparkSession, starts: Starts, tmp_path: Path
) -> None:
    write(spark, tmp_path / "one", 0)
    write(spark, tmp_path / "two", 0, "orc")
    snapshot = starts.snapshot(spark.read.parquet(str(tmp_path / "one")))
    found = starts.restored(spark.read.orc(str(tmp_path / "two")), snapshot)
    assert isinstance(found, SourcesChanged)


def test_a_column_whose_type_changes_with_later_files_is_told(
    spark: SparkSession, starts: Starts, tmp_path: Path
) -> None:
    write(spark, tmp_path / "data", 0, by="k")
    snapshot = starts.snapshot(spark.read.parquet(str(tmp_path / "data")))
    spark.range(3).selectExpr("id", "'x' AS t").write.parquet(str(tmp_path / "data" / "k=words"))
    found = starts.restored(spark.read.parquet(str(tmp_path / "data")), snapshot)
    assert isinstance(found, SourcesChanged)


def test_jobs_are_told_apart(
    spark: SparkSession, starts: Starts, tmp_path: Path, settings: Any
) -> None:
    write(spark, tmp_path / "one", 0)
    write(spark, tmp_path / "two", 0)

    def query(name: str = "one", number: int = 3) -> DataFrame:
        return spark.read.parquet(str(tmp_path / name)).where(f"id > {number}")

    digest = starts.digest(query())
    assert digest is not None and len(digest) == 64
    assert starts.digest(query()) == digest
    assert starts.digest(query("two")) != digest
    assert starts.digest(query(number=4)) != digest
    assert starts.digest(query().groupBy("k").count()) != digest
    with settings({"spark.sql.ansi.enabled": "false"}):
        assert starts.digest(query()) != digest


def test_a_job_that_says_too_little_has_no_digest(
    spark: SparkSession, starts: Starts, tmp_path: Path
) -> None:
    write(spark, tmp_path / "one", 0)
    df = spark.read.parquet(str(tmp_path / "one"))
    assert starts.digest(df.withColumn("u", F.expr("uuid()"))) is None
    own = spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "id long")
    assert starts.digest(df.join(own, "id")) is None

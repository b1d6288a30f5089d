"""What is kept has plain Spark's rows, in its order and partitions, in files for any reader."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.testing import assert_reads
from tests.promises.conftest import rows
from tests.short_lived_jvm import COMPILED

TYPES = """
    SELECT id, CAST(NULL AS INT) AS nothing, -0.0D AS zero, DOUBLE('NaN') AS nan, 'ä\\0' AS text,
           X'00ff' AS bytes, DATE'0001-01-01' AS day, TIMESTAMP'1900-01-01 00:00:00.000001' AS ts,
           TIMESTAMP_NTZ'9999-12-31 23:59:59' AS local, 12345678901234567890.123456789BD AS large,
           array(NULL, id) AS list, map('k', named_struct('x', id)) AS map, INTERVAL '1' DAY AS d,
           parse_json('{"a": [1, null]}') AS variant, true AS flag, 1.5F AS single
    FROM range(3)"""

ORDERED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "a sort": lambda df: df.orderBy(F.desc("id")),
    "a sort within partitions": lambda df: df.repartition(3, "a").sortWithinPartitions("id"),
    "as it is": lambda df: df.select("id"),
}


@pytest.fixture(autouse=True)
def _compiled(session: SparkSession, plain: SparkSession) -> None:
    for each in (session, plain):
        for key, value in COMPILED.items():
            each.conf.set(key, value)


def test_types_come_back_as_they_were(session: SparkSession, plain: SparkSession) -> None:
    expected = plain.sql(TYPES)
    for _ in range(2):
        kept = session.sql(TYPES).cache()
        assert kept.schema == expected.schema and rows(kept) == rows(expected)
    assert_reads(session.sql(TYPES))


@pytest.mark.parametrize("how", ORDERED)
def test_rows_keep_their_order_and_partitions(
    session: SparkSession, plain: SparkSession, how: str
) -> None:
    one, other = (ORDERED[how](each.table("trips")) for each in (session, plain))
    one.cache().count()
    assert_reads(one)
    assert one.collect() == other.collect()
    assert one.rdd.glom().map(len).collect() == other.rdd.glom().map(len).collect()


def test_small_partitions_are_merged(session: SparkSession, plain: SparkSession) -> None:
    many = session.range(400).repartition(40).groupBy("id").count().repartition(40, "id")
    many.cache().count()
    (listed,) = session.holdfast.list_cached()
    assert listed.partitions < 10 and listed.rows == 400


def test_input_files_are_those_of_the_source(session: SparkSession, plain: SparkSession) -> None:
    query = "SELECT a, e FROM trips JOIN riders USING (a)"
    session.sql(query).cache().count()
    assert set(session.sql(query).inputFiles()) <= set(plain.sql(query).inputFiles())


def test_files_are_parquet_with_a_manifest(session: SparkSession, tmp_path: Path) -> None:
    kept = session.sql("SELECT a, count(*) AS n FROM trips GROUP BY a").cache()
    kept.count()
    (listed,) = session.holdfast.list_cached()
    assert sum(pq.read_metadata(part).num_rows for part in listed.location.glob("part-*")) == 5
    manifest = json.loads((listed.location / "_manifest.json").read_text())
    assert sum(each["rows"] for each in manifest["partitions"]) == 5
    assert "Aggregate [a]" in manifest["dataset"]["computes"]
    kept.invalidate_cache()
    assert not listed.location.exists()


# Of directories and files, for those who aren't their owner.
MODES = {"private": (0o00, None), "group": (0o70, 0o40), "all": (0o77, 0o44)}


@pytest.mark.parametrize("sharing", MODES)
def test_sharing_is_said_by_modes(spark: SparkSession, tmp_path: Path, sharing: str) -> None:
    home = tmp_path / "kept"
    config = {
        "intermediate-result-storage.directory": str(home),
        "intermediate-result-storage.sharing": sharing,
    }
    with Environment(spark.newSession(), config=config) as env:
        env.range(9).where("id > 3").cache(lifetime="1 d").count()
        directory, file = MODES[sharing]
        assert stat.S_IMODE(home.stat().st_mode) & 0o77 == directory
        for part in (home / "shared").rglob("part-*.parquet"):
            assert file is None or stat.S_IMODE(part.stat().st_mode) & 0o77 == file


def test_a_dashboard_finds_what_pandas_on_spark_made(session: SparkSession, files: Path) -> None:
    def totals() -> DataFrame:
        frame = session.read.parquet(str(files / "trips")).pandas_api(index_col="id")
        return frame.groupby("a")[["b"]].sum().to_spark(index_col="a")

    totals().cache().count()
    assert_reads(totals())


def test_over_its_own_source(session: SparkSession, plain: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "numbers")
    plain.range(5).write.parquet(path)
    kept = session.read.parquet(path).where("id > 1").cache()
    kept.write.mode("overwrite").parquet(path)
    assert plain.read.parquet(path).count() == 3
    assert session.read.parquet(path).count() == 3

"""What a program whose jobs are recovered writes, as Spark writes it.

`tests/chaos` and `test_changed_inputs` kill it meanwhile.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from holdfast import Environment, FileSink

FORMATS = ["parquet", "orc", "csv", "json", "text", "xml"]
OPTIONS: dict[str, dict[str, Any]] = {"csv": {"header": True}, "xml": {"rowTag": "row"}}


@pytest.fixture
def recovering(spark: SparkSession, tmp_path: Path) -> Iterator[Environment]:
    """An environment whose jobs are recovered."""
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "execution.batch.job-recovery.enabled": True,
        "high-availability.storageDir": (tmp_path / "ha").as_uri(),
    }
    with Environment(spark, config=config) as environment:
        yield environment


def numbers(session: Any, first: int, last: int) -> Any:
    """Rows of which `k` is the partition."""
    rows = session.range(first, last).selectExpr("cast(id as string) as v", "id % 3 as k")
    return rows.repartition(2)


def saved(session: Any, source: str, mode: str, path: Path, *rows: int) -> None:
    writer = numbers(session, *rows).write.mode(mode).options(**OPTIONS.get(source, {}))
    writer.partitionBy("k").format(source).save(str(path))


def rows_in(spark: SparkSession, source: str, path: Path) -> list[str]:
    read = spark.read.format(source).options(**OPTIONS.get(source, {})).load(str(path))
    column = "value" if source == "text" else "v"
    return sorted(f"{row[0]} {row[1]}" for row in read.select(column, "k").collect())


def rows_of(*ranges: tuple[int, int]) -> list[str]:
    return sorted(f"{v} {v % 3}" for first, last in ranges for v in range(first, last))


def assert_tidy(path: Path) -> None:
    """Nothing is left beside the target, nor in it, that plain Spark would not leave."""
    assert not [each.name for each in path.parent.iterdir() if ".holdfast-" in each.name]
    assert not list(path.rglob(".holdfast-*"))
    assert (path / "_SUCCESS").exists()


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.sampled(6)
def test_every_format_in_every_mode(
    recovering: Environment, spark: SparkSession, tmp_path: Path, source: str
) -> None:
    path = tmp_path / "out put%20"
    for mode, given, expected in (
        ("error", (0, 9), [(0, 9)]),
        ("append", (9, 12), [(0, 12)]),
        # The same write again is another write.
        ("append", (9, 12), [(0, 12), (9, 12)]),
        ("ignore", (50, 60), [(0, 12), (9, 12)]),
        ("overwrite", (3, 6), [(3, 6)]),
    ):
        saved(recovering, source, mode, path, *given)
        assert rows_in(spark, source, path) == rows_of(*expected), mode
    with pytest.raises(AnalysisException, match="already exists"):
        saved(recovering, source, "error", path, 50, 60)
    assert_tidy(path)


def test_dynamic_partition_overwrite(
    recovering: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    found = []
    for name, session in (("out", recovering), ("plain", spark)):
        path = tmp_path / name
        saved(session, "parquet", "error", path, 0, 9)
        writer = numbers(session, 30, 40).where("k < 2").write.mode("overwrite").partitionBy("k")
        writer.option("partitionOverwriteMode", "dynamic").parquet(str(path))
        found.append((rows_in(spark, "parquet", path), sorted(os.listdir(path))))
        assert_tidy(path)
    assert found[0] == found[1]


WRITES: dict[str, Callable[[Any, str], None]] = {
    "parquet": lambda writer, path: writer.parquet(path, mode="append", compression="gzip"),
    "option": lambda writer, path: writer.mode("append").format("orc").option("path", path).save(),
    "csv": lambda writer, path: writer.csv(path, mode="append", sep=";", header=True),
    "save": lambda writer, path: writer.save(path, format="json", mode="append", partitionBy=["k"]),
    "defaults": lambda writer, path: (
        writer.option("PATH", path).partitionBy("k", "v").save(mode="append")
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
@pytest.mark.sampled(5, 4)
def test_a_write_leaves_the_files_that_spark_leaves(
    recovering: Environment, spark: SparkSession, tmp_path: Path, write: Callable[[Any, str], None]
) -> None:
    shapes = []
    for name, session in (("out", recovering), ("plain", spark)):
        for _ in range(2):
            table = numbers(session, 0, 9).selectExpr("v", "k", "v AS w")
            write(table.write, str(tmp_path / name))
        shapes.append(
            sorted(
                (str(each.parent.relative_to(tmp_path / name)), each.name.split("-")[0], _end(each))
                for each in (tmp_path / name).rglob("*")
                if each.is_file()
            )
        )
    assert shapes[0] == shapes[1]


def _end(path: Path) -> str:
    # What comes before is random, and may hold a "-c0" as well.
    found = re.search(r"[-.]c\d{3}(\..+)$", path.name)
    return found[1] if found else ""


def test_links_and_what_spark_has_cached_of_the_target(
    recovering: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    saved(recovering, "parquet", "append", tmp_path / "link", 0, 3)
    persisted = spark.read.parquet(str(tmp_path / "link")).persist()
    assert persisted.count() == 3
    saved(recovering, "parquet", "append", Path(f"file://{tmp_path}/link"), 3, 6)
    assert spark.read.parquet(str(tmp_path / "link")).count() == 6
    persisted.unpersist()
    assert (tmp_path / "link").is_symlink()
    assert rows_in(spark, "parquet", tmp_path / "real") == rows_of((0, 6))


def test_a_table_may_not_overwrite_what_it_reads(
    recovering: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    saved(recovering, "parquet", "error", path, 0, 3)
    table = recovering.read.parquet(str(path))
    with pytest.raises(AnalysisException):
        table.write.mode("overwrite").parquet(str(path))
    table.write.mode("append").partitionBy("k").parquet(str(path))
    assert rows_in(spark, "parquet", path) == rows_of((0, 3), (0, 3))


def test_a_write_that_fails_leaves_the_target_as_it_was(
    recovering: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    saved(recovering, "parquet", "error", path, 0, 3)
    table = numbers(recovering, 0, 9).selectExpr("assert_true(v < '5') as a", "v", "k")
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match="is not true"):
            table.write.mode(mode).parquet(str(path))
    assert rows_in(spark, "parquet", path) == rows_of((0, 3))
    assert_tidy(path)


def test_other_targets_are_written_as_before_and_said(
    recovering: Environment,
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").write_text("not a directory")
    caplog.set_level(logging.WARNING, "holdfast")
    numbers(recovering, 0, 3).write.mode("overwrite").parquet(str(tmp_path / "file"))
    assert "not a directory" in caplog.text
    assert spark.read.parquet(str(tmp_path / "file")).count() == 3
    caplog.clear()
    numbers(recovering, 0, 3).write.saveAsTable("recoverable_numbers", mode="overwrite")
    try:
        assert caplog.text.count("is not exactly-once") == 1
        assert spark.table("recoverable_numbers").count() == 3
    finally:
        spark.sql("DROP TABLE recoverable_numbers")
    numbers(recovering, 0, 3).write.mode("overwrite").format("noop").save()
    assert caplog.text.count("exactly-once") == 1


def test_sinks_of_streams_write_once(
    recovering: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    out = tmp_path / "lines"
    for _ in range(2):
        lines = recovering.from_collection(["a", "b", "c"])
        for target in (out.as_uri(), str(out)):
            lines.sink_to(FileSink(target, mode="append"))
        recovering.execute("twice")
    assert sorted(row[0] for row in spark.read.text(str(out)).collect()) == list("aaaabbbbcccc")
    assert_tidy(out)

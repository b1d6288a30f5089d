"""What a program writes is there exactly once, however often it is killed and started again."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment
from holdfast.api.table import Table
from holdfast.functions.sink import FileSink
from holdfast.ids import JobID
from holdfast.runtime.recovery.job_sink import JobSink, SinkStart, write_once
from holdfast.spark.recovery.passing_journal import PassingJournal
from holdfast.spark.streams.file_job_sink import job_sink_of
from tests.short_lived_jvm import environment_of_program

pytestmark = pytest.mark.usefixtures("interpreted")
FORMATS = ["parquet", "orc", "csv", "json", "text", "xml"]
OPTIONS: dict[str, dict[str, Any]] = {"csv": {"header": True}, "xml": {"rowTag": "row"}}


@dataclass
class DyingContext:
    """A table's environment whose program dies at a given point of a write, and is started again.

    Attributes:
        env: does everything else.
        dies: after "writing" or after "publishing"; None where it lives.
        sinks: what each write was known by.
    """

    env: Environment
    dies: str | None = None
    journal: PassingJournal = field(default_factory=PassingJournal)
    epoch: int = 0
    sinks: list[str] = field(default_factory=list)
    recovers_jobs: bool = True

    def write_action(
        self,
        table: Table,
        name: str,
        action: Callable[[DataFrame, str | None], object],
        sink: JobSink,
    ) -> None:
        self.epoch += 1
        start = SinkStart(JobID("ab" * 16), self.epoch, self.journal)
        self.sinks.append(sink.identity)
        path = sink.open(start)
        if path is not None:
            action(table.to_dataframe(), path)
            if self.dies == "writing":
                return
            sink.commit(lambda: None)
        if self.dies != "publishing":
            sink.forget(start)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)


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


def numbers(context: Any, first: int, last: int) -> Table:
    """Rows of which `k` tells partitions."""
    env = context.env if isinstance(context, DyingContext) else context
    plain = env.spark.range(first, last).selectExpr("cast(id as string) as v", "id % 3 as k")
    table = env.wrap(plain.repartition(2))
    table._holdfast_context = context
    return table


def saved(context: Any, source: str, mode: str, path: Path, *rows: int) -> None:
    """Writes a range of rows in a format, by the partitions that it can have."""
    writer = numbers(context, *rows).write.mode(mode).options(**OPTIONS.get(source, {}))
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
def test_every_format_in_every_mode(
    recovering: Environment, spark: SparkSession, tmp_path: Path, source: str
) -> None:
    path = tmp_path / "out put%20"
    saved(recovering, source, "error", path, 0, 9)
    assert rows_in(spark, source, path) == rows_of((0, 9))
    saved(recovering, source, "append", path, 9, 12)
    assert rows_in(spark, source, path) == rows_of((0, 12))
    saved(recovering, source, "ignore", path, 50, 60)
    assert rows_in(spark, source, path) == rows_of((0, 12))
    with pytest.raises(AnalysisException, match="already exists"):
        saved(recovering, source, "error", path, 50, 60)
    saved(recovering, source, "overwrite", path, 3, 6)
    assert rows_in(spark, source, path) == rows_of((3, 6))
    assert_tidy(path)


@pytest.mark.parametrize("dies", ["writing", "publishing"])
@pytest.mark.parametrize(
    "source",
    [
        "parquet",
        # A format tells a sink apart, and nothing of what the sink does to files.
        *(pytest.param(each, marks=pytest.mark.soak) for each in FORMATS if each != "parquet"),
    ],
)
def test_a_program_that_dies_in_every_mode(
    env: Environment, spark: SparkSession, tmp_path: Path, source: str, dies: str
) -> None:
    afters = {"append": rows_of((0, 3), (3, 9))}
    if source == "parquet":
        afters |= dict.fromkeys(("overwrite", "error", "ignore"), rows_of((3, 9)))
    for mode, after in afters.items():
        path = tmp_path / mode
        if mode in ("append", "overwrite"):
            saved(env, source, "error", path, 0, 3)
        context = DyingContext(env, dies)
        saved(context, source, mode, path, 3, 9)
        if dies == "publishing":
            assert rows_in(spark, source, path) == after
        saved(context, source, mode, path, 3, 9)
        context.dies = None
        saved(context, source, mode, path, 3, 9)
        assert rows_in(spark, source, path) == after
        assert_tidy(path)
        assert len(context.sinks) == 3
        assert len(set(context.sinks)) == 1


@pytest.mark.parametrize("dies", ["writing", "publishing", None])
def test_dynamic_partition_overwrite(
    env: Environment, spark: SparkSession, tmp_path: Path, dies: str | None
) -> None:
    path, plain = tmp_path / "out", tmp_path / "plain"
    for each in (path, plain):
        numbers(env, 0, 9).write.partitionBy("k").parquet(str(each))

    def overwrite(context: Any, target: Path) -> None:
        table = numbers(context, 30, 40).where("k < 2")
        writer = table.write.mode("overwrite").partitionBy("k")
        writer.option("partitionOverwriteMode", "dynamic").parquet(str(target))

    overwrite(env, plain)
    context = DyingContext(env, dies)
    overwrite(context, path)
    context.dies = None
    overwrite(context, path)
    assert rows_in(spark, "parquet", path) == rows_in(spark, "parquet", plain)
    assert_tidy(path)
    assert sorted(each.name for each in path.iterdir()) == sorted(
        each.name for each in plain.iterdir()
    )


@pytest.mark.parametrize(
    "write",
    [
        lambda writer, path: writer.parquet(path, mode="append", compression="gzip"),
        lambda writer, path: writer.mode("append").format("orc").option("path", path).save(),
        lambda writer, path: writer.csv(path, mode="append", sep=";", header=True),
        lambda writer, path: writer.save(path, format="json", mode="append", partitionBy=["k"]),
        lambda writer, path: writer.option("PATH", path).partitionBy("k", "v").save(mode="append"),
    ],
    ids=["parquet", "option", "csv", "save", "defaults"],
)
def test_a_write_leaves_the_files_that_spark_leaves(
    recovering: Environment, spark: SparkSession, tmp_path: Path, write: Callable[..., None]
) -> None:
    shapes = []
    for name, env in (("out", recovering), ("plain", None)):
        table = numbers(recovering, 0, 9).selectExpr("v", "k", "v AS w")
        target = table if env is not None else table.to_dataframe()
        for _ in range(2):
            write(target.write, str(tmp_path / name))
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


def test_relative_paths_and_links(
    recovering: Environment, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    saved(recovering, "parquet", "append", tmp_path / "link", 0, 3)
    saved(recovering, "parquet", "append", Path(f"file://{tmp_path}/link/../real"), 3, 6)
    assert (tmp_path / "link").is_symlink()
    assert rows_in(spark, "parquet", tmp_path / "real") == rows_of((0, 6))


def test_what_is_cached_of_the_target_is_read_anew(
    recovering: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    saved(recovering, "parquet", "error", path, 0, 3)
    persisted = spark.read.parquet(str(path)).persist()
    assert persisted.count() == 3
    saved(recovering, "parquet", "append", path, 3, 9)
    assert spark.read.parquet(str(path)).count() == 9
    persisted.unpersist()


def test_a_table_may_not_overwrite_what_it_reads(recovering: Environment, tmp_path: Path) -> None:
    saved(recovering, "parquet", "error", tmp_path / "out", 0, 3)
    table = recovering.read.parquet(str(tmp_path / "out"))
    with pytest.raises(AnalysisException):
        table.write.mode("overwrite").parquet(str(tmp_path / "out"))
    table.write.mode("append").partitionBy("k").parquet(str(tmp_path / "out"))
    assert recovering.read.parquet(str(tmp_path / "out")).count() == 6


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


def test_other_targets_are_written_as_before_and_told(
    recovering: Environment,
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").write_text("not a directory")
    with caplog.at_level(logging.WARNING, "holdfast"):
        numbers(recovering, 0, 3).write.mode("overwrite").parquet(str(tmp_path / "file"))
    assert "not a directory" in caplog.text
    assert spark.read.parquet(str(tmp_path / "file")).count() == 3
    caplog.clear()
    with caplog.at_level(logging.WARNING, "holdfast"):
        numbers(recovering, 0, 3).write.saveAsTable("recoverable_numbers", mode="overwrite")
    try:
        assert caplog.text.count("is not exactly-once") == 1
        assert spark.table("recoverable_numbers").count() == 3
    finally:
        spark.sql("DROP TABLE recoverable_numbers")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "holdfast"):
        numbers(recovering, 0, 3).write.mode("overwrite").format("noop").save()
    assert "not exactly-once" not in caplog.text


def test_the_same_write_again_is_another_write(
    recovering: Environment, spark: SparkSession, tmp_path: Path
) -> None:
    for _ in range(3):
        saved(recovering, "parquet", "append", tmp_path / "out", 0, 3)
    assert rows_in(spark, "parquet", tmp_path / "out") == rows_of((0, 3), (0, 3), (0, 3))


def test_sinks_of_streams_write_once(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out, journal = tmp_path / "lines", PassingJournal()
    sinks = [FileSink(out.as_uri(), mode="append"), FileSink(str(out), mode="append")]
    for epoch in (1, 2):
        start = SinkStart(JobID("cd" * 16), epoch, journal)
        for ordinal, each in enumerate(sinks):
            sink = job_sink_of(spark, each, "lines", ordinal)
            assert sink is not None
            lines = spark.range(3).selectExpr("cast(id as string) as value")
            write_once(sink, start, lambda: None, lines.write.mode("append").text)
    for ordinal, each in enumerate(sinks):
        job_sink_of(spark, each, "lines", ordinal).forget(start)
    assert sorted(row[0] for row in spark.read.text(str(out)).collect()) == list("001122")
    assert_tidy(out)
    (tmp_path / "file").write_text("")
    assert job_sink_of(spark, FileSink(str(tmp_path / "file")), "lines", 0) is None
    assert "not a directory" in caplog.text


# -- a program that is killed ---------------------------------------------------------------------

_PROGRAM = """
import json, os, signal, sys
from pyspark.sql import SparkSession
from holdfast import Environment

out, ha, kept, die = json.loads(sys.argv[1])

def hook(event, args):
    if event == "os.rename" and all(str(a).endswith(d) for a, d in zip(args, die[0])):
        del die[0]
        if not die:
            os.kill(os.getpid(), signal.SIGKILL)

if die:
    sys.addaudithook(hook)
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "1g").config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
config = {
    "execution.batch.job-recovery.enabled": True,
    "high-availability.storageDir": ha,
    "intermediate-result-storage.directory": kept,
}
with Environment(spark, config=config) as env:
    table = env.sql("SELECT cast(id AS string) AS v, id % 3 AS k FROM range(9)")
    table.write.mode("append").partitionBy("k").parquet(out)
    table.where("k = 0").write.mode("append").partitionBy("k").parquet(out)
spark.stop()
"""


@pytest.mark.slow
def test_a_program_that_is_killed_while_it_publishes(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "out"
    spark.range(20, 23).selectExpr("cast(id as string) as v", "id % 3 as k").write.partitionBy(
        "k"
    ).parquet(str(path))
    before, both = rows_of((20, 23)), rows_of((20, 23), (0, 9))
    twice = sorted(both + [row for row in rows_of((0, 9)) if row.endswith(" 0")])
    # Before it seals what it has written; before it exchanges; right after that; and not at all.
    seals, publishes, cleans = ("", ".sealed"), (".sealed", "out"), (".sealed", ".gone")
    fates = [([seals], before), ([publishes], before), ([publishes, cleans], both), ([], twice)]
    for die, expected in fates:
        arguments = [str(path), (tmp_path / "ha").as_uri(), str(tmp_path / "kept"), die]
        ended = subprocess.run(
            [sys.executable, "-c", _PROGRAM, json.dumps(arguments)],
            capture_output=True,
            text=True,
            timeout=200,
            env={
                **os.environ,
                **environment_of_program(),
                "PYSPARK_PYTHON": sys.executable,
            },
        )
        assert ended.returncode == (-signal.SIGKILL if die else 0), ended.stderr[-3000:]
        assert rows_in(spark, "parquet", path) == expected
    assert_tidy(path)

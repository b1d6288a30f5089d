"""`holdfast advise` over the event logs that real programs leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast.cli.main import main

# Each line of its input has it run once more, as an application of its own.
PROGRAM = """
import json, os, signal, sys
from pyspark import SparkContext
from pyspark.sql import SparkSession, functions as F

# What Java is started with holds for all of its applications.
SparkContext._ensure_initialized()
for line in sys.stdin:
    data, logs, keys, *settings = json.loads(line)
    builder = SparkSession.builder.master("local[2]").appName("the report")
    for key, value in {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        **dict(each.split("=") for each in settings if "=" in each),
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    sales = spark.read.parquet(data)
    totals = sales.groupBy("customer").agg(F.sum("price").alias("total"), F.count("*").alias("n"))
    joined = sales.join(totals, "customer")
    for least in (10, 20, 30):
        joined.where(F.col("total") > 0).groupBy("n").agg(F.max("price") + least).collect()
    sales.groupBy(*map(F.expr, keys)).count().collect()
    try:
        sales.select(F.raise_error(F.lit("wrong"))).collect()
    except Exception:
        pass
    if "killed" in settings:
        os.kill(os.getpid(), signal.SIGKILL)
    spark.stop()
    print("ended", flush=True)
"""


@pytest.fixture(scope="module")
def sales(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "sales"
    spark.range(0, 60_000, 1, 4).select(
        (F.col("id") % 6_000).alias("customer"),
        (F.hash("id") % 1000).cast("long").alias("price"),
    ).write.parquet(str(path))
    return path


class Reports:
    """Runs the program in a process that begins when it is needed."""

    def __init__(self, errors: Path) -> None:
        self._errors = errors
        self._process: subprocess.Popen[str] | None = None

    def run(
        self, data: Path, logs: Path, *settings: str, keys: Sequence[str] = ("price % 7 AS p",)
    ) -> None:
        logs.mkdir(exist_ok=True)
        if self._process is None:
            with self._errors.open("a") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", PROGRAM],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        print(json.dumps([str(data), str(logs), keys, *settings]), file=process.stdin, flush=True)
        if "killed" in settings:
            self._process = None
            process.communicate(timeout=200)
            assert process.returncode == -signal.SIGKILL, self._errors.read_text()
        else:
            assert process.stdout.readline() == "ended\n", self._errors.read_text()

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reports]:
    running = Reports(tmp_path_factory.mktemp("reports") / "errors")
    yield running
    running.close()


def advised(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["advise", "--json", "--min-saved", "0", *map(str, arguments)]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


SETTINGS = {
    "defaults": [],
    "one plain file": ["spark.eventLog.compress=false", "spark.eventLog.rolling.enabled=false"],
    "one file": ["spark.eventLog.rolling.enabled=false"],
    "not adaptive": ["spark.sql.adaptive.enabled=false"],
    "killed": ["killed"],
}


@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.sampled(5)
def test_what_a_program_computes_several_times_is_proposed(
    reports: Reports,
    sales: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    how: str,
) -> None:
    reports.run(sales, tmp_path / "logs", *SETTINGS[how])
    found = advised(capsys, tmp_path / "logs")
    assert (found["queries"], found["applications"], found["unreadable_lines"]) == (4, 1, 0)
    assert found["operators_cut_short"] == 0
    assert 0 < found["saved_seconds"] < found["task_seconds"]
    best = found["proposals"][0]
    assert best["what"].startswith("Aggregate(keys=[n], functions=[max(price)]), ")
    assert "Join" in best["what"] and best["what"].endswith(" over sales")
    assert best["reads"] == 2
    assert best["bytes"] > 0
    assert [query["program"] for query in best["queries"]] == ["the report"] * 3
    assert all(query["what"].startswith("collect at ") for query in best["queries"])
    # What is below it would not have been read again.
    assert sum(each["reads"] for each in found["proposals"]) == 2
    assert best["saved_seconds"] == pytest.approx(found["saved_seconds"])


def test_programs_that_share_are_told(
    reports: Reports, sales: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "logs"
    for _ in range(2):
        reports.run(sales, logs)
    found = advised(capsys, logs)
    assert (found["queries"], found["applications"]) == (8, 2)
    # The whole of each query by now, which the second program reads.
    assert {each["reads"] for each in found["proposals"]} <= {1, 2, 3, 4, 5}
    counted = [each for each in found["proposals"] if "Join" not in each["what"]]
    assert [each["reads"] for each in counted] == [1]
    [log, _] = sorted(logs.iterdir())
    assert advised(capsys, log)["applications"] == 1
    capsys.readouterr()
    assert main(["advise", str(logs), "--min-saved", "0"]) == 0
    header, *rows, total, note = capsys.readouterr().out.splitlines()
    assert header.split() == ["SAVES", "READS", "COMPUTE", "SIZE", "CACHE", "ASKED", "FOR", "BY"]
    assert len(rows) == len(found["proposals"])
    assert "in 8 queries of 2 applications" in total
    assert note.startswith("SAVES and COMPUTE are task time")


def test_wide_plans_are_not_taken_for_each_other(
    reports: Reports, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    wide = tmp_path / "wide"
    columns = [(F.col("id") % number).alias(f"c{number}") for number in range(1, 41)]
    spark.range(1000).select("id", *columns).withColumn("customer", F.col("id")).withColumn(
        "price", F.col("c7")
    ).write.parquet(str(wide))
    for settings in ([], ["spark.sql.debug.maxToStringFields=10000"]):
        logs = tmp_path / f"logs-{len(settings)}"
        reports.run(wide, logs, *settings, keys=[f"c{number}" for number in range(1, 41)])
        cut_short = advised(capsys, logs)["operators_cut_short"]
        assert (cut_short > 0) == (not settings)
    capsys.readouterr()
    assert main(["advise", str(tmp_path / "logs-0")]) == 0
    assert "set spark.sql.debug.maxToStringFields to 10000" in capsys.readouterr().out


def test_nothing_to_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "There are no completed SQL queries in these event logs.\n"
    assert main(["advise", str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"holdfast advise: event log {tmp_path}/nowhere: no such file or directory\n"
    (tmp_path / "local-1.lz4").touch()
    # Others there are read all the same.
    assert main(["advise", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out == "There are no completed SQL queries in these event logs.\n"
    assert "local-1.lz4: is compressed with lz4; expected zstd" in said.err
    for wrong in (["--budget", "much"], ["--min-saved", "-1"], ["--limit", "0"]):
        with pytest.raises(SystemExit) as raised:
            main(["advise", str(tmp_path), *wrong])
        assert raised.value.code == 2
        assert "expected a " in capsys.readouterr().err


def test_a_reader_that_stops_reading(tmp_path: Path) -> None:
    (tmp_path / "local-1").touch()
    read_end, write_end = os.pipe()
    os.close(read_end)
    ended = subprocess.run(
        [sys.executable, "-m", "holdfast", "advise", str(tmp_path)],
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(write_end)
    assert (ended.returncode, ended.stderr) == (1, b"")

"""`python -m benchmarks.recovery.killed_program`: one start of a job, which may kill itself."""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

from pyspark.sql import Row, SparkSession

from benchmarks import tpch
from benchmarks.recovery import by_hand
from benchmarks.recovery.session import Where, recovering

_SECONDS_BETWEEN_LOOKS = 0.05
_LITTLE_RUNS = 6


def main() -> None:
    """Runs a query once, and prints what it took as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("query", choices=tpch.QUERIES)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--little", type=Path, required=True, help="the same tables, a few rows")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--way", choices=("plain", "recovery", "checkpoint"), required=True)
    parser.add_argument("--where", type=Where.parse, default=Where(), help="as JSON")
    parser.add_argument("--die-after", type=float, help="seconds of task time")
    arguments = parser.parse_args()
    home = arguments.home.resolve()
    spark = arguments.where.session(home / f"spark-{os.getpid()}")
    text = tpch.QUERIES[arguments.query]
    # Code is compiled and files are in memory then, as in a job that takes hours: the query has run
    # before, on plain Spark and in its own way, with nothing left of it. What plans a query takes
    # several runs until the JVM has compiled it, whatever there is to be read.
    for data, runs in ((arguments.little, _LITTLE_RUNS), (arguments.data, 1)):
        tpch.register(spark, data)
        for _ in range(runs):
            _run(spark, "plain", text, home, arguments.where)
            with tempfile.TemporaryDirectory(dir=home, prefix="warm-up-") as elsewhere:
                _run(spark, arguments.way, text, Path(elsewhere), arguments.where)
    # What Spark's listeners haven't been told yet would count as done by the job.
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    before = task_seconds(spark)
    if arguments.die_after is not None:
        threading.Thread(target=die_after, args=(spark, arguments.die_after), daemon=True).start()
    seconds, rows, vertices = _run(spark, arguments.way, text, home, arguments.where)
    told = {
        "seconds": seconds,
        "task_seconds": task_seconds(spark) - before,
        "rows": sorted(map(repr, rows)),
        "vertices": vertices,
    }
    print(json.dumps(told), flush=True)
    spark.stop()


def _run(
    spark: SparkSession, way: str, text: str, home: Path, where: Where
) -> tuple[float, list[Row], list[str]]:
    """How long a query takes, its rows, and what became of its job's vertices."""
    started = time.perf_counter()
    if way == "recovery":
        with recovering(spark, home, where.options) as env:
            rows = env.sql(text).collect()
            seconds = time.perf_counter() - started
            result = env.last_job_result
        assert result is not None
        return seconds, rows, [vertex.outcome.value for vertex in result.vertices]
    if way == "checkpoint":
        spark.sparkContext.setCheckpointDir(str(home / "checkpoints"))
        rows = by_hand.checkpointed(spark, text).collect()
    else:
        rows = spark.sql(text).collect()
    return time.perf_counter() - started, rows, []


def task_seconds(spark: SparkSession) -> float:
    """The run time of all tasks so far, as far as Spark knows of it."""
    context = spark.sparkContext
    no_quantiles = context._gateway.new_array(context._jvm.double, 0)  # type: ignore[union-attr]
    store = context._jsc.sc().statusStore()
    stages = store.stageList(None, False, False, no_quantiles, None)
    milliseconds: int = sum(stages.apply(i).executorRunTime() for i in range(stages.size()))
    return milliseconds / 1000


class TaskTime:
    """How long the tasks have run since this was made, for who asks often.

    To list all stages takes 30 ms of a core: tasks took a third longer beside who asks for that
    every 20 ms, and less of the job was done when they had taken their time. Here only stages that
    run are asked about; of one that begins and ends between two looks nothing is known.

    Args:
        spark: the session whose tasks they are.
    """

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext._jsc.sc()
        self._tracker, self._store = context.statusTracker(), context.statusStore()
        self._running: set[int] = set()
        self._ended = 0

    def seconds(self) -> float:
        """Of tasks that have ended."""
        now = set(self._tracker.getActiveStageIds())
        self._ended += sum(map(self._milliseconds, self._running - now))
        self._running = now
        return (self._ended + sum(map(self._milliseconds, now))) / 1000

    def _milliseconds(self, stage: int) -> int:
        found: int = self._store.lastStageAttempt(stage).executorRunTime()
        return found


def die_after(spark: SparkSession, seconds: float) -> None:
    """Kills this process and its JVM when the tasks have run for so long from now on."""
    tasks = TaskTime(spark)
    while tasks.seconds() < seconds:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()

"""Nothing waits for itself: not actions for finalizers, nor Spark's queries for answers.

Run as a program, this file plays every action from two threads while garbage is collected all the
time, and finalizers and a signal handler release what is cached. It ends itself where it stands
still.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import io
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import StorageLevel
from pyspark.ml.feature import StandardScaler, VectorAssembler
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast.spark.query_rule import QueryRule
from tests.short_lived_jvm import NO_CODEGEN, local_session

# A program that stands still is to be seen as such also where the machine is busy.
_LIMIT_SECONDS = 300
_ROWS = 12


def test_nothing_stands_still(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, __file__, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=_LIMIT_SECONDS + 30,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-20_000:]
    answers = json.loads((tmp_path / "answers.json").read_text())
    expected = {name: _expected(name) for name in [*_ACTIONS, *_ALONE]}
    assert answers == [expected, {name: expected[name] for name in _ACTIONS}]


@pytest.fixture
def asked(spark: SparkSession) -> Iterator[Callable[[Callable[[Any], Any], float], QueryRule]]:
    rules = []

    def start(answer: Callable[[Any], Any], patience_seconds: float) -> QueryRule:
        rules.append(QueryRule(spark, lambda plan, _: answer(plan), patience_seconds))
        return rules[-1]

    yield start
    for rule in rules:
        rule.remove()


def _interrupted_once(spark: SparkSession) -> None:
    """Afterwards this thread speaks with the JVM over another connection."""
    main = threading.main_thread().ident
    assert main is not None
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            spark.sparkContext._jvm.java.lang.Thread.sleep(60_000)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    # Py4J has the JVM end the interrupted connection by the port of its own, which all have: the
    # one that is being made meanwhile is ended as well.
    with contextlib.suppress(Py4JNetworkError):
        spark.sparkContext._jvm.java.lang.System.nanoTime()


@pytest.mark.parametrize("where", ["this thread", "another thread", "after an interrupt"])
def test_a_query_does_not_wait_for_ever_for_what_is_to_run_instead(
    spark: SparkSession, asked: Callable[[Callable[[Any], Any], float], QueryRule], where: str
) -> None:
    three = spark.range(3)._jdf.queryExecution().analyzed()
    held, asked_for, answered = threading.Event(), [], threading.Event()

    def answer(plan: Any) -> Any:
        asked_for.append(plan)
        if len(asked_for) == 1:
            # Not for ever, so that a failure of this test leaves the others alone.
            held.wait(60)
            answered.set()
        return three

    def late() -> None:
        assert spark.range(1).count() == 1
        # As long as an answer is late, nothing else is asked.
        assert spark.range(2).collect() == [(0,), (1,)]
        assert len(asked_for) == 1

    if where == "after an interrupt":
        _interrupted_once(spark)
    asked(answer, 0.1)
    try:
        if where == "another thread":
            with ThreadPoolExecutor(1) as other:
                other.submit(late).result()
        else:
            late()
        assert not answered.is_set()
    finally:
        held.set()
    assert answered.wait(60)
    # The late answer is not the next one's.
    while len(asked_for) == 1:
        assert [row[0] for row in spark.range(2).collect()] in ([0, 1], [0, 1, 2])
    assert spark.range(2).collect() == [(0,), (1,), (2,)]


def test_what_takes_its_time_in_spark_is_waited_for(
    spark: SparkSession, asked: Callable[[Callable[[Any], Any], float], QueryRule]
) -> None:
    jvm = spark.sparkContext._jvm
    three = spark.range(3)._jdf.queryExecution().analyzed()

    def answer(plan: Any) -> Any:
        jvm.java.lang.Thread.sleep(1500)
        return three

    asked(answer, 0.1)
    assert spark.range(2).collect() == [(0,), (1,), (2,)]


# -- the program ----------------------------------------------------------------------------------


class Ended:
    """A session that is attached, and an environment, that a finalizer ends."""

    def __init__(self, spark: SparkSession, kept: Path) -> None:
        config = {"intermediate-result-storage.directory": str(kept)}
        self.attached = holdfast.attach(spark.newSession(), config)
        self.attached.range(_ROWS).cache().count()
        self.env = holdfast.Environment(spark.newSession(), config=config)
        self.env.from_dataframe(self.env.spark.range(_ROWS)).cache().count()
        self.cycle = self

    def __del__(self) -> None:
        self.env.close()
        holdfast.detach(self.attached)


class Dropped:
    """What only the garbage collector finds, and a finalizer releases."""

    def __init__(self, df: DataFrame) -> None:
        self.df = df.cache()
        self.rows = df.toLocalIterator()
        self.cycle = self

    def read(self) -> None:
        next(self.rows)

    def __del__(self) -> None:
        self.df.unpersist()


def _salted(spark: SparkSession) -> DataFrame:
    """What matches only itself, each time another computation."""
    return spark.range(_ROWS).select("id", (F.col("id") + F.floor(F.rand())).alias("x"))


def _explained(df: DataFrame) -> str:
    df.explain()
    return "explained"


def _written(df: DataFrame, path: str) -> int:
    df.write.parquet(path)
    return df.sparkSession.read.parquet(path).count()


def _as_table(df: DataFrame, path: str) -> int:
    spark, name = df.sparkSession, f"t{Path(path).name}"
    df.createOrReplaceTempView(f"view_{name}")
    spark.sql(f"CREATE TABLE {name} USING parquet AS SELECT * FROM view_{name}")
    spark.sql(f"INSERT INTO {name} SELECT * FROM view_{name}")
    spark.sql(f"CACHE TABLE view_{name}")
    spark.sql(f"UNCACHE TABLE view_{name}")
    return spark.table(name).count()


def _held_open(df: DataFrame) -> int:
    rows = df.toLocalIterator()
    next(rows)
    return df.count() if next(rows) else 0


def _streamed(df: DataFrame) -> int:
    stream = df.to_data_stream().map(lambda row: row.x).cache()
    with stream.execute_and_collect() as records:
        next(records)
    # Garbage now, whose job still runs.
    next(stream.execute_and_collect())
    total = sum(stream.execute_and_collect())
    stream.invalidate()
    return total


def _executed(df: DataFrame) -> str:
    df.to_data_stream().map(lambda row: row.x).print()
    df.sparkSession.holdfast.execute()
    return "executed"


def _fitted(df: DataFrame) -> int:
    vectors = VectorAssembler(inputCols=["x"], outputCol="v").transform(df)
    return round(StandardScaler(inputCol="v", withMean=True).fit(vectors).mean[0] * _ROWS)


def _in_batches(df: DataFrame, path: str) -> int:
    spark, counts = df.sparkSession, []
    spark.range(_ROWS).write.parquet(path)

    def each(batch: DataFrame, number: int) -> None:
        counts.append(batch.join(df, "id").count())

    stream = spark.readStream.schema("id LONG").parquet(path).writeStream.foreachBatch(each)
    stream = stream.option("checkpointLocation", f"{path}_progress").trigger(availableNow=True)
    query = stream.start()
    query.awaitTermination()
    return sum(counts)


_ALL = list(range(_ROWS))
_SUM = sum(_ALL)
_ACTIONS: dict[str, Callable[[DataFrame, str], Any]] = {
    "toLocalIterator": lambda df, _: sum(row.x for row in df.toLocalIterator()),
    "half of toLocalIterator": lambda df, _: next(df.toLocalIterator()).x,
    "iterator held open": lambda df, _: _held_open(df),
    "collect": lambda df, _: sum(row.x for row in df.collect()),
    "count": lambda df, _: df.count(),
    "show": lambda df, _: df.show(),
    "toPandas": lambda df, _: int(df.toPandas()["x"].sum()),
    "toArrow": lambda df, _: df.toArrow().num_rows,
    "foreach": lambda df, _: df.foreach(lambda row: None),
    "take": lambda df, _: len(df.take(3)),
    "first": lambda df, _: df.first().x,
    "tail": lambda df, _: len(df.tail(3)),
    "write": _written,
    "SQL": _as_table,
    "explain": lambda df, _: _explained(df),
    "rdd": lambda df, _: df.rdd.count(),
    "unpersist": lambda df, _: df.unpersist().persist().is_cached,
    "stored by Spark": lambda df, _: df.persist(StorageLevel.MEMORY_ONLY).count(),
    "aggregate": lambda df, _: df.groupBy().sum("x").first()[0],
    "MLlib": lambda df, _: _fitted(df),
    "foreachBatch": _in_batches,
}
# A program has one list of sinks, and an environment one stream program.
_ALONE: dict[str, Callable[[DataFrame, str], Any]] = {
    "stream": lambda df, _: _streamed(df),
    "execute": lambda df, _: _executed(df),
}
_EXPECTED = {
    "toLocalIterator": _SUM,
    "half of toLocalIterator": 0,
    "collect": _SUM,
    "show": None,
    "toPandas": _SUM,
    "foreach": None,
    "take": 3,
    "first": 0,
    "tail": 3,
    "SQL": 2 * _ROWS,
    "explain": "explained",
    "unpersist": True,
    "aggregate": _SUM,
    "MLlib": _SUM,
    "stream": _SUM,
    "execute": "executed",
}


def _expected(name: str) -> Any:
    return _EXPECTED.get(name, _ROWS)


def _play(
    spark: SparkSession,
    plain: SparkSession,
    home: Path,
    number: int,
    answers: list[dict[str, Any]],
) -> None:
    base = spark.range(50).selectExpr("id", *[f"id + {i} AS c{i}" for i in range(10)])
    actions = _ACTIONS | (_ALONE if number == 0 else {})
    for place, (name, action) in enumerate(actions.items()):
        garbage = Dropped(base.where(f"id > {2 * place + number}"))
        garbage.read()
        del garbage
        if place % 8 == number:
            Ended(plain, home / "ended")
        answers[number][name] = action(_salted(spark).cache(), str(home / f"{place}_{number}"))


def main(home: Path) -> None:
    faulthandler.dump_traceback_later(_LIMIT_SECONDS, exit=True)
    warnings.simplefilter("ignore")
    builder = local_session("standing still", home)
    for key, value in NO_CODEGEN.items():
        builder = builder.config(key, value)
    plain = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark = holdfast.attach(
        plain.newSession(),
        {
            "intermediate-result-storage.directory": str(home / "kept"),
            "implicit-cache.enabled": "true",
        },
    )
    # As MLlib and libraries in Scala have Spark cache something.
    spark.newSession().range(5)._jdf.persist()
    answers: list[dict[str, Any]] = [{}, {}]
    other = threading.Thread(target=_play, args=(spark, plain, home, 1, answers))
    cached = [spark.range(number).cache() for number in range(30)]
    signal.signal(signal.SIGALRM, lambda *_: cached.pop().unpersist() if cached else None)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    gc.set_threshold(40, 2, 2)
    with contextlib.redirect_stdout(io.StringIO()):
        other.start()
        _play(spark, plain, home, 0, answers)
        other.join()
    gc.set_threshold(700, 10, 10)
    signal.setitimer(signal.ITIMER_REAL, 0)
    (home / "answers.json").write_text(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

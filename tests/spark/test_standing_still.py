"""Nothing waits for itself: actions don't wait for finalizers, nor for signal handlers.

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import StorageLevel
from pyspark.ml.feature import StandardScaler, VectorAssembler
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from tests.short_lived_jvm import local_session

# A program that stands still is to be seen as such also where the machine is busy.
_LIMIT_SECONDS = 300
_ROWS, _THREADS = 12, 2


@pytest.mark.parametrize("share", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_nothing_stands_still(tmp_path: Path, share: int) -> None:
    ran = subprocess.run(
        [sys.executable, __file__, str(tmp_path), str(share)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=_LIMIT_SECONDS + 30,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-20_000:]
    answers = json.loads((tmp_path / "answers.json").read_text())
    assert answers == [
        {name: _EXPECTED.get(name, _ROWS) for name in _actions(number, share)}
        for number in range(_THREADS)
    ]


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


def _actions(number: int, share: int) -> dict[str, Callable[[DataFrame, str], Any]]:
    """What a thread plays, where each action is played by so many of them."""
    shared = [
        (name, action)
        for place, (name, action) in enumerate(_ACTIONS.items())
        if (place - number) % _THREADS < share
    ]
    return dict(shared) | (_ALONE if number == 0 else {})


def _play(
    spark: SparkSession,
    plain: SparkSession,
    home: Path,
    number: int,
    share: int,
    answers: list[dict[str, Any]],
) -> None:
    base = spark.range(50).selectExpr("id", *[f"id + {i} AS c{i}" for i in range(10)])
    for place, (name, action) in enumerate(_actions(number, share).items()):
        garbage = Dropped(base.where(f"id > {2 * place + number}"))
        garbage.read()
        del garbage
        if place % 8 == number:
            Ended(plain, home / "ended")
        answers[number][name] = action(_salted(spark).cache(), str(home / f"{place}_{number}"))


def main(home: Path, share: int) -> None:
    faulthandler.dump_traceback_later(_LIMIT_SECONDS, exit=True)
    warnings.simplefilter("ignore")
    builder = local_session("standing still", home)
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
    other = threading.Thread(target=_play, args=(spark, plain, home, 1, share, answers))
    cached = [spark.range(number).cache() for number in range(30)]
    signal.signal(signal.SIGALRM, lambda *_: cached.pop().unpersist() if cached else None)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    gc.set_threshold(40, 2, 2)
    with contextlib.redirect_stdout(io.StringIO()):
        other.start()
        _play(spark, plain, home, 0, share, answers)
        other.join()
    gc.set_threshold(700, 10, 10)
    signal.setitimer(signal.ITIMER_REAL, 0)
    (home / "answers.json").write_text(json.dumps(answers))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

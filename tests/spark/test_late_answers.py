"""A query of Spark's that waits for what is to run in its place doesn't wait for ever."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

# How long it waits is no setting: a minute, or ten times that.
from holdfast.spark.query_rule import QueryRule


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

"""Interrupts: the job that runs is cancelled, nothing half-made stays, the next action works."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import Environment, Table, VertexOutcome
from holdfast.api.table_session import plain_session
from holdfast.spark.java_classes import new_object, object_of

PATIENCE = 100.0
READ, PRODUCED, RUN = VertexOutcome.READ, VertexOutcome.PRODUCED, VertexOutcome.RUN


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


def interrupt() -> None:
    """As Ctrl-C does, also where the thread waits inside of a system call."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


@dataclass(frozen=True)
class World:
    """An environment, and rows that nobody gets before a gate is opened."""

    spark: SparkSession
    env: Environment
    home: Path

    def held(self) -> Table:
        gate, begun = str(self.home / "gate"), str(self.home / "begun")

        @F.udf("long")
        def held(value: int) -> int:
            with open(begun, "a"):
                pass
            deadline = time.monotonic() + PATIENCE
            while not os.path.exists(gate):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            return value

        rows = self.spark.range(0, 8, 1, 2).select(held("id").alias("x"))
        return self.env.from_dataframe(rows)

    def open(self) -> None:
        (self.home / "gate").touch()

    def is_running(self) -> bool:
        return (self.home / "begun").exists()

    def running_tasks(self) -> int:
        context: Any = self.spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
        return int(context.taskScheduler().runningTasksByExecutors().apply("driver"))

    def staged(self) -> list[Path]:
        return list(self.home.glob("kept/application-*/staging/*"))

    @contextmanager
    def while_running(self, step: Callable[[], object]) -> Iterator[None]:
        """Takes a step in another thread when the job inside has begun to compute."""

        def take() -> None:
            until(self.is_running, "a task runs")
            step()

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield
        finally:
            thread.join(PATIENCE)

    def outcomes(self) -> list[VertexOutcome]:
        assert self.env.last_job_result is not None
        return [vertex.outcome for vertex in self.env.last_job_result.vertices]

    def assert_nothing_goes_on(self) -> None:
        assert list(self.spark.sparkContext.statusTracker().getActiveJobsIds()) == []
        assert self.running_tasks() == 0
        assert self.staged() == []


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    # In a notebook each cell has this one, whatever Spark has set.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    config = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    with Environment(spark, config) as env:
        yield World(spark, env, tmp_path)
        (tmp_path / "gate").touch()
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


ACTIONS: dict[str, Callable[[World, Table], object]] = {
    "collect": lambda world, table: table.collect(),
    "count": lambda world, table: table.distinct().count(),
    "toPandas": lambda world, table: table.toPandas(),
    "toLocalIterator": lambda world, table: list(table.toLocalIterator()),
    "write": lambda world, table: table.write.parquet(str(world.home / "out")),
    "production": lambda world, table: table.cache().collect(),
    "rdd": lambda world, table: table.cache().rdd,
    "stream": lambda world, table: list(table.to_data_stream().execute_and_collect()),
    "cached stream": lambda world, table: list(
        table.to_data_stream().map(str).cache().execute_and_collect()
    ),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.sampled(3)
def test_an_interrupt_ends_the_job_and_the_next_action_works(
    world: World, action: str, capfd: pytest.CaptureFixture[str]
) -> None:
    act, table = ACTIONS[action], world.held()
    with world.while_running(interrupt):
        with pytest.raises(KeyboardInterrupt) as raised:
            act(world, table)
    assert len(traceback.extract_tb(raised.value.__traceback__)) <= 7
    assert raised.value.__suppress_context__
    assert "Traceback" not in capfd.readouterr().err
    world.assert_nothing_goes_on()
    # With the gate closed, what went on would hold the cores.
    assert world.env.from_dataframe(world.spark.range(5)).count() == 5
    world.open()
    act(world, table)


def test_what_was_interrupted_is_kept_by_the_next_job(world: World) -> None:
    hot = world.held().cache()
    with world.while_running(interrupt), pytest.raises(KeyboardInterrupt):
        hot.count()
    assert [each.dataset_id for each in world.env.list_cached()] == [None]
    world.open()
    assert hot.count() == 8
    assert world.outcomes() == [PRODUCED, RUN]
    assert hot.count() == 8
    assert world.outcomes() == [READ, RUN]


def test_a_second_interrupt_is_obeyed_at_once(world: World) -> None:
    begun = str(world.home / "begun")
    # No task of this looks whether it was killed, for longer than anybody waits.
    slow = "aggregate(sequence(0, 20000000), 0L, (sum, each) -> sum + length(hex(each)))"
    marked = F.udf(lambda x: open(begun, "a").close() or x, "long")
    rows = world.spark.range(0, 2, 1, 2).select(marked("id").alias("x"))
    table = world.env.from_dataframe(rows.selectExpr(f"x + {slow} AS y").selectExpr("sum(y)"))

    def twice() -> None:
        time.sleep(0.5)
        interrupt()
        time.sleep(0.5)
        interrupt()

    with world.while_running(twice), pytest.raises(KeyboardInterrupt):
        table.collect()
    assert world.env.from_dataframe(world.spark.range(5)).collect()


@pytest.mark.parametrize("kept", [False, True], ids=["plain", "production"])
@pytest.mark.parametrize("how", ["interruptAll", "cancelAllJobs", "cancelJobGroup", "tag"])
@pytest.mark.sampled(3)
def test_a_job_that_is_cancelled_ends_with_sparks_error(world: World, how: str, kept: bool) -> None:
    context = world.spark.sparkContext
    steps: dict[str, Callable[[], object]] = {
        "interruptAll": world.spark.interruptAll,
        "cancelAllJobs": context.cancelAllJobs,
        "cancelJobGroup": lambda: context.cancelJobGroup("a group"),
        "tag": lambda: context.cancelJobsWithTag("a-tag"),
    }
    table = world.held()
    if kept:
        table = table.cache()
    context.setJobGroup("a group", "of this test")
    context.addJobTag("a-tag")
    try:
        with world.while_running(steps[how]), pytest.raises(Exception, match="SPARK_JOB_CANCELLED"):
            table.collect()
    finally:
        context.removeJobTag("a-tag")
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert world.staged() == []
    world.open()
    assert len(table.collect()) == 8
    assert world.outcomes() == ([PRODUCED, RUN] if kept else [RUN])


def test_another_thread_s_job_goes_on(world: World) -> None:
    other: list[int] = []
    gate = world.home / "other"
    waits = F.udf(
        lambda x: [time.sleep(0.05) for _ in iter(lambda: os.path.exists(gate), True)] and x
    )
    rows = world.env.from_dataframe(world.spark.range(0, 1, 1, 1).select(waits("id")))
    thread = threading.Thread(target=lambda: other.append(rows.count() or len(rows.collect())))
    thread.start()
    with world.while_running(interrupt), pytest.raises(KeyboardInterrupt):
        world.held().collect()
    gate.touch()
    thread.join(PATIENCE)
    assert other == [1]


def test_an_iterator_that_is_interrupted_half_way(world: World) -> None:
    gate = str(world.home / "gate")

    @F.udf("long")
    def held(value: int) -> int:
        while value >= 4 and not os.path.exists(gate):
            open(gate.replace("gate", "begun"), "a").close()
            time.sleep(0.05)
        return value

    rows = world.spark.range(0, 8, 1, 2).select(held("id").alias("x"))
    table = world.env.from_dataframe(rows)
    taken = []
    with world.while_running(interrupt), pytest.raises(KeyboardInterrupt):
        for row in table.toLocalIterator():
            taken.append(row.x)
    assert taken == [0, 1, 2, 3]
    world.assert_nothing_goes_on()
    world.open()
    assert [row.x for row in table.toLocalIterator()] == [*range(8)]


@pytest.mark.parametrize("kept", [False, True], ids=["plain", "production"])
def test_a_command_in_sql_is_interrupted(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str], kept: bool
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    config = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    session = holdfast.attach(spark.newSession(), config)
    world = World(plain_session(session), session.holdfast, tmp_path)
    try:
        rows = world.held()
        if kept:
            rows = rows.cache()
        rows.createOrReplaceTempView("held")
        insert = f"INSERT OVERWRITE DIRECTORY '{tmp_path / 'out'}' USING parquet SELECT x FROM held"
        with world.while_running(interrupt), pytest.raises(KeyboardInterrupt):
            session.sql(insert)
        world.assert_nothing_goes_on()
        assert session.range(5).count() == 5
        world.open()
        session.sql(insert)
        written = spark.read.parquet(str(tmp_path / "out")).collect()
        assert sorted(row.x for row in written) == [*range(8)]
        assert world.outcomes()[0] is (PRODUCED if kept else RUN)
    finally:
        (tmp_path / "gate").touch()
        holdfast.detach(session)
        signal.signal(signal.SIGINT, before)


def test_only_what_an_interrupt_ends_is_left_out_of_the_log(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    log = new_object(spark, "InterruptedLog", "a reason")
    waits, other = jvm.java.lang.InterruptedException(), jvm.java.lang.RuntimeException("other")
    ours = jvm.java.lang.RuntimeException("job 3 cancelled: a reason")

    level = jvm.org.apache.logging.log4j.Level.ERROR

    def left_out(error: Any) -> bool:
        return str(log.filter(None, level, None, "said", error)) == "DENY"

    assert [left_out(each) for each in (waits, other, ours, None)] == [True, False, True, False]
    assert left_out(jvm.java.lang.RuntimeException("around it", waits))
    # Somebody else may interrupt threads, too: a stream that is stopped, say.
    gateway: Any = spark.sparkContext._gateway
    waits.setStackTrace(gateway.new_array(jvm.java.lang.StackTraceElement, 0))
    assert not left_out(waits)


def test_a_context_leaves_no_filter_of_the_log_behind(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm

    def filters() -> int:
        context = jvm.org.apache.logging.log4j.LogManager.getContext(False)
        there = context.getConfiguration().getFilter()
        several = there.getClass().getSimpleName() == "CompositeFilter"
        names = [
            str(each.getClass().getSimpleName())
            for each in (there.getFiltersArray() if several else [there])
        ]
        return names.count("InterruptedLog")

    source = (files("holdfast.spark") / "java" / "InterruptedLog.java").read_text(encoding="utf-8")
    # Each is another class, as each context's is.
    for reason in ("a reason", "another"):
        object_of(spark, "InterruptedLog", source, reason)
        assert filters() == 1

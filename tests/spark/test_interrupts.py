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
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import Environment, Table, VertexOutcome
from holdfast.testing import assert_reads, outcomes

PATIENCE = 100.0
PRODUCED, RUN = VertexOutcome.PRODUCED, VertexOutcome.RUN


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
    """An environment, and rows that come once a gate is open."""

    spark: SparkSession
    env: Environment
    home: Path

    def held(self, since: int = 0) -> Table:
        """Eight ids in two partitions; those from one on wait for the gate."""
        gate, begun = str(self.home / "gate"), str(self.home / "begun")

        @F.udf("long")
        def held(value: int) -> int:
            deadline = time.monotonic() + PATIENCE
            while value >= since and not os.path.exists(gate):
                open(begun, "a").close()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            return value

        rows = self.spark.range(0, 8, 1, 2).select(held("id").alias("x"))
        return self.env.from_dataframe(rows)

    def open(self) -> None:
        (self.home / "gate").touch()

    @contextmanager
    def while_running(self, step: Callable[[], object]) -> Iterator[None]:
        """Takes a step in another thread when the job inside has begun to compute."""

        def take() -> None:
            until((self.home / "begun").exists, "a task runs")
            step()

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield
        finally:
            thread.join(PATIENCE)

    @contextmanager
    def interrupted(self) -> Iterator[Any]:
        """The job inside is interrupted, and nothing of it goes on or stays."""
        with self.while_running(interrupt), pytest.raises(KeyboardInterrupt) as raised:
            yield raised
        self.assert_nothing_is_left()

    def running_tasks(self) -> int:
        context: Any = self.spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
        return int(context.taskScheduler().runningTasksByExecutors().apply("driver"))

    def assert_nothing_is_left(self) -> None:
        """No job goes on, and nothing half-made stays."""
        assert [*self.spark.sparkContext.statusTracker().getActiveJobsIds()] == []
        assert self.running_tasks() == 0
        assert not [*self.home.glob("kept/**/*.parquet")]
        # With the gate closed, what went on would hold the cores.
        assert self.env.from_dataframe(self.spark.range(5)).count() == 5


@pytest.fixture(autouse=True, scope="module")
def _workers_end_soon(spark: SparkSession) -> Iterator[None]:
    """A Python worker has no two seconds to end after its task was killed."""
    settings: Any = spark.sparkContext._jsc.sc().conf()  # type: ignore[attr-defined]
    settings.set("spark.python.task.killTimeout", "50ms")
    yield
    settings.remove("spark.python.task.killTimeout")


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
    "production": lambda world, table: table.cache().collect(),
    "collect": lambda world, table: table.collect(),
    "count": lambda world, table: table.distinct().count(),
    "toLocalIterator": lambda world, table: [*table.toLocalIterator()],
    "stream": lambda world, table: [*table.to_data_stream().execute_and_collect()],
    "toPandas": lambda world, table: table.toPandas(),
    "rdd": lambda world, table: table.cache().rdd,
    "cached stream": lambda world, table: [
        *table.to_data_stream().map(str).cache().execute_and_collect()
    ],
    "write": lambda world, table: table.write.parquet(str(world.home / "out")),
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.sampled(4)
def test_an_interrupt_ends_the_job_and_the_next_action_works(
    world: World, action: str, capfd: pytest.CaptureFixture[str]
) -> None:
    act, table = ACTIONS[action], world.held()
    with world.interrupted() as raised:
        act(world, table)
    assert len(traceback.extract_tb(raised.value.__traceback__)) <= 9
    assert raised.value.__suppress_context__
    assert "Traceback" not in capfd.readouterr().err
    world.open()
    act(world, table)
    if action == "production":
        assert outcomes(world.env) == [PRODUCED, RUN]
        assert_reads(table)


@pytest.mark.parametrize(
    ("step", "at"),
    [("rename", 2), ("unlink", 3)],
    ids=["when one is half in place", "when some are replaced"],
)
def test_an_interrupt_while_small_partitions_are_merged(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, at: int
) -> None:
    table = world.env.from_dataframe(world.spark.range(0, 100, 1, 20)).cache()
    take, taken = getattr(os, step), []

    def interrupted(path: Any, *others: Any, **more: Any) -> None:
        if "part-" in str(path):
            taken.append(path)
            if len(taken) == at:
                interrupt()
        take(path, *others, **more)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, step, interrupted)
        table.collect()
    world.assert_nothing_is_left()
    for outcome in (PRODUCED, VertexOutcome.READ):
        assert [row.id for row in table.collect()] == [*range(100)]
        assert outcomes(world.env)[0] is outcome


def test_a_second_interrupt_is_obeyed_at_once(world: World) -> None:
    begun = str(world.home / "begun")
    # No task of this looks whether it was killed, for longer than anybody waits.
    slow = "aggregate(sequence(0, 20000000), 0L, (sum, each) -> sum + length(hex(each)))"
    marked = F.udf(lambda x: open(begun, "a").close() or x, "long")
    rows = world.spark.range(0, 2, 1, 2).select(marked("id").alias("x"))
    table = world.env.from_dataframe(rows.selectExpr(f"x + {slow} AS y").selectExpr("sum(y)"))

    def twice() -> None:
        for _ in range(2):
            time.sleep(0.5)
            interrupt()

    with world.while_running(twice), pytest.raises(KeyboardInterrupt):
        table.collect()
    assert world.env.from_dataframe(world.spark.range(5)).collect()
    # When what was given up ends in the JVM, Py4J closes this thread's new connection as well. The
    # next one has another thread there, without the tags and groups of jobs that a test has set.
    until(lambda: world.running_tasks() == 0, "its tasks end")
    time.sleep(0.5)


@pytest.mark.parametrize("kept", [True, False], ids=["production", "plain"])
@pytest.mark.parametrize("how", ["interruptAll", "cancelJobGroup", "cancelAllJobs", "tag"])
@pytest.mark.sampled(5)
def test_a_job_that_is_cancelled_ends_with_spark_s_error(
    world: World, how: str, kept: bool
) -> None:
    context = world.spark.sparkContext
    steps: dict[str, Callable[[], object]] = {
        "interruptAll": world.spark.interruptAll,
        "cancelAllJobs": context.cancelAllJobs,
        "cancelJobGroup": lambda: context.cancelJobGroup("a group"),
        "tag": lambda: context.cancelJobsWithTag("a-tag"),
    }
    table = world.held().cache() if kept else world.held()
    context.setJobGroup("a group", "of this test")
    context.addJobTag("a-tag")
    try:
        with world.while_running(steps[how]), pytest.raises(Exception, match="SPARK_JOB_CANCELLED"):
            table.collect()
    finally:
        context.removeJobTag("a-tag")
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert not [*world.home.glob("kept/**/*.parquet")]
    world.open()
    assert len(table.collect()) == 8
    assert outcomes(world.env) == ([PRODUCED, RUN] if kept else [RUN])


def test_another_thread_s_job_goes_on(world: World) -> None:
    other: list[int] = []
    gate = world.home / "other"
    waits = F.udf(
        lambda x: [time.sleep(0.05) for _ in iter(lambda: os.path.exists(gate), True)] and x
    )
    rows = world.env.from_dataframe(world.spark.range(0, 1, 1, 1).select(waits("id")))
    thread = threading.Thread(target=lambda: other.append(len(rows.collect())))
    thread.start()
    with world.while_running(interrupt), pytest.raises(KeyboardInterrupt):
        world.held().collect()
    gate.touch()
    thread.join(PATIENCE)
    assert other == [1]


def test_an_iterator_that_is_interrupted_half_way(world: World) -> None:
    table = world.held(since=4)
    taken = []
    with world.interrupted():
        for row in table.toLocalIterator():
            taken.append(row.x)
    assert taken == [0, 1, 2, 3]
    world.open()
    assert [row.x for row in table.toLocalIterator()] == [*range(8)]


@pytest.mark.parametrize("kept", [True, False], ids=["production", "plain"])
@pytest.mark.sampled(2)
def test_a_command_in_sql_is_interrupted(spark: SparkSession, tmp_path: Path, kept: bool) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    config = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    session = holdfast.attach(spark.newSession(), config)
    world = World(session, session.holdfast, tmp_path)
    try:
        (world.held().cache() if kept else world.held()).createOrReplaceTempView("held")
        insert = f"INSERT OVERWRITE DIRECTORY '{tmp_path / 'out'}' USING parquet SELECT x FROM held"
        with world.interrupted():
            session.sql(insert)
        world.open()
        session.sql(insert)
        written = spark.read.parquet(str(tmp_path / "out")).collect()
        assert sorted(row.x for row in written) == [*range(8)]
        assert outcomes(session)[0] is (PRODUCED if kept else RUN)
    finally:
        (tmp_path / "gate").touch()
        holdfast.detach(session)
        signal.signal(signal.SIGINT, before)

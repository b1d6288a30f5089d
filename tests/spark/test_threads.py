"""What holds when several threads and environments keep results at the same time.

Jobs are held where a story needs them: a Python function in the query notes each row that it
computes in a file, and goes on when the test opens its gate.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, Table, VertexOutcome
from holdfast.testing import outcomes

PATIENCE = 100.0
ROWS = 8
EXPECTED = [(i, i + 100) for i in range(ROWS)]
PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
READ = [VertexOutcome.READ, VertexOutcome.RUN]
RUN = [VertexOutcome.RUN]


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits for something that is bound to happen."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Traces:
    """Functions that leave a line for each row they compute, behind gates that tests open."""

    directory: Path

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """Ids from 0 to 7, and what the traced function of this name makes of them."""
        return spark.range(0, ROWS, 1, 1).select("id", self.step(name)("id").alias("v"))

    def step(self, name: str, *, fails_for: int = -1) -> Callable[[str], Column]:
        """A function that adds 100, as soon as its gate is open.

        Args:
            name: of its gate and of its trace.
            fails_for: the value for which it fails, each time with another message.
        """
        trace, gate = str(self.directory / f"{name}.trace"), str(self.directory / f"{name}.gate")

        def step(value):
            import os
            import time

            token = os.urandom(8).hex()
            with open(trace, "a") as file:
                file.write(f"{value} {token}\n")
            deadline = time.monotonic() + 100
            while not os.path.exists(gate):
                if time.monotonic() > deadline:
                    raise TimeoutError("the gate has never been opened")
                time.sleep(0.01)
            if value == fails_for:
                raise ValueError(f"no {value}, says {token}")
            return value + 100

        return F.udf(step, "long")

    def lines(self, name: str) -> list[tuple[int, str]]:
        """The rows that a function has begun to compute, each with the token of that time."""
        with suppress(FileNotFoundError):
            lines = (self.directory / f"{name}.trace").read_text().splitlines()
            return [(int(value), token) for value, token in (line.split() for line in lines)]
        return []

    def begun(self, name: str) -> None:
        until(lambda: bool(self.lines(name)), f"{name} is being computed")

    def computed_once(self, name: str) -> bool:
        return sorted(value for value, _ in self.lines(name)) == [*range(ROWS)]

    def open(self, *names: str) -> None:
        for name in names:
            (self.directory / f"{name}.gate").touch()


class Job(threading.Thread):
    """A thread that runs one thing."""

    def __init__(self, run: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._run_it = run
        self._answer: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._answer = self._run_it()
        except BaseException as error:
            self._error = error

    def answer(self) -> Any:
        self.join(PATIENCE)
        assert not self.is_alive(), "the thread is stuck"
        if self._error is not None:
            raise self._error
        return self._answer

    def error(self) -> BaseException:
        with pytest.raises(BaseException) as raised:
            self.answer()
        return raised.value

    @property
    def waits(self) -> bool:
        """Whether it is Holdfast that it waits in, rather than Spark."""
        frame = sys._current_frames().get(self.ident or 0)
        if frame is None or (frame.f_globals["__name__"], frame.f_code.co_name) != (
            "threading",
            "wait",
        ):
            return False
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith("holdfast.runtime"):
                return True
            frame = frame.f_back
        return False


def rows(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.collect())


def places(root: Path) -> set[Path]:
    """Where files of rows are, kept ones and others."""
    return {file.parent for file in root.rglob("*.parquet")}


def listed(*envs: Environment) -> set[Path]:
    """Where environments say that something is kept."""
    return {each.location for env in envs for each in env.list_cached() if each.location}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the fixture `env` keeps its results."""
    return tmp_path / "kept"


@pytest.fixture
def traces(tmp_path: Path) -> Iterator[Traces]:
    """Traces, whose gates are open in the end, come what may."""
    traces = Traces(tmp_path / "traces")
    traces.directory.mkdir()
    yield traces
    traces.open("hot", "top", "other")


@pytest.fixture
def hot(env: Environment, spark: SparkSession, traces: Traces) -> Table:
    """A table that is to be kept, behind the gate of the same name."""
    return env.from_dataframe(traces.table(spark, "hot")).cache()


@pytest.fixture
def cold(env: Environment, spark: SparkSession) -> Table:
    """A table that is kept in twice as many partitions as there are cores."""
    kept = env.from_dataframe(spark.range(0, ROWS, 1, 4).withColumn("v", F.col("id") * 2)).cache()
    assert kept.count() == ROWS
    return kept


# --- threads --------------------------------------------------------------------------------------


def test_threads_that_need_the_same_table_at_once_compute_it_once(
    env: Environment, hot: Table, root: Path, traces: Traces
) -> None:
    together = threading.Barrier(4)

    def ask(i: int) -> list[tuple[Any, ...]]:
        together.wait(PATIENCE)
        return rows(hot.where(F.col("id") != i))

    jobs = [Job(partial(ask, i)) for i in range(4)]
    traces.begun("hot")
    # A second one that computes it would be seen by its trace.
    until(
        lambda: len(traces.lines("hot")) > 1 or sum(job.waits for job in jobs) == 3,
        "all threads but one wait",
    )
    traces.open("hot")
    for i, job in enumerate(jobs):
        assert job.answer() == [row for row in EXPECTED if row[0] != i]
    assert traces.computed_once("hot")
    (kept,) = env.list_cached()
    assert (kept.rows, kept.hits) == (ROWS, 4)
    assert places(root) == {kept.location}


def test_threads_with_crossing_needs_do_not_wait_for_each_other_for_ever(
    env: Environment, spark: SparkSession, hot: Table, root: Path, traces: Traces
) -> None:
    other = env.from_dataframe(traces.table(spark, "other")).cache()
    first = Job(lambda: rows(hot.union(other)))
    traces.begun("hot")
    second = Job(lambda: rows(other.union(hot)))
    traces.begun("other")
    traces.open("hot")
    until(lambda: first.waits, "the first thread waits for the other table")
    traces.open("other")
    assert first.answer() == second.answer() == sorted(EXPECTED * 2)
    assert traces.computed_once("hot") and traces.computed_once("other")
    assert places(root) == listed(env) and len(listed(env)) == 2


INVALIDATIONS: dict[str, Callable[[Environment, Any], object]] = {
    "invalidate_cache": lambda env, hot: hot.invalidate_cache(),
    "invalidate_all": lambda env, hot: env.invalidate_all(),
    "end of block": lambda env, hot: hot.__exit__(None, None, None),
}


@pytest.mark.parametrize("how", INVALIDATIONS)
@pytest.mark.sampled(3)
def test_who_reads_a_table_that_is_invalidated_reads_it_to_the_end(
    env: Environment, cold: Table, root: Path, traces: Traces, how: str
) -> None:
    reading = Job(lambda: rows(cold.select("id", traces.step("top")("v").alias("w"))))
    # Half of the files are opened after the invalidation.
    until(lambda: len(traces.lines("top")) == 2, "both cores read")
    INVALIDATIONS[how](env, cold)
    assert not listed(env)
    traces.open("top")
    assert reading.answer() == [(i, i * 2 + 100) for i in range(ROWS)]
    assert outcomes(env) == READ and not places(root)
    assert rows(cold) == [(i, i * 2) for i in range(ROWS)]
    assert outcomes(env) == (PRODUCED if how == "invalidate_cache" else RUN)


@pytest.mark.parametrize("how", INVALIDATIONS)
@pytest.mark.sampled(3)
def test_what_is_invalidated_while_it_is_being_kept_is_not_read_by_later_jobs(
    env: Environment, hot: Table, root: Path, traces: Traces, how: str
) -> None:
    keeping = Job(lambda: rows(hot))
    traces.begun("hot")
    waiting = Job(lambda: rows(hot.where("id > 3")))
    until(lambda: waiting.waits, "another one waits")
    INVALIDATIONS[how](env, hot)
    traces.open("hot")
    assert keeping.answer() == EXPECTED and waiting.answer() == EXPECTED[4:]
    assert places(root) == listed(env)
    before = len(traces.lines("hot"))
    assert rows(hot) == EXPECTED
    assert places(root) == listed(env)
    if how == "invalidate_cache":
        assert listed(env)
    else:
        assert len(traces.lines("hot")) == before + ROWS and not listed(env)


def test_closing_leaves_running_jobs_their_rows_and_nothing_on_disk(
    env: Environment, hot: Table, cold: Table, root: Path, traces: Traces
) -> None:
    keeping = Job(lambda: rows(hot))
    traces.begun("hot")
    reading = Job(lambda: rows(cold.select("id", traces.step("top")("v").alias("w"))))
    traces.begun("top")
    env.close()
    assert not places(root)
    traces.open("hot", "top")
    assert keeping.answer() == EXPECTED
    assert reading.answer() == [(i, i * 2 + 100) for i in range(ROWS)]
    assert not places(root)


def test_each_thread_gets_its_own_error(
    env: Environment, spark: SparkSession, root: Path, traces: Traces
) -> None:
    failing = spark.range(0, ROWS, 1, 1).select(traces.step("hot", fails_for=5)("id").alias("v"))
    hot = env.from_dataframe(failing).cache()
    jobs = [Job(lambda: rows(hot)), Job(lambda: rows(hot.where("v > 0")))]
    traces.begun("hot")
    until(lambda: any(job.waits for job in jobs), "one keeps, one waits")
    traces.open("hot")
    errors = [job.error() for job in jobs]
    tokens = [token for value, token in traces.lines("hot") if value == 5]
    # Each has tried to keep it, and then to do without.
    assert len(tokens) == 4
    shown = [[token for token in tokens if f"no 5, says {token}" in str(error)] for error in errors]
    assert len({token for (token,) in shown}) == 2
    assert all(isinstance(error, PythonException) for error in errors)
    assert not places(root)
    assert env.from_dataframe(spark.range(3)).cache().count() == 3
    assert outcomes(env) == PRODUCED


def test_tasks_that_outlive_their_failed_job_leave_nothing(
    env: Environment, spark: SparkSession, root: Path, traces: Traces
) -> None:
    trace, gate = (str(traces.directory / f"hot.{what}") for what in ("trace", "gate"))

    def step(value):
        import os
        import time

        # The one partition fails while the other one is held.
        held = value >= 4
        if held:
            with open(trace, "a") as file:
                file.write(f"{value} held\n")
        while not os.path.exists(gate if held else trace):
            time.sleep(0.01)
        if not held:
            raise ValueError("at once")
        return value

    hot = env.from_dataframe(spark.range(0, ROWS, 1, 2).select(F.udf(step, "long")("id"))).cache()
    with pytest.raises(PythonException, match="at once"):
        hot.collect()
    traces.open("hot")
    context: Any = spark.sparkContext._jsc
    tracker = context.sc().statusTracker()
    until(
        lambda: sum(each.numRunningTasks() for each in tracker.getExecutorInfos()) == 0,
        "the task that was held has ended",
    )
    until(lambda: not places(root), "its files are gone")

"""What holds when several threads, environments and processes keep results at the same time.

Jobs are held where a story needs them: a Python function in the query notes each row that it
computes in a file, and goes on when the test opens its gate. Run as a program, this file is a
process that a story is told about.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf, SparkContext
from pyspark.errors import PythonException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, Table, VertexOutcome

DIRECTORY = "intermediate-result-storage.directory"
PATIENCE = 100.0
ROWS = 8

Files = dict[str, tuple[int, int]]


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

    def table(self, spark: SparkSession, name: str, *, partitions: int = 1) -> DataFrame:
        """Ids from 0 to 7, and what the traced function of this name makes of them."""
        return spark.range(0, ROWS, 1, partitions).select("id", self.step(name)("id").alias("v"))

    def step(self, name: str, *, fails_for: tuple[int, ...] = ()) -> Callable[[str], Column]:
        """A function that adds 100, as soon as its gate is open.

        Args:
            name: of its gate and of its trace.
            fails_for: the values for which it fails, each time with another message.
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
            if value in fails_for:
                raise ValueError(f"no {value}, says {token}")
            return value + 100

        return F.udf(step, "long")

    def lines(self, name: str) -> list[tuple[int, str]]:
        """The rows that a function has begun to compute, each with the token of that time."""
        with suppress(FileNotFoundError):
            lines = (self.directory / f"{name}.trace").read_text().splitlines()
            return [(int(value), token) for value, token in (line.split() for line in lines)]
        return []

    def begun(self, name: str) -> bool:
        return bool(self.lines(name))

    def computed_once(self, name: str, first: int = 0) -> bool:
        return sorted(value for value, _ in self.lines(name)) == list(range(first, first + ROWS))

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

    def ended(self) -> None:
        self.join(PATIENCE)
        assert not self.is_alive(), "the thread is stuck"

    def answer(self) -> Any:
        self.ended()
        if self._error is not None:
            raise self._error
        return self._answer

    def error(self) -> BaseException:
        self.ended()
        assert self._error is not None, self._answer
        return self._error

    @property
    def waits(self) -> bool:
        """Whether it is Holdfast that it waits in, rather than Spark."""
        frame = sys._current_frames().get(self.ident or 0)
        if frame is None or frame.f_code is not threading.Condition.wait.__code__:
            return False
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith("holdfast.runtime"):
                return True
            frame = frame.f_back
        return False


def rows(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.collect())


def outcomes(env: Environment) -> list[VertexOutcome]:
    """What became of the last job's vertices, which lost nothing."""
    assert env.last_job_result is not None
    assert env.last_job_result.losses == ()
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def kept_in(root: Path) -> list[Path]:
    return sorted(root.glob("application-*/datasets/*"))


def staged_in(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("application-*/staging/**/*"))


def locations(env: Environment) -> list[Path]:
    return sorted(each.location for each in env.list_cached() if each.location is not None)


def files_in(directory: Path) -> Files:
    """Every file below a directory, with its size and its time."""
    status = {path: path.stat() for path in directory.rglob("*") if path.is_file()}
    return {str(path): (each.st_size, each.st_mtime_ns) for path, each in status.items()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the fixture `env` keeps its results."""
    return tmp_path / "kept"


@pytest.fixture
def traces(tmp_path: Path) -> Iterator[Traces]:
    """Traces, whose gates are open in the end, come what may."""
    with ExitStack() as stack:
        traces = Traces(tmp_path / "traces")
        traces.directory.mkdir()
        stack.callback(traces.open, "hot", "inner", "outer", "top", "other")
        yield traces


PRODUCED, READ, RUN = VertexOutcome.PRODUCED, VertexOutcome.READ, VertexOutcome.RUN


# --- threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [2, 8])
def test_threads_that_need_the_same_table_at_once_compute_it_once(
    env: Environment, spark: SparkSession, root: Path, traces: Traces, threads: int
) -> None:
    plain = traces.table(spark, "hot")
    hot = env.from_dataframe(plain).cache()
    together = threading.Barrier(threads)

    def ask(i: int) -> list[tuple[Any, ...]]:
        together.wait(PATIENCE)
        return rows(hot.where(F.col("id") != i))

    jobs = [Job(partial(ask, i)) for i in range(threads)]
    until(lambda: traces.begun("hot"), "one thread computes it")
    # A second one that computes it would be seen by its trace.
    until(
        lambda: len(traces.lines("hot")) > 1 or sum(job.waits for job in jobs) == threads - 1,
        "all threads but one wait",
    )
    assert len(traces.lines("hot")) == 1
    traces.open("hot")
    answers = [job.answer() for job in jobs]

    assert traces.computed_once("hot")
    (listed,) = env.list_cached()
    assert (listed.rows, listed.hits) == (ROWS, threads)
    assert kept_in(root) == [listed.location]
    assert not staged_in(root)
    for i, answer in enumerate(answers):
        assert answer == rows(plain.where(F.col("id") != i))


def test_threads_with_crossing_needs_do_not_wait_for_each_other_for_ever(
    env: Environment, spark: SparkSession, root: Path, traces: Traces
) -> None:
    a, b = (env.from_dataframe(traces.table(spark, name)).cache() for name in ("hot", "other"))
    first = Job(lambda: rows(a.union(b)))
    until(lambda: traces.begun("hot"), "the first thread is at A")
    second = Job(lambda: rows(b.union(a)))
    until(lambda: traces.begun("other"), "the second thread is at B")

    traces.open("hot")
    until(lambda: first.waits, "the first thread waits for B")
    traces.open("other")

    expected = sorted([(i, i + 100) for i in range(ROWS)] * 2)
    assert first.answer() == second.answer() == expected
    assert traces.computed_once("hot")
    assert traces.computed_once("other")
    assert len(kept_in(root)) == 2
    assert not staged_in(root)


def test_nested_tables_are_computed_once_whoever_needs_which_of_them(
    env: Environment, spark: SparkSession, root: Path, traces: Traces
) -> None:
    inner = env.from_dataframe(traces.table(spark, "inner")).cache()
    outer = inner.select("id", traces.step("outer")("v").alias("w")).cache()
    jobs = [Job(lambda: rows(outer))]
    until(lambda: traces.begun("inner"), "the inner table is being computed")
    jobs.append(Job(lambda: rows(inner)))
    jobs.append(Job(lambda: rows(outer.where("id > 3"))))
    jobs.append(Job(lambda: rows(outer.join(inner, "id").select("id", "w", "v"))))
    until(lambda: all(job.waits for job in jobs[1:]), "the others wait for the inner table")
    traces.open("inner")
    until(lambda: traces.begun("outer"), "the outer table is being computed")
    assert jobs[1].answer() == [(i, i + 100) for i in range(ROWS)]
    until(lambda: sum(job.waits for job in jobs) == 2, "two wait for the outer table")
    traces.open("outer")

    assert jobs[0].answer() == [(i, i + 200) for i in range(ROWS)]
    assert jobs[2].answer() == [(i, i + 200) for i in range(4, ROWS)]
    assert jobs[3].answer() == [(i, i + 200, i + 100) for i in range(ROWS)]
    assert traces.computed_once("inner")
    assert traces.computed_once("outer", first=100)
    assert len(kept_in(root)) == 2
    assert not staged_in(root)


INVALIDATIONS: dict[str, Callable[[Environment, Any], object]] = {
    "invalidate_cache": lambda env, hot: hot.invalidate_cache(),
    "invalidate_all": lambda env, hot: env.invalidate_all(),
    "end of block": lambda env, hot: hot.__exit__(None, None, None),
}


@pytest.mark.parametrize("how", INVALIDATIONS)
def test_who_reads_a_table_that_is_invalidated_reads_it_to_the_end(
    env: Environment, spark: SparkSession, root: Path, traces: Traces, how: str
) -> None:
    # Twice as many partitions as cores: half of the files are opened after the invalidation.
    hot = env.from_dataframe(spark.range(0, ROWS, 1, 4).withColumn("v", F.col("id") * 2)).cache()
    assert hot.count() == ROWS
    reading = Job(lambda: rows(hot.select("id", traces.step("top")("v").alias("w"))))
    until(lambda: len(traces.lines("top")) == 2, "both cores read")

    INVALIDATIONS[how](env, hot)
    assert not locations(env)
    traces.open("top")

    assert reading.answer() == [(i, i * 2 + 100) for i in range(ROWS)]
    assert outcomes(env) == [READ, RUN]
    assert not kept_in(root)
    assert rows(hot) == [(i, i * 2) for i in range(ROWS)]
    assert outcomes(env) == ([PRODUCED, RUN] if how == "invalidate_cache" else [RUN])


def test_what_is_kept_anew_while_the_old_is_still_read_stays(
    env: Environment, spark: SparkSession, root: Path, traces: Traces
) -> None:
    hot = env.from_dataframe(spark.range(0, ROWS, 1, 1).withColumn("v", F.col("id") * 2)).cache()
    assert hot.count() == ROWS
    (old,) = kept_in(root)
    reading = Job(lambda: rows(hot.select("id", traces.step("top")("v").alias("w"))))
    until(lambda: traces.begun("top"), "a thread reads")
    hot.invalidate_cache()
    assert rows(hot) == [(i, i * 2) for i in range(ROWS)]
    assert outcomes(env) == [PRODUCED, RUN]
    (new,) = locations(env)
    assert new != old
    traces.open("top")

    assert reading.answer() == [(i, i * 2 + 100) for i in range(ROWS)]
    assert kept_in(root) == [new]
    assert rows(hot) == [(i, i * 2) for i in range(ROWS)]
    assert outcomes(env) == [READ, RUN]


@pytest.mark.parametrize("how", INVALIDATIONS)
def test_what_is_invalidated_while_it_is_being_kept_is_not_read_by_later_jobs(
    env: Environment, spark: SparkSession, root: Path, traces: Traces, how: str
) -> None:
    hot = env.from_dataframe(traces.table(spark, "hot")).cache()
    keeping = Job(lambda: rows(hot))
    until(lambda: traces.begun("hot"), "a thread keeps")
    waiting = Job(lambda: rows(hot.where("id > 3")))
    until(lambda: waiting.waits, "another one waits")
    INVALIDATIONS[how](env, hot)
    traces.open("hot")

    expected = [(i, i + 100) for i in range(ROWS)]
    assert keeping.answer() == expected
    assert waiting.answer() == expected[4:]
    assert kept_in(root) == locations(env)
    assert not staged_in(root)
    before = len(traces.lines("hot"))
    assert rows(hot) == expected
    if how == "invalidate_cache":
        assert kept_in(root) == locations(env) != []
    else:
        assert len(traces.lines("hot")) == before + ROWS
        assert not kept_in(root)


def test_closing_leaves_running_jobs_their_rows_and_nothing_on_disk(
    env: Environment, spark: SparkSession, root: Path, traces: Traces
) -> None:
    cold = env.from_dataframe(spark.range(0, ROWS, 1, 2).withColumn("v", F.col("id") * 2)).cache()
    assert cold.count() == ROWS
    hot = env.from_dataframe(traces.table(spark, "hot")).cache()
    keeping = Job(lambda: rows(hot))
    until(lambda: traces.begun("hot"), "a thread keeps")
    reading = Job(lambda: rows(cold.select("id", traces.step("top")("v").alias("w"))))
    until(lambda: traces.begun("top"), "a thread reads")
    env.close()
    assert not list(root.glob("application-*"))
    traces.open("hot", "top")

    assert keeping.answer() == [(i, i + 100) for i in range(ROWS)]
    assert reading.answer() == [(i, i * 2 + 100) for i in range(ROWS)]
    assert not list(root.glob("application-*"))


def test_each_thread_gets_its_own_error(
    env: Environment, spark: SparkSession, root: Path, traces: Traces
) -> None:
    step = traces.step("hot", fails_for=(5,))
    hot = env.from_dataframe(spark.range(0, ROWS, 1, 1).select("id", step("id").alias("v"))).cache()
    jobs = [Job(lambda: rows(hot)), Job(lambda: rows(hot.where("v > 0")))]
    until(lambda: traces.begun("hot") and any(job.waits for job in jobs), "one keeps, one waits")
    traces.open("hot")
    errors = [job.error() for job in jobs]

    tokens = [token for value, token in traces.lines("hot") if value == 5]
    # Each has tried to keep it, and then to do without.
    assert len(tokens) == 4
    shown = [[token for token in tokens if f"no 5, says {token}" in str(error)] for error in errors]
    assert len({token for (token,) in shown}) == 2
    assert all(isinstance(error, PythonException) for error in errors)
    assert not kept_in(root)
    assert not staged_in(root)
    # The environment goes on to work.
    other = env.from_dataframe(traces.table(spark, "other")).cache()
    traces.open("other")
    assert rows(other) == [(i, i + 100) for i in range(ROWS)]
    assert outcomes(env) == [PRODUCED, RUN]


def test_who_waited_for_a_job_that_failed_keeps_the_table_itself(
    env: Environment, spark: SparkSession, root: Path, traces: Traces
) -> None:
    failed, gate = str(traces.directory / "failed"), str(traces.directory / "hot.gate")
    begun = traces.directory / "begun"
    begun_at = str(begun)

    def once(value):
        import os
        import time

        open(begun_at, "w").close()
        while not os.path.exists(gate):
            time.sleep(0.01)
        if not os.path.exists(failed):
            open(failed, "w").close()
            raise ValueError("the first time")
        return value

    ids = spark.range(0, ROWS, 1, 1)
    hot = env.from_dataframe(ids.select("id", F.udf(once, "long")("id").alias("v"))).cache()
    first = Job(lambda: rows(hot))
    until(begun.exists, "the first thread computes")
    second = Job(lambda: rows(hot))
    until(lambda: second.waits, "the second one waits")
    traces.open("hot")

    # It answers without keeping anything: what fails once may not fail again.
    assert first.answer() == [(i, i) for i in range(ROWS)]
    assert second.answer() == [(i, i) for i in range(ROWS)]
    assert outcomes(env) in ([PRODUCED, RUN], [VertexOutcome.NOT_KEPT, RUN])
    assert kept_in(root) == locations(env) != []
    assert not staged_in(root)


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

    ids = spark.range(0, ROWS, 1, 2)
    hot = env.from_dataframe(ids.select("id", F.udf(step, "long")("id").alias("v"))).cache()
    with pytest.raises(PythonException, match="at once"):
        hot.collect()
    traces.open("hot")
    context: Any = spark.sparkContext._jsc
    tracker = context.sc().statusTracker()
    until(
        lambda: sum(each.numRunningTasks() for each in tracker.getExecutorInfos()) == 0,
        "the task that was held has ended",
    )
    assert not kept_in(root)
    # A task that comes to its file only now makes directories anew, which the sweep removes.
    until(lambda: not any(path.is_file() for path in staged_in(root)), "its files are gone")


# --- environments ---------------------------------------------------------------------------------


def test_two_environments_on_one_directory_do_not_see_or_harm_each_other(
    spark: SparkSession, root: Path, traces: Traces
) -> None:
    traces.open("hot")
    df = traces.table(spark, "hot")
    expected = [(i, i + 100) for i in range(ROWS)]
    with Environment(spark, config={DIRECTORY: root}) as staying:
        mine = staying.from_dataframe(df).cache()
        assert rows(mine) == expected
        (location,) = locations(staying)
        files = files_in(location)
        with Environment(spark, config={DIRECTORY: root}) as going:
            assert going.list_cached() == []
            theirs = going.from_dataframe(df)
            assert rows(theirs) == expected
            assert outcomes(going) == [RUN]
            theirs.cache()
            assert rows(theirs) == expected
            assert outcomes(going) == [PRODUCED, RUN]
            assert len(traces.lines("hot")) == 3 * ROWS
            assert kept_in(root) == sorted([location, *locations(going)])
            going.invalidate_all()
            assert kept_in(root) == [location]
            theirs.cache().count()
            assert len(kept_in(root)) == 2
        assert kept_in(root) == [location]
        assert files_in(location) == files
        computed = len(traces.lines("hot"))
        assert rows(mine) == expected
        assert outcomes(staying) == [READ, RUN]
        assert len(traces.lines("hot")) == computed
    assert not list(root.glob("application-*"))


# --- processes ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Process:
    """Another process with an environment, which does as it is told. See `_serve`.

    Args:
        root: where it keeps its results.
        traces: of its tables.
        home: where its errors are logged.
        spark: the session to attach to; it starts one of its own when none is given.
    """

    root: Path
    traces: Traces
    home: Path
    spark: SparkSession | None = None
    process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        names = ("PYSPARK_", "SPARK_CONF_DIR", "MASTER")
        variables = {key: value for key, value in os.environ.items() if not key.startswith(names)}
        variables["PYSPARK_PYTHON"] = sys.executable
        if self.spark is not None:
            gateway = self.spark.sparkContext._gateway
            assert gateway is not None
            variables["PYSPARK_GATEWAY_PORT"] = str(gateway.gateway_parameters.port)
            variables["PYSPARK_GATEWAY_SECRET"] = str(gateway.gateway_parameters.auth_token)
        self.home.mkdir(parents=True, exist_ok=True)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(self.root), str(self.traces.directory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.home,
                env=variables,
                text=True,
            )

    @property
    def log(self) -> Path:
        return self.home / "stderr"

    def tell(self, command: str, *arguments: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, *arguments]) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        line = self.process.stdout.readline() if ready else ""
        assert line, self.log.read_text()
        return json.loads(line)

    def ask(self, command: str, *arguments: str) -> Any:
        self.tell(command, *arguments)
        return self.answer()

    def end(self, how: str) -> int:
        """Lets it end; gives its exit status."""
        self.tell("end", how)
        return self.process.wait(PATIENCE)

    def gone(self) -> None:
        """Waits until the last that it has started is gone as well."""
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], PATIENCE)[0]:
            if not self.process.stdout.read(1):
                return
        raise AssertionError("its JVM goes on")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


EXPECTED = [[i, i + 100] for i in range(ROWS)]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two processes with sessions of their own on one directory."""

    root: Path
    traces: Traces
    living: Process
    doomed: Process

    def kept(self, process: Process) -> Path:
        """The directory of a process's application, with what it keeps there."""
        answer = process.ask("run", "kept")
        assert answer["rows"] == EXPECTED
        (location,) = answer["locations"]
        return Path(location).parent.parent

    def assert_reads(self, process: Process) -> None:
        """A process still reads what it keeps."""
        computed = len(self.traces.lines("kept"))
        answer = process.ask("run", "kept")
        assert answer["rows"] == EXPECTED
        assert answer["outcomes"] == ["read from cache", "run"]
        assert answer["losses"] == []
        assert len(self.traces.lines("kept")) == computed


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("processes")
    root = home / "kept"
    traces = Traces(home / "traces")
    traces.directory.mkdir()
    traces.open("kept", "more")
    with ExitStack() as stack:
        stack.callback(traces.open, "held", "interrupted")
        living, doomed = (Process(root, traces, home / name) for name in ("living", "doomed"))
        stack.callback(doomed.kill)
        stack.callback(living.kill)
        assert living.answer() == doomed.answer() == "ready"
        yield Pair(root, traces, living, doomed)
        assert living.end("return") == 0
        living.gone()
        assert not list(root.glob("application-*"))


@pytest.mark.slow
def test_what_leaves_traces_is_each_process_s_own_and_neither_harms_the_other(
    pair: Pair, spark: SparkSession
) -> None:
    directory = pair.kept(pair.living)
    files = files_in(directory)
    computed = len(pair.traces.lines("kept"))
    with Environment(spark, config={DIRECTORY: pair.root}) as env:
        mine = env.from_dataframe(pair.traces.table(spark, "kept")).cache()
        assert [list(row) for row in rows(mine)] == EXPECTED
        assert outcomes(env) == [PRODUCED, RUN]
        assert len(pair.traces.lines("kept")) == computed + ROWS
        (location,) = locations(env)
        assert directory not in location.parents
        env.invalidate_all()
        mine.cache().count()
    assert not location.parent.parent.exists()
    assert files_in(directory) == files
    pair.assert_reads(pair.living)


@pytest.mark.slow
def test_the_next_start_removes_what_a_killed_process_left_and_nothing_else(
    pair: Pair, spark: SparkSession
) -> None:
    living, doomed = pair.kept(pair.living), pair.kept(pair.doomed)
    pair.doomed.tell("run", "held")
    until(lambda: pair.traces.begun("held"), "it keeps another table")
    with Environment(spark, config={DIRECTORY: pair.root}):
        assert doomed.exists()
    files = files_in(living)
    pair.doomed.process.send_signal(signal.SIGKILL)
    assert pair.doomed.process.wait(PATIENCE) == -signal.SIGKILL
    assert list(doomed.glob("datasets/*/*.parquet"))
    assert list(doomed.glob("staging/*"))

    with Environment(spark, config={DIRECTORY: pair.root}) as env:
        assert not doomed.exists()
        assert files_in(living) == files
        assert env.from_dataframe(spark.range(3)).cache().count() == 3
    pair.assert_reads(pair.living)
    pair.doomed.gone()
    assert list(pair.root.glob("application-*")) == [living]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["exit", "close", "block", "multiprocessing"])
def test_a_forked_child_that_ends_leaves_its_parent_s_directory(pair: Pair, how: str) -> None:
    directory = pair.kept(pair.living)
    files = files_in(directory)
    assert pair.living.ask("fork", how) == 0
    assert files_in(directory) == files
    pair.assert_reads(pair.living)


@pytest.mark.slow
def test_an_interrupted_job_leaves_nothing_staged_and_the_next_one_works(pair: Pair) -> None:
    directory = pair.kept(pair.living)
    pair.living.tell("run", "interrupted")
    until(lambda: pair.traces.begun("interrupted"), "it keeps a table")
    assert list(directory.glob("staging/*"))
    pair.living.process.send_signal(signal.SIGINT)
    answer = pair.living.answer()
    assert answer["error"] == "KeyboardInterrupt"
    assert answer["staged"] == []

    # The one core is free for the next job, although the gate is closed.
    pair.assert_reads(pair.living)
    pair.traces.open("interrupted")
    again = pair.living.ask("run", "interrupted")
    assert again["rows"] == EXPECTED
    assert again["outcomes"] == ["produced", "run"]
    assert again["staged"] == []
    assert pair.living.ask("run", "interrupted")["outcomes"] == ["read from cache", "run"]
    assert not staged_in(pair.root)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "status"), [("close", 0), ("return", 0), ("sys.exit", 3), ("exception", 1)]
)
def test_a_process_removes_everything_when_it_ends(
    spark: SparkSession, root: Path, traces: Traces, tmp_path: Path, how: str, status: int
) -> None:
    traces.open("hot")
    process = Process(root, traces, tmp_path / "process", spark)
    try:
        assert process.answer() == "ready"
        answer = process.ask("run", "hot")
        assert answer["rows"] == EXPECTED
        assert [str(path) for path in kept_in(root)] == answer["locations"] != []
        if how == "close":
            assert process.ask("close") == []
            assert not list(root.glob("application-*"))
        assert process.end(how) == status, process.log.read_text()
    finally:
        process.kill()
    assert not list(root.glob("application-*"))
    log = process.log.read_text()
    assert ("RuntimeError: at top level" in log) == (how == "exception")
    assert "WARNING:holdfast" not in log
    assert "Exception ignored" not in log


# --- the other process ----------------------------------------------------------------------------


def _session() -> SparkSession:
    """A small session; that of another process where the environment says so."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        gateway = launch_gateway()
        jvm: Any = gateway.jvm
        running = jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
        context = jvm.org.apache.spark.api.java.JavaSparkContext(running.sparkContext())
        conf = SparkConf(_jconf=context.getConf())
        return SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf), running)
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def _say(answer: object) -> None:
    print(json.dumps(answer), flush=True)


def _run(env: Environment, root: Path, table: Table) -> dict[str, Any]:
    """Keeps or reads a table, and tells how that went."""
    told: dict[str, Any] = {}
    try:
        told["rows"] = rows(table)
    except KeyboardInterrupt as error:
        told["error"] = type(error).__name__
    result = env.last_job_result
    if result is not None:
        told["outcomes"] = [vertex.outcome.value for vertex in result.vertices]
        told["losses"] = result.losses
    told["locations"] = [str(path) for path in locations(env)]
    told["staged"] = [str(path) for path in root.glob("application-*/staging/**/*")]
    return told


def _fork(env: Environment, how: str) -> int:
    """Has a child that ends in some way; gives its exit status."""
    if how == "multiprocessing":
        child = multiprocessing.get_context("fork").Process(target=os.getpid)
        child.start()
        child.join()
        return child.exitcode or 0
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    status = 1
    try:
        if how == "close":
            env.close()
        elif how == "block":
            with suppress(SystemExit), env:
                sys.exit()
        # What the interpreter does at its end, but for Spark's connection, which is the parent's.
        atexit._run_exitfuncs()
        status = 0
    finally:
        os._exit(status)


def _serve(root: Path, traces: Traces) -> None:
    env = Environment(_session(), config={DIRECTORY: root})
    tables: dict[str, Table] = {}
    _say("ready")
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        if command == "run":
            (name,) = arguments
            if name not in tables:
                tables[name] = env.from_dataframe(traces.table(env.spark, name)).cache()
            _say(_run(env, root, tables[name]))
        elif command == "fork":
            _say(_fork(env, *arguments))
        elif command == "close":
            env.close()
            _say([str(path) for path in root.glob("application-*")])
        elif arguments == ["sys.exit"]:
            sys.exit(3)
        elif arguments == ["exception"]:
            raise RuntimeError("at top level")
        else:
            return


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), Traces(Path(sys.argv[2])))

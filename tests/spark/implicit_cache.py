"""What tests of the implicit cache share: questions about tables of files, beside plain Spark.

A module that asks has a fixture `tables`, and imports the other ones from here.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast import Environment
from holdfast.testing import outcomes, settle

READ, PRODUCED = "read from cache", "produced"
SOLD = "sales JOIN shops USING (shop)"
# Of what reuses most of a join nothing is kept, and how much that is, is a matter of time.
NOTHING_REUSED = {"implicit-cache.live-shuffles.max-size": "1 b"}
SETTINGS = {"spark.sql.shuffle.partitions": "2"}

Make = Callable[[Any], DataFrame]
Program = Callable[..., "AbstractContextManager[Keeping]"]


def config(home: Path, **more: Any) -> dict[str, Any]:
    """Keeps what recurs, in a directory, however little it saves."""
    return {
        "intermediate-result-storage.directory": str(home / "kept"),
        "implicit-cache.enabled": True,
        "implicit-cache.results.min-saved-time": "0 s",
        **more,
    }


class Tables:
    """Directories of files, `sales` and `shops`, that queries see as views."""

    def __init__(self, session: SparkSession, home: Path) -> None:
        self.session = session
        self.home = home
        self._schemas: dict[Path, StructType] = {}

    def asking(self, columns: str, rest: str = "", join: str = SOLD) -> Make:
        def make(session: Any) -> DataFrame:
            for path in self.home.iterdir():
                if path.name != "kept":
                    self._read(session, path).createOrReplaceTempView(path.name)
            found: DataFrame = session.sql(f"SELECT {columns} FROM {join} {rest}")
            return found

        return make

    def write(self, name: str, ids: DataFrame, *columns: str, mode: str = "append") -> None:
        ids.selectExpr(*columns).write.mode(mode).parquet(str(self.home / name))
        self._schemas.clear()

    def _read(self, session: Any, path: Path) -> DataFrame:
        # It takes a job to find a schema, which is the same until something is written.
        if path not in self._schemas:
            self._schemas[path] = self.session.read.parquet(str(path)).schema
        found: DataFrame = session.read.schema(self._schemas[path]).parquet(str(path))
        return found


class Keeping:
    """An environment that keeps what recurs, beside plain Spark.

    The program isn't idle until it says so, however long plain Spark takes.
    """

    def __init__(self, env: Environment, plain: SparkSession, tables: Tables | None = None) -> None:
        self.env = env
        self.plain = plain
        self._tables = tables
        self._computed = 0
        self._busy = ExitStack()
        assert env._implicit.recurring is not None
        self._recurring = env._implicit.recurring
        self._busy.enter_context(self._recurring.behind.answering())

    def stop_asking(self) -> None:
        """From now on the program is idle."""
        self._busy.close()

    def idle(self) -> None:
        """Waits for what is produced while the program is idle."""
        self.stop_asking()
        settle(self.env)

    def produce_while_idle(self, produce: Callable[[], None]) -> None:
        """Something of the test's own is to be produced."""
        self._recurring.behind.offer("of the test", produce)

    def learned(self) -> None:
        """What the last queries show is known."""
        self._recurring.learn_all()

    def run(self, make: Make) -> list[str]:
        """What a query reads and produces; its rows are those of plain Spark."""
        # First, as what runs first takes longer than what could have been saved of it.
        expected = make(self.plain).collect()
        rows = make(self.env).collect()
        assert sorted(map(repr, rows)) == sorted(map(repr, expected))
        self.learned()
        return [each.value for each in outcomes(self.env)][:-1]

    def made(self, columns: str, rest: str = "", join: str = SOLD) -> DataFrame:
        """A question that isn't asked yet."""
        assert self._tables is not None
        return self._tables.asking(columns, rest, join)(self.env)

    def ask(self, columns: str, rest: str = "", join: str = SOLD) -> list[str]:
        """What a question reads and produces."""
        assert self._tables is not None
        return self.run(self._tables.asking(columns, rest, join))

    def explained(self, columns: str, rest: str = "", join: str = SOLD) -> str:
        return self.env.explain_kept(self.made(columns, rest, join))

    def compute(
        self,
        asking: Callable[[str, str], Make],
        times: int = 1,
        *,
        by: str = "region",
        of_some_rows: bool = False,
    ) -> None:
        """Has a join computed so often, each time for something else, of all of its rows or some.

        Its query is made of what is selected of the join, and of what follows that.
        """
        for _ in range(times):
            self._computed += 1
            counts = " + ".join([f"count({by})"] * self._computed)
            where = f"WHERE {by} <> '{self._computed}' " if of_some_rows else ""
            found = self.run(asking(counts, f"{where}GROUP BY {by}"))
            # Of a join that is known, what is asked for is kept as it is.
            assert found == [] or (found == [PRODUCED] and not of_some_rows)

    def kept(self) -> list[str]:
        """What is kept, for people."""
        return [each.computes for each in self.env.list_cached()]

    def lose_files(self) -> None:
        """The files of all that is kept are gone."""
        for each in self.env.list_cached():
            for location in each.locations:
                shutil.rmtree(location, ignore_errors=True)
                Path(location).unlink(missing_ok=True)

    def set(self, key: str, value: str) -> None:
        for session in (self.env.spark, self.plain):
            session.conf.set(f"spark.sql.{key}", value)


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session with settings of its own."""
    session = spark.newSession()
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    return session


@pytest.fixture
def program(
    session: SparkSession, tables: Tables, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Program:
    """Starts a program, of which no query may need plain Spark as a way out."""

    @contextmanager
    def start(home: Path = tmp_path, **more: Any) -> Iterator[Keeping]:
        plain = session.newSession()
        for key in (*SETTINGS, "spark.sql.autoBroadcastJoinThreshold", "spark.sql.ansi.enabled"):
            plain.conf.set(key, session.conf.get(key))
        with (
            caplog.at_level(logging.DEBUG, logger="holdfast.runtime"),
            Environment(session, config=config(home, **more)) as env,
        ):
            yield Keeping(env, plain, tables)
        assert "is run as it was written" not in caplog.text
        assert "is not looked at" not in caplog.text

    return start


@pytest.fixture
def keeping(program: Program) -> Iterator[Keeping]:
    with program() as keeping:
        yield keeping


class Stages:
    """Those that Spark runs from now on."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._before = {each.stageId() for each in self._stages()}

    def new(self) -> list[Any]:
        return [each for each in self._stages() if each.stageId() not in self._before]

    def rows(self) -> int:
        """How many rows of files, and of what was kept, they have read."""
        return sum(each.inputRecords() for each in self.new())

    def _stages(self) -> list[Any]:
        context: Any = self._context
        context._jsc.sc().listenerBus().waitUntilEmpty()
        no_quantiles = context._gateway.new_array(context._jvm.double, 0)
        stages = context._jsc.sc().statusStore().stageList(None, False, False, no_quantiles, None)
        return [*map(stages.apply, range(stages.size()))]

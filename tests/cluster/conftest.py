"""A Spark cluster for the tests, and programs that run on it.

There is one Spark session to a process, and that of the suite is local: what runs on a cluster is
a program in its own process.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.ids import CATALOG_APPLICATION
from tests.harness.errors import NamespacesUnavailableError
from tests.harness.local_cluster import LocalCluster, task_executor_command
from tests.harness.waiting import wait_for
from tests.short_lived_jvm import JARS_FIRST, OF_PROGRAMS, options

# What each program finds: a session on the cluster, and the path that each node has for itself.
PRELUDE = """
import json, os, sys
from pathlib import Path
from pyspark.sql import SparkSession

settings = json.loads(os.environ["CLUSTER_SETTINGS"])
spark = SparkSession.builder.config(map=settings["configuration"]).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
kept = Path(settings["kept"])
task_executors = settings["task_executors"]
token_file = Path(settings["token_file"])
"""


class Program(subprocess.Popen[str]):
    """A program with pipes for its standard input and output, and a file for its errors.

    A third pipe that is not read would stop the program when it is full.
    """

    def __init__(self, source: str, environment: Mapping[str, str]) -> None:
        descriptor, name = tempfile.mkstemp()
        self._complaints = Path(name)
        with os.fdopen(descriptor, "w") as complaints:
            super().__init__(
                [sys.executable, "-c", source],
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                # Its JVM and its Python workers end with it.
                start_new_session=True,
            )

    def complaints(self) -> str:
        """What it has said of errors so far."""
        return self._complaints.read_text()

    def kill_all(self) -> None:
        """Kills it, with all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.communicate()

    def remove_complaints(self) -> None:
        """Nobody asks for them any more."""
        self._complaints.unlink()


class Driver:
    """A running program, which evaluates what it is sent."""

    def __init__(self, program: Program) -> None:
        self.program = program
        assert self.answer() == "ready"

    def __call__(self, expression: str) -> Any:
        self.tell(expression)
        return self.answer()

    def tell(self, expression: str) -> None:
        """Has it evaluate an expression, and doesn't wait for the answer."""
        assert self.program.stdin is not None
        self.program.stdin.write(expression + "\n")
        self.program.stdin.flush()

    def comes_to(self, expression: str, expected: Any) -> None:
        """Evaluates an expression until it is what is expected."""
        found = []

        def is_there() -> bool | None:
            found[:] = [self(expression)]
            return True if found[0] == expected else None

        if not wait_for(is_there, SECONDS):
            pytest.fail(f"{expression} stays {found[0]}:\n{self.program.complaints()}")

    def end(self) -> None:
        self.program.communicate(timeout=SECONDS)
        assert self.program.returncode == 0, self.program.complaints()

    def answer(self) -> Any:
        """What came of the last expression."""
        assert self.program.stdout is not None
        line = self.program.stdout.readline()
        if not line:
            self.program.wait()
            pytest.fail(f"the driver has ended:\n{self.program.complaints()}")
        return json.loads(line)


StartProgram = Callable[..., Program]
StartDriver = Callable[..., Driver]
DRIVER_PROGRAM = Path(__file__).with_name("driver_program.py")
SECONDS = 60
LEASE = "5 s"


@pytest.fixture(scope="session")
def catalog_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the catalog that the cluster's task executors hold results for; there when it is used."""
    return tmp_path_factory.mktemp("catalog") / "catalog.db"


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory, catalog_file: Path) -> Iterator[LocalCluster]:
    """The one cluster of the suite. A test that kills a part of it restarts that part."""
    # What a killed driver's tasks leave half written is to go while a test waits for it.
    more = ("--grace", "3", "--catalog-url", f"sqlite:///{catalog_file}")
    more = (*more, "--catalog-interval", "0.5")
    try:
        with LocalCluster(
            tmp_path_factory.mktemp("cluster"),
            task_executor_command=lambda *parts: (*task_executor_command(*parts), *more),
        ) as cluster:
            yield cluster
    except NamespacesUnavailableError as error:
        pytest.skip(str(error))


@contextmanager
def _programs() -> Iterator[StartProgram]:
    started: list[Program] = []

    def start(
        cluster: LocalCluster, source: str, configuration: Mapping[str, str] | None = None
    ) -> Program:
        of_cluster = cluster.driver_configuration() | JARS_FIRST | OF_PROGRAMS
        of_cluster["spark.executor.extraJavaOptions"] += f" {options()}"
        settings = {
            "configuration": of_cluster | dict(configuration or {}),
            "kept": str(cluster.kept),
            "task_executors": cluster.task_executor_addresses,
            "token_file": str(cluster.token_file),
        }
        environment = os.environ | cluster.driver_environment()
        program = Program(
            PRELUDE + source, environment | {"CLUSTER_SETTINGS": json.dumps(settings)}
        )
        started.append(program)
        return program

    try:
        yield start
    finally:
        for program in started:
            program.kill_all()
            program.remove_complaints()


@pytest.fixture
def start_program() -> Iterator[StartProgram]:
    """Starts a Python program as a driver on a cluster; it ends with the test.

    `start_program(cluster, source, configuration=…)` gives a `Program`. That finds `spark`, `kept`,
    `task_executors` and `token_file`.
    """
    with _programs() as start:
        yield start


def _start_driver(
    start: StartProgram, cluster: LocalCluster, settings: Mapping[str, object] | None = None
) -> Driver:
    given = f"LEASE = {LEASE!r}\nSETTINGS = {dict(settings or {})!r}\n"
    return Driver(start(cluster, given + DRIVER_PROGRAM.read_text()))


@pytest.fixture
def start_driver(start_program: StartProgram) -> StartDriver:
    """Starts a driver that does what it is sent; it ends with the test.

    `start_driver(cluster, settings)`: these are Holdfast's, beside those that every driver has.
    """
    return functools.partial(_start_driver, start_program)


@pytest.fixture(scope="module")
def start_lasting_driver() -> Iterator[StartDriver]:
    """Like `start_driver`; the driver ends with the file's last test.

    It has all of the cluster's cores: no other program runs before it has ended.
    """
    with _programs() as start:
        yield functools.partial(_start_driver, start)


@pytest.fixture(scope="session")
def kept_files() -> Callable[[LocalCluster], set[Path]]:
    """Everything of applications, the catalog aside, on the nodes and on the driver's side."""

    def find(cluster: LocalCluster) -> set[Path]:
        places = [*(node.directory for node in cluster.workers), cluster.kept]
        return {
            Path(folder, name)
            for place in places
            for application in place.glob("application-*")
            if CATALOG_APPLICATION.hex not in application.name
            # What vanishes meanwhile is passed over.
            for folder, _, names in os.walk(application)
            for name in names
        }

    return find

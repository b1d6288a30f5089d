"""A Spark cluster for the tests, and programs that run on it.

There is one Spark session to a process, and that of the suite is local: what runs on a cluster is
a program in a process of its own.
"""

from __future__ import annotations

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

from holdfast.cli.local_cluster.errors import NamespacesUnavailableError
from holdfast.cli.local_cluster.local_cluster import LocalCluster, task_executor_command

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

    A third pipe that nobody reads would stop the program when it is full.
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


StartProgram = Callable[..., Program]
RunProgram = Callable[..., Any]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The one cluster of the suite. A test that kills a part of it restarts that part."""
    try:
        with LocalCluster(
            tmp_path_factory.mktemp("cluster"),
            # What a killed driver's tasks leave half written is to go while a test waits for it.
            task_executor_command=lambda *parts: (*task_executor_command(*parts), "--grace", "3"),
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
        settings = {
            "configuration": cluster.driver_configuration() | dict(configuration or {}),
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


@pytest.fixture(scope="module")
def start_lasting_program() -> Iterator[StartProgram]:
    """Like `start_program`; the program ends with the file's last test."""
    with _programs() as start:
        yield start


@pytest.fixture
def run_program(start_program: StartProgram) -> RunProgram:
    """Runs a program on a cluster to its end.

    `run_program(cluster, source, timeout=…, configuration=…)` gives what the last line that the
    program printed says as JSON. A program that fails fails the test, with what it said.
    """

    def run(
        cluster: LocalCluster,
        source: str,
        timeout: float = 100,
        configuration: Mapping[str, str] | None = None,
    ) -> Any:
        program = start_program(cluster, source, configuration)
        try:
            output, _ = program.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            program.kill_all()
            pytest.fail(f"not done within {timeout:g} s:\n{program.complaints()}")
        assert program.returncode == 0, f"{output}\n{program.complaints()}"
        return json.loads(output.splitlines()[-1])

    return run

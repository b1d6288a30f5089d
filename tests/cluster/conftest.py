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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

from holdfast.cli.local_cluster.errors import NamespacesUnavailableError
from holdfast.cli.local_cluster.local_cluster import LocalCluster

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

StartProgram = Callable[..., "subprocess.Popen[str]"]
RunProgram = Callable[..., Any]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The one cluster of the suite. A test that kills a part of it restarts that part."""
    try:
        with LocalCluster(tmp_path_factory.mktemp("cluster")) as cluster:
            yield cluster
    except NamespacesUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def start_program() -> Iterator[StartProgram]:
    """Starts a Python program as a driver on a cluster; it ends with the test.

    `start_program(cluster, source, configuration=…)` gives a `subprocess.Popen` with pipes for the
    standard input and output. The program finds `spark`, `kept`, `task_executors`, `token_file`.
    """
    started: list[subprocess.Popen[str]] = []

    def start(
        cluster: LocalCluster, source: str, configuration: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        settings = {
            "configuration": cluster.driver_configuration() | dict(configuration or {}),
            "kept": str(cluster.kept),
            "task_executors": cluster.task_executor_addresses,
            "token_file": str(cluster.token_file),
        }
        program = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + source],
            env=os.environ
            | cluster.driver_environment()
            | {"CLUSTER_SETTINGS": json.dumps(settings)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Its JVM and its Python workers end with it.
            start_new_session=True,
        )
        started.append(program)
        return program

    yield start
    for program in started:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.communicate()


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
            output, errors = program.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            output, errors = program.communicate()
            pytest.fail(f"not done within {timeout:g} s:\n{output}\n{errors}")
        assert program.returncode == 0, f"{output}\n{errors}"
        return json.loads(output.splitlines()[-1])

    return run

"""Fixtures around task executors: in this process, and as processes of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptPartition, Manifest
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.version import __version__
from tests.free_ports import free_ports


@dataclass
class Caller:
    """An application that has one job at a time, as a job master runs it.

    Attributes:
        gateway: the task executor that it calls.
        application: its id.
        job_id: its job.
    """

    gateway: TaskExecutorGateway
    application: ApplicationID = field(default_factory=ApplicationID.random)
    job_id: JobID = field(default_factory=JobID.random)
    read_root: str = ""

    def connect(self, lease_seconds: float = 60) -> Caller:
        registration = self.gateway.register_application(
            self.application, lease_seconds, __version__
        )
        self.read_root = registration.read_root
        self.gateway.register_job(self.application, self.job_id)
        return self

    def open(self, output: OutputID) -> Path:
        return Path(self.gateway.open_output(self.application, self.job_id, output))

    def finish(
        self, output: OutputID, indices: list[int] | None = None, number: int | None = None
    ) -> tuple[KeptPartition, ...]:
        return self.gateway.finish_output(self.application, self.job_id, output, indices, number)

    def promote(self, output: OutputID, kept: tuple[KeptPartition, ...]) -> None:
        self.gateway.promote(self.application, self.job_id, output, manifest_of(output, kept))

    def keep(self, digit: str, indices: tuple[int, ...] = (0, 1)) -> OutputID:
        """Writes, finishes and promotes an output."""
        output = output_of(digit)
        write(self.open(output), *indices)
        self.promote(output, self.finish(output))
        return output

    def outputs(self) -> list[OutputID]:
        return [each.output for each in self.gateway.report(self.application)]


class ExecutorProcess:
    """A real task executor. Arguments that are given last win."""

    def __init__(self, directory: Path, *arguments: str, **environment: str) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "holdfast.cli.main", "taskexecutor", "start"),
                *("--dir", str(directory), "--grace", "0.5"),
                *arguments,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def serving(self) -> ExecutorProcess:
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert self.line, self.process.communicate()[1]
        self.address = self.line.split()[3]
        return self

    @property
    def port(self) -> str:
        return self.address.rpartition(":")[2]

    @property
    def token(self) -> str:
        return (self.directory / "token").read_text().strip()

    def gateway(self, token: str | None = None) -> RemoteTaskExecutor:
        return RemoteTaskExecutor(self.address, token or self.token)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def refused(self) -> tuple[int, str]:
        """Waits for the end: its exit code, and what it said."""
        out, err = self.process.communicate(timeout=30)
        assert out == ""
        return self.process.returncode, err

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


Start = Callable[..., ExecutorProcess]


def _starting() -> Iterator[Start]:
    started: list[ExecutorProcess] = []

    def run(directory: Path, *arguments: str, **environment: str) -> ExecutorProcess:
        started.append(ExecutorProcess(directory, *arguments, **environment))
        return started[-1]

    yield run
    for each in started:
        each.end()


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that end with the test."""
    yield from _starting()


@pytest.fixture(scope="module")
def start_for_module() -> Iterator[Start]:
    """Starts processes that end with the module."""
    yield from _starting()


@pytest.fixture(scope="session")
def make_caller() -> type[Caller]:
    """Makes applications."""
    return Caller


@pytest.fixture(scope="session")
def leave() -> Callable[..., None]:
    """Leaves partitions in a directory as Spark's tasks do."""
    return write


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on."""
    return free_ports(1)[0]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port where nobody ever answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


@pytest.fixture
def other_server() -> Iterator[int]:
    """A server that is no task executor."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExecutorProcess]:
    """One real task executor for a whole module."""
    executor = ExecutorProcess(tmp_path_factory.mktemp("served") / "kept")
    yield executor.serving()
    executor.end()


def output_of(digit: str, attempt: str = "0badcafe") -> OutputID:
    return OutputID(IntermediateDataSetID(digit * 64), attempt)


def manifest_of(output: OutputID, kept: tuple[KeptPartition, ...]) -> Manifest:
    description = DataSetDescription(
        dataset_id=output.dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
    )
    return Manifest(created="2026-11-21T00:00:00+00:00", dataset=description, partitions=kept)


def write(directory: Path, *indices: int, rows: int = 3, name: str = "x") -> None:
    """Leaves partitions as Spark's tasks do."""
    directory.mkdir(parents=True, exist_ok=True)
    for index in indices:
        file = directory / f"part-{index:05}-{name}-c000.zstd.parquet"
        pq.write_table(pa.table({"a": list(range(rows))}), file)
        file.with_name(f".{file.name}.crc").write_bytes(b"crc")

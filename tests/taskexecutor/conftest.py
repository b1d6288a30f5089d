"""Fixtures around task executors as processes of their own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from holdfast.taskexecutor.calls.client import RemoteTaskExecutor
from tests.free_ports import free_ports
from tests.harness.forked import Command
from tests.taskexecutor.nodes import Drivers, Node


class ExecutorProcess:
    """A real task executor. Arguments that are given last win."""

    def __init__(self, directory: Path, *arguments: str, **environment: str) -> None:
        self.directory = directory
        self.process = Command(
            *("taskexecutor", "start", "--dir", directory, "--grace", "0.5"),
            *arguments,
            environment=environment,
        )

    def serving(self) -> ExecutorProcess:
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

    def end(self) -> None:
        self.kill()


Start = Callable[..., ExecutorProcess]


@contextmanager
def _starting() -> Iterator[Start]:
    started: list[ExecutorProcess] = []

    def run(directory: Path, *arguments: str, **environment: str) -> ExecutorProcess:
        started.append(ExecutorProcess(directory, *arguments, **environment))
        return started[-1]

    try:
        yield run
    finally:
        for each in started:
            each.end()


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that end with the test."""
    with _starting() as run:
        yield run


@pytest.fixture(scope="module")
def start_for_module() -> Iterator[Start]:
    """Starts processes that end with the module."""
    with _starting() as run:
        yield run


@pytest.fixture(scope="module")
def served(start_for_module: Start, tmp_path_factory: pytest.TempPathFactory) -> ExecutorProcess:
    """One real task executor for a whole module."""
    return start_for_module(tmp_path_factory.mktemp("served") / "kept").serving()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Node]]:
    """Two machines for a whole module."""
    root = tmp_path_factory.mktemp("nodes")
    found = [Node(root / f"node-{number}", port) for number, port in enumerate(free_ports(2))]
    yield found
    for node in found:
        node.kill()


@contextmanager
def _drivers(nodes: list[Node]) -> Iterator[Drivers]:
    drivers = Drivers(nodes)
    yield drivers
    drivers.close()
    for node in nodes:
        if node.process.poll() is not None:
            node.start()


@pytest.fixture
def pair(nodes: list[Node]) -> Iterator[Drivers]:
    """Drivers of a job on two machines."""
    with _drivers(nodes) as drivers:
        yield drivers


@pytest.fixture
def lone(nodes: list[Node]) -> Iterator[Drivers]:
    """Drivers of a job on one machine."""
    with _drivers(nodes[:1]) as drivers:
        yield drivers


@pytest.fixture
def free_port() -> int:
    """A port that nothing listens on."""
    return free_ports(1)[0]


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that never answers."""
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

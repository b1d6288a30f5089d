"""Drivers that are really killed, and really stopped."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterator
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import StaleEpochError
from holdfast.eventstore.events import JobStatus
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_record import VertexProgress
from holdfast.highavailability.job_start import JobStart

VERTICES = tuple(str(digit) * 64 for digit in range(8))
QUERY = JobIdentity(digest="1" * 64, action="collect", vertices=VERTICES)
PROGRESS = {
    vertex: VertexProgress(name=str(number), done=1, all=1)
    for number, vertex in enumerate(VERTICES)
}
WRITE = JobIdentity(digest="1" * 64, action="save", sink="file:/out")


def drive(root: Path, commands: Connection) -> None:
    """Does what it is sent, and answers what came of it."""
    storage = HighAvailabilityStorage(root, uuid.uuid4().hex)
    start: JobStart
    while True:
        command, *arguments = commands.recv()
        try:
            match command:
                case "begin":
                    start = storage.begin(*arguments)
                    commands.send((start.epoch, start.previous is not None, start.already_done))
                case "close":
                    commands.send(storage.close())
                case "journal":
                    commands.send(start.journal.write(*arguments))
                case "update":
                    commands.send(start.update(task_executors=arguments))
                case "end":
                    commands.send(start.end(JobStatus.FINISHED, keep="keep" in arguments))
                case _:
                    commands.send(start.check())
        except StaleEpochError as error:
            commands.send(("stale", error.epoch))


class Driver:
    """A process that drives jobs."""

    def __init__(self, root: Path) -> None:
        self.commands, theirs = Pipe()
        self.process = get_context("fork").Process(target=drive, args=(root, theirs), daemon=True)
        self.process.start()

    def __call__(self, *command: object) -> Any:
        self.commands.send(command)
        return self.commands.recv()

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)
        if number is signal.SIGKILL:
            self.process.join()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ha"


@pytest.fixture
def drivers(root: Path) -> Iterator[list[Driver]]:
    started = [Driver(root) for _ in range(3)]
    yield started
    for driver in started:
        driver.process.kill()
        driver.process.join()


def states(root: Path) -> list[tuple[str, bool]]:
    storage = HighAvailabilityStorage(root)
    return [(job.state.value, job.driven) for job in storage.jobs()]


def test_a_killed_driver_differs_from_a_living_and_from_a_stopped_one(
    root: Path, drivers: list[Driver]
) -> None:
    first, second, third = drivers
    first("begin", WRITE)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        first.signal(number)
        assert states(root) == [("running", True)]
    first("journal", "a stage")
    first.signal(signal.SIGKILL)
    assert states(root) == [("recoverable", False)]
    assert second("begin", WRITE)[1:] == (True, False)
    second("end", "keep")
    assert states(root) == [("ended", True)]
    second.signal(signal.SIGKILL)
    assert states(root) == [("ended", False)]
    assert third("begin", WRITE)[1:] == (True, True)
    third("close")
    assert states(root) == []


def test_a_stopped_driver_can_do_no_harm_when_it_wakes(root: Path, drivers: list[Driver]) -> None:
    old, new, third = drivers
    epoch, *_ = old("begin", WRITE)
    old.signal(signal.SIGSTOP)
    # It finds these when it wakes.
    commands = [("check",), ("journal", "x"), ("update", "x"), ("end", "keep"), ("end",)]
    for command in commands:
        old.commands.send(command)
    newer, previous, done = new("begin", WRITE)
    assert (newer > epoch, previous, done) == (True, True, False)
    new("journal", "mine")
    old.signal(signal.SIGCONT)
    assert [old.commands.recv() for _ in commands] == [("stale", epoch)] * len(commands)
    assert new("check") is None
    old("close")
    assert new("end") is True
    third("begin", WRITE)
    assert (old("check"), new("check")) == (("stale", epoch), ("stale", newer))
    assert third("check") is None


def run_until_killed(root: Path, out: int) -> None:
    """Begins, resumes and ends one job again and again, and says how far it got."""
    storage = HighAvailabilityStorage(root, uuid.uuid4().hex)
    while True:
        start = storage.begin(QUERY)
        known = {} if start.previous is None else dict(start.previous.vertices)
        os.write(out, f"{start.epoch} {len(known)}\n".encode())
        for vertex in VERTICES[len(known) :]:
            known[vertex] = PROGRESS[vertex]
            start.update(vertices=known, sources=[len(known)] * 100)
            os.write(out, f"{start.epoch} {len(known)}\n".encode())
        os.write(out, f"{start.epoch} ending\n".encode())
        start.end(JobStatus.FINISHED, keep=False)


def killed_after(root: Path, seconds: float) -> list[tuple[int, str]]:
    """What a driver has said that was killed so long after its job had begun."""
    heard, out = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            run_until_killed(root, out)
        finally:
            os._exit(1)
    os.close(out)
    with os.fdopen(heard) as lines:
        first = lines.readline()
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        said = [line.split() for line in (first, *lines)]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return [(int(epoch), what) for epoch, what in said]


@pytest.mark.parametrize("kills", [15, pytest.param(200, marks=pytest.mark.soak)])
def test_whenever_a_driver_is_killed_the_next_one_resumes_from_what_it_said(
    root: Path, kills: int
) -> None:
    newest = 0
    for number in range(kills):
        said = killed_after(root, number % 40 * 0.003)
        epochs, last = [epoch for epoch, _ in said], said[-1][1]
        assert epochs == sorted(epochs) and epochs[0] > newest
        storage = HighAvailabilityStorage(root, uuid.uuid4().hex)
        possible = {"recoverable", "ended"} if last == "ending" else {"recoverable"}
        assert {job.state.value for job in storage.jobs()} <= possible, said
        start = storage.begin(QUERY)
        assert start.epoch > epochs[-1]
        newest = start.epoch
        found = {} if start.previous is None else start.previous.vertices
        assert found == dict(list(PROGRESS.items())[: len(found)])
        # Ended, begun again, or neither; else what it said, or one more.
        done = (0, len(VERTICES)) if last == "ending" else (int(last), int(last) + 1)
        assert len(found) in done, said
        if start.previous is not None:
            sources = [[n] * 100 for n in (len(found), len(found) + 1)]
            assert start.previous.sources in (None, *sources)
        start.let_go()

"""Drivers that are really killed, really stopped, and really at it at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
from holdfast.highavailability.job_start import JobStart

VERTICES = tuple(str(digit) * 64 for digit in range(8))
QUERY = JobIdentity(digest="1" * 64, action="collect", vertices=VERTICES)
WRITE = JobIdentity(digest="1" * 64, action="save", sink="file:/out")

# Each child begins, resumes and ends one job for ever, and says how far it got; it is killed
# some microseconds after it has begun. What it said must be found, and nothing else.
_KILLER = """
import os, signal, sys, time
from pathlib import Path
from holdfast.eventstore.events import JobStatus
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_record import VertexProgress

root, identity = Path(sys.argv[1]), JobIdentity.model_validate_json(sys.argv[2])
progress = {
    vertex: VertexProgress(name=str(number), done=1, all=1)
    for number, vertex in enumerate(identity.vertices)
}

def run_for_ever(out):
    storage = HighAvailabilityStorage(root)
    while True:
        start = storage.begin(identity)
        known = {} if start.previous is None else dict(start.previous.vertices)
        os.write(out, f"{start.epoch} {len(known)}\\n".encode())
        for vertex in identity.vertices[len(known):]:
            known[vertex] = progress[vertex]
            start.update(vertices=known, sources=[len(known)] * 100)
            os.write(out, f"{start.epoch} {len(known)}\\n".encode())
        os.write(out, f"{start.epoch} ending\\n".encode())
        start.end(JobStatus.FINISHED, keep=False)

newest = 0
for number in range(int(sys.argv[3])):
    heard, out = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        run_for_ever(out)
    os.close(out)
    with os.fdopen(heard) as lines:
        first = lines.readline()
        time.sleep(number % 40 * 0.0044)
        os.kill(child, signal.SIGKILL)
        said = [line.split() for line in (first, *lines)]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    epochs = [int(epoch) for epoch, _ in said]
    assert epochs == sorted(epochs) and epochs[0] > newest, (newest, said)
    storage = HighAvailabilityStorage(root)
    states = {"recoverable", *(("ended",) if said[-1][1] == "ending" else ())}
    assert {job.state.value for job in storage.jobs()} <= states, (said, storage.jobs())
    start = storage.begin(identity)
    assert start.epoch > epochs[-1]
    newest = start.epoch
    found = {} if start.previous is None else dict(start.previous.vertices)
    assert found == dict(list(progress.items())[:len(found)])
    if said[-1][1] == "ending":
        # Ended, begun again, or neither.
        assert len(found) in (0, len(progress)), (said, found)
    else:
        assert len(found) in (int(said[-1][1]), int(said[-1][1]) + 1), (said, found)
    if start.previous is not None:
        assert start.previous.sources in (None, *([n] * 100 for n in (len(found), len(found) + 1)))
    start.let_go()
    print(len(said), flush=True)
"""


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


@pytest.mark.parametrize("killed", [10, pytest.param(200, marks=pytest.mark.soak)])
def test_whenever_a_driver_is_killed_the_next_one_resumes_from_what_it_said(
    root: Path, killed: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _KILLER, str(root), QUERY.model_dump_json(), str(killed)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )
    assert len(done.stdout.split()) == killed

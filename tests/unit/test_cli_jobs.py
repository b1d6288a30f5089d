"""`holdfast jobs`, over what this process records."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from holdfast.eventstore.events import JobStatus
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_record import VertexProgress
from holdfast.highavailability.job_start import JobStart
from tests.unit.listed_results import Command

A, B = "1" * 64, "2" * 64
VERTICES = {
    A: VertexProgress(name="Scan over lineitem", done=8, all=8),
    B: VertexProgress(name="Join", done=3, all=8),
}
Begun = Callable[..., JobStart]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ha"


@pytest.fixture
def begun(root: Path) -> Iterator[Begun]:
    """Begins a job of a number and a name."""
    storage = HighAvailabilityStorage(root)

    def begin(number: int = 0, name: str = "") -> JobStart:
        identity = JobIdentity(digest=A, action="save", sink="file:/out", occurrence=number)
        return storage.begin(identity, name)

    yield begin
    storage.close()


@pytest.fixture
def jobs(capsys: pytest.CaptureFixture[str], root: Path) -> Command:
    return Command(capsys, "--storage-dir", str(root))


def test_every_job_is_an_object(begun: Begun, jobs: Command) -> None:
    for _ in range(2):
        begun(0, "the answer").let_go()
    start = begun(0, "the answer")
    start.update(task_executors=["left:1"], vertices=VERTICES)
    files = sorted((each, each.stat().st_ctime_ns) for each in start.directory.parent.rglob("*"))
    (found,) = jobs.json("jobs")
    expected = {
        "id": start.job_id.hex,
        "name": "the answer",
        "state": "running",
        "status": None,
        "action": "save",
        "sink": "file:/out",
        "epoch": 3,
        "starts": 3,
        "ended": None,
        "driver": {"host": socket.gethostname(), "pid": os.getpid()},
        "driver_lives": True,
        "vertices_done": 1,
        "vertices_all": 2,
        "partitions_done": 11,
        "partitions_all": 16,
        "map_tasks_done": None,
        "task_executors": ["left:1"],
        "directory": str(start.directory),
    }
    assert found == {**found, **expected}
    assert datetime.fromisoformat(found["begun"]) < datetime.fromisoformat(found["started"])
    scan, join = found["vertices"]
    assert (scan["dataset"], scan["name"]) == (A, "Scan over lineitem")
    assert (join["partitions_done"], join["partitions_all"]) == (3, 8)
    # Looking changes nothing.
    assert [(each, each.stat().st_ctime_ns) for each, _ in files] == files
    start.check()
    # What a vertex has to do may not be decided yet.
    start.update(vertices={**VERTICES, "3" * 64: VertexProgress(name="Sort")})
    (found,) = jobs.json("jobs")
    assert (found["vertices_all"], found["partitions_all"]) == (3, None)


def test_jobs_are_shown_with_what_becomes_of_them(begun: Begun, jobs: Command, root: Path) -> None:
    names = ("\x1b[31mred\njob", *(f"job {number}" for number in range(1, 4)))
    running, killed, ended, damaged = map(begun, range(4), names)
    killed.update(vertices=VERTICES)
    killed.let_go()
    ended.end(JobStatus.FINISHED, keep=True)
    damaged.let_go()
    for path in damaged.directory.glob("record-*"):
        path.write_text("{")
    begun(4).end(JobStatus.FINISHED, keep=False)
    # One that is being made or removed, and what others have left.
    for name in (f"job-{'0' * 32}/epochs", "job-of-somebody", "application-x"):
        (root / name).mkdir(parents=True)
    states = [(job["state"], job["status"], job["name"]) for job in jobs.json("jobs")]
    assert states == [
        ("running", None, names[0]),
        ("recoverable", None, "job 1"),
        ("ended", "FINISHED", "job 2"),
        ("damaged", None, None),
    ]
    header, *lines = jobs.shows("jobs").splitlines()
    assert header.split() == "ID NAME STATE VERTICES PARTS AGE STARTS EPOCH DRIVER".split()
    for line, start in zip(lines, (running, killed, ended, damaged), strict=False):
        assert line.startswith(start.job_id.hex[:8])
    assert "?[31mred?job" in lines[0]
    assert lines[0].endswith(f"{os.getpid()} on {socket.gethostname()}")
    assert all(each in lines[1] for each in ("1/2", "11/16", "recoverable"))
    assert "job 2 (finished)" in lines[2] and "damaged" in lines[3]
    assert lines[-1] == f"in {root}"


def test_map_tasks_whose_output_is_kept_are_counted(
    begun: Begun, jobs: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffles = tmp_path / "shuffles"
    for name, tasks in {"a": ("0-4", "0-9", "1-5"), "b": ("0-6",), "c": ()}.items():
        (shuffles / name).mkdir(parents=True)
        for task in tasks:
            for kind in ("data", "index"):
                (shuffles / name / f"{task}-10-100.{kind}").touch()
    # Without its index it isn't whole.
    (shuffles / "a" / "2-7-10-100.data").touch()
    begun(0).update(shuffles=shuffles)
    begun(1).update(shuffles=tmp_path / "gone")
    fresh = begun(2)
    fresh.update(shuffles=shuffles)
    fresh.take_fresh_epoch()
    assert [job["map_tasks_done"] for job in jobs.json("jobs")] == [3, 0, None]
    shown = jobs.shows("jobs")
    assert shown.split()[4:6] == ["PARTS", "TASKS"]
    assert "TASKS: completed shuffle map tasks that need not be rerun" in shown
    # Those of a job of another machine can't be counted.
    monkeypatch.setattr(socket, "gethostname", lambda: "another-machine")
    assert [job["map_tasks_done"] for job in jobs.json("jobs")] == [None, None, None]


def test_the_directory_may_be_a_uri_and_come_from_the_environment(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command(capsys)
    said = command.refuses("jobs", "--storage-dir", str(root))
    assert said == f"holdfast jobs: {root}: no such directory\n"
    root.mkdir()
    monkeypatch.delenv("HOLDFAST_STORAGE_DIR", raising=False)
    assert "set --storage-dir DIR or $HOLDFAST_STORAGE_DIR" in command.refuses("jobs")
    monkeypatch.setenv("HOLDFAST_STORAGE_DIR", root.as_uri())
    assert command.shows("jobs") == f"No jobs are recorded in {root}.\n"
    monkeypatch.setenv("HOLDFAST_STORAGE_DIR", "s3://bucket/x")
    assert "$HOLDFAST_STORAGE_DIR: expected" in command.refuses("jobs")

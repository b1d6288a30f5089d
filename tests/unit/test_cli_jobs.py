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
    start = begun(0, "the answer")
    start.update(task_executors=["left:1"], vertices=VERTICES)
    (found,) = jobs.json("jobs")
    expected = {
        "id": start.job_id.hex,
        "name": "the answer",
        "state": "running",
        "status": None,
        "action": "save",
        "sink": "file:/out",
        "epoch": 1,
        "starts": 1,
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
    assert datetime.fromisoformat(found["begun"]) <= datetime.fromisoformat(found["started"])
    scan, join = found["vertices"]
    assert (scan["dataset"], scan["name"]) == (A, "Scan over lineitem")
    assert (join["partitions_done"], join["partitions_all"]) == (3, 8)
    # What a vertex has to do may not be decided yet.
    start.update(vertices={**VERTICES, "3" * 64: VertexProgress(name="Sort")})
    (found,) = jobs.json("jobs")
    assert (found["vertices_all"], found["partitions_all"]) == (3, None)


def test_jobs_are_shown_with_what_becomes_of_them(begun: Begun, jobs: Command, root: Path) -> None:
    running, killed, ended, damaged = (begun(number, f"job {number}") for number in range(4))
    killed.update(vertices=VERTICES)
    killed.let_go()
    ended.end(JobStatus.FINISHED, keep=True)
    damaged.let_go()
    for path in damaged.directory.glob("record-*"):
        path.write_text("{")
    states = [(job["state"], job["status"], job["name"]) for job in jobs.json("jobs")]
    assert states == [
        ("running", None, "job 0"),
        ("recoverable", None, "job 1"),
        ("ended", "FINISHED", "job 2"),
        ("damaged", None, None),
    ]
    header, *lines = jobs.shows("jobs").splitlines()
    assert header.split() == "ID NAME STATE VERTICES PARTS AGE STARTS EPOCH DRIVER".split()
    for line, start in zip(lines, (running, killed, ended, damaged), strict=False):
        assert line.startswith(start.job_id.hex[:8])
    assert "job 0" in lines[0] and lines[0].endswith(f"{os.getpid()} on {socket.gethostname()}")
    assert all(each in lines[1] for each in ("1/2", "11/16", "recoverable"))
    assert "job 2 (finished)" in lines[2] and "damaged" in lines[3]
    assert lines[-1] == f"in {root}"


def test_a_job_that_was_started_again_says_how_often(begun: Begun, jobs: Command) -> None:
    for _ in range(3):
        begun().let_go()
    (found,) = jobs.json("jobs")
    assert (found["starts"], found["epoch"], found["driver_lives"]) == (3, 3, False)
    assert found["begun"] < found["started"]


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
    header, first, second, *rest = jobs.shows("jobs").splitlines()
    assert header.split()[4:6] == ["PARTS", "TASKS"]
    assert [line.split()[5] for line in (first, second)] == ["3", "0"]
    assert "TASKS: completed shuffle map tasks that need not be rerun" in rest
    # Those of a job of another machine can't be counted.
    monkeypatch.setattr(socket, "gethostname", lambda: "another-machine")
    assert [job["map_tasks_done"] for job in jobs.json("jobs")] == [None, None, None]


def test_looking_changes_nothing(begun: Begun, jobs: Command) -> None:
    def there() -> list[tuple[str, int, int]]:
        found = start.directory.parent.rglob("*")
        return sorted((str(each), each.stat().st_mtime_ns, each.stat().st_ino) for each in found)

    start = begun()
    before = there()
    jobs.shows("jobs")
    jobs.json("jobs")
    assert there() == before
    start.check()


def test_what_is_no_job_is_not_shown(begun: Begun, jobs: Command, root: Path) -> None:
    begun().end(JobStatus.FINISHED, keep=False)
    # One that is being made or removed, and what others have left.
    for name in (f"job-{'0' * 32}/epochs", "job-of-somebody", "application-x"):
        (root / name).mkdir(parents=True)
    assert jobs.shows("jobs") == f"No jobs are recorded in {root}.\n"
    assert jobs.json("jobs") == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("{}/nowhere", "{}/nowhere: no such directory"),
        ("{}/file", "{}/file: can't be listed: Not a directory"),
        ("{}/file/in", "{}/file/in: can't be listed: Not a directory"),
        *((given, repr(given)) for given in ("hdfs://name/ha", "", "file://other/ha")),
    ],
)
def test_a_wrong_directory_is_bad_input(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, given: str, why: str
) -> None:
    (tmp_path / "file").touch()
    said = Command(capsys, "--storage-dir", given.format(tmp_path)).refuses("jobs")
    assert why.format(tmp_path) in said and len(said.splitlines()) == 1


def test_the_directory_may_be_a_uri_and_come_from_the_environment(
    begun: Begun,
    jobs: Command,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun()
    anywhere = Command(capsys)
    monkeypatch.delenv("HOLDFAST_STORAGE_DIR", raising=False)
    assert "set --storage-dir DIR or $HOLDFAST_STORAGE_DIR" in anywhere.refuses("jobs")
    monkeypatch.setenv("HOLDFAST_STORAGE_DIR", root.as_uri())
    assert anywhere.shows("jobs") == jobs.shows("jobs")
    monkeypatch.setenv("HOLDFAST_STORAGE_DIR", "s3://bucket/x")
    assert "$HOLDFAST_STORAGE_DIR: expected" in anywhere.refuses("jobs")


def test_control_characters_of_a_name_are_not_obeyed(begun: Begun, jobs: Command) -> None:
    begun(0, "\x1b[31mred\nline")
    assert "?[31mred?line" in jobs.shows("jobs")

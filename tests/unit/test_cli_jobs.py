"""`holdfast jobs`, over what this process records."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main as cli
from holdfast.cli.jobs.progress import Progress
from holdfast.eventstore.events import JobStatus
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_record import VertexProgress
from holdfast.highavailability.job_start import JobStart

A, B = "1" * 64, "2" * 64
WRITE = JobIdentity(digest=A, action="save", sink="file:/out")
VERTICES = {
    A: VertexProgress(name="Scan over lineitem", done=8, all=8),
    B: VertexProgress(name="Join", done=3, all=8),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "ha"


@pytest.fixture
def storage(root: Path) -> Iterator[HighAvailabilityStorage]:
    storage = HighAvailabilityStorage(root)
    yield storage
    storage.close()


class Command:
    """Runs the command, and says what it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str], root: Path) -> None:
        self.capsys = capsys
        self.root = root

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = cli.main(["jobs", "--storage-dir", str(self.root), *arguments])
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def json(self) -> list[dict[str, Any]]:
        code, out, err = self("--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert isinstance(found, list)
        return found


@pytest.fixture
def jobs(capsys: pytest.CaptureFixture[str], root: Path) -> Command:
    return Command(capsys, root)


def begun(storage: HighAvailabilityStorage, number: int, name: str = "") -> JobStart:
    return storage.begin(WRITE.model_copy(update={"occurrence": number}), name)


def test_every_job_is_an_object(storage: HighAvailabilityStorage, jobs: Command) -> None:
    before = datetime.now(timezone.utc)
    start = begun(storage, 0, "the answer")
    start.update(task_executors=["left:1"], vertices=VERTICES)
    (found,) = jobs.json()
    for moment in ("begun", "started"):
        assert before <= datetime.fromisoformat(found.pop(moment)) <= datetime.now(timezone.utc)
    assert 0 <= found.pop("age_seconds") < 60
    assert found == {
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
        "vertices": [
            {
                "dataset": A,
                "name": "Scan over lineitem",
                "partitions_done": 8,
                "partitions_all": 8,
            },
            {"dataset": B, "name": "Join", "partitions_done": 3, "partitions_all": 8},
        ],
        "task_executors": ["left:1"],
        "directory": str(start.directory),
    }


def test_jobs_are_shown_with_what_becomes_of_them(
    storage: HighAvailabilityStorage, jobs: Command, root: Path
) -> None:
    running, killed, ended, damaged = (
        begun(storage, number, f"job {number}") for number in range(4)
    )
    killed.update(vertices=VERTICES)
    killed.let_go()
    ended.end(JobStatus.FINISHED, keep=True)
    damaged.let_go()
    for path in damaged.directory.glob("record-*"):
        path.write_text("{")
    assert [job["state"] for job in jobs.json()] == [
        *("running", "recoverable", "ended", "damaged"),
    ]
    (_, _, ended_object, damaged_object) = jobs.json()
    assert (ended_object["status"], damaged_object["name"]) == ("FINISHED", None)
    assert damaged_object["id"] == damaged.job_id.hex
    code, out, err = jobs()
    assert (code, err) == (0, "")
    header, first, second, third, fourth, *rest = out.splitlines()
    assert header.split() == [
        *("ID", "NAME", "STATE", "VERTICES", "PARTS", "AGE", "STARTS", "EPOCH", "DRIVER"),
    ]
    driver = f"{os.getpid()} on {socket.gethostname()}"
    for line, start in zip((first, second, third), (running, killed, ended), strict=True):
        assert line.startswith(start.job_id.hex[:8])
        assert line.endswith(driver)
    assert "job 0" in first and "running" in first
    assert "1/2" in second and "11/16" in second and "recoverable" in second
    assert "job 2 (finished)" in third
    assert "damaged" in fourth
    assert [line.split(":")[0] for line in rest[:-1]] == ["recoverable", "ended", "damaged"]
    assert rest[-1] == f"in {root}"


def test_a_job_that_was_started_again_says_how_often(
    storage: HighAvailabilityStorage, jobs: Command
) -> None:
    for _ in range(3):
        start = begun(storage, 0)
        start.let_go()
    (found,) = jobs.json()
    assert (found["starts"], found["epoch"], found["driver_lives"]) == (3, 3, False)
    assert found["begun"] < found["started"]


def test_map_tasks_whose_output_is_kept_are_counted(
    storage: HighAvailabilityStorage, jobs: Command, tmp_path: Path
) -> None:
    shuffles = tmp_path / "shuffles"
    for name, tasks in {"a": ("0-4", "0-9", "1-5"), "b": ("0-6",), "c": ()}.items():
        (shuffles / name).mkdir(parents=True)
        for task in tasks:
            for kind in ("data", "index"):
                (shuffles / name / f"{task}-10-100.{kind}").touch()
    # Without its index it isn't whole.
    (shuffles / "a" / "2-7-10-100.data").touch()
    begun(storage, 0).update(shuffles=shuffles)
    begun(storage, 1)
    assert [job["map_tasks_done"] for job in jobs.json()] == [3, None]
    header, first, second, *rest = jobs()[1].splitlines()
    assert header.split()[4:6] == ["PARTS", "TASKS"]
    assert [line.split()[3:6] for line in (first, second)] == [["-", "-", "3"], ["-", "-", "-"]]
    assert "TASKS: completed shuffle map tasks that need not be rerun" in rest


def test_map_tasks_of_a_job_that_lies_elsewhere_are_not_known(
    storage: HighAvailabilityStorage, jobs: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = begun(storage, 0)
    start.update(shuffles=tmp_path / "gone")
    assert jobs.json()[0]["map_tasks_done"] == 0
    monkeypatch.setattr(socket, "gethostname", lambda: "another-machine")
    assert jobs.json()[0]["map_tasks_done"] is None


def test_what_a_job_that_starts_anew_had_kept_is_not_counted(
    storage: HighAvailabilityStorage, jobs: Command, tmp_path: Path
) -> None:
    start = begun(storage, 0)
    start.update(shuffles=tmp_path)
    start.take_fresh_epoch()
    assert jobs.json()[0]["map_tasks_done"] is None


def test_looking_changes_nothing(storage: HighAvailabilityStorage, jobs: Command) -> None:
    start = begun(storage, 0)

    def there() -> list[tuple[str, int, int]]:
        found = start.directory.parent.rglob("*")
        return sorted((str(each), each.stat().st_mtime_ns, each.stat().st_ino) for each in found)

    before = there()
    jobs()
    jobs.json()
    assert there() == before
    start.check()


def test_no_jobs_are_a_sentence(
    storage: HighAvailabilityStorage, jobs: Command, root: Path
) -> None:
    assert jobs() == (0, f"No jobs are recorded in {root}.\n", "")
    assert jobs.json() == []
    begun(storage, 0).end(JobStatus.FINISHED, keep=False)
    assert jobs() == (0, f"No jobs are recorded in {root}.\n", "")


def test_another_directory_has_no_jobs(jobs: Command, root: Path) -> None:
    (root / "job-of-somebody").mkdir(parents=True)
    (root / "application-x").mkdir()
    assert jobs() == (0, f"No jobs are recorded in {root}.\n", "")


def test_a_job_that_is_being_removed_or_made_is_none(jobs: Command, root: Path) -> None:
    (root / f"job-{'0' * 32}" / "epochs").mkdir(parents=True)
    assert jobs() == (0, f"No jobs are recorded in {root}.\n", "")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("nowhere", "no such directory"),
        ("file", "can't be listed: Not a directory"),
        ("file/in", "can't be listed: Not a directory"),
    ],
)
def test_a_wrong_directory_is_bad_input(
    jobs: Command, tmp_path: Path, given: str, why: str
) -> None:
    (tmp_path / "file").touch()
    code, out, err = jobs("--storage-dir", str(tmp_path / given))
    assert (code, out, err) == (2, "", f"holdfast jobs: {tmp_path / given}: {why}\n")


@pytest.mark.parametrize("given", ["hdfs://name/ha", "", "file://other/ha"])
def test_what_is_no_directory_is_bad_input(jobs: Command, given: str) -> None:
    code, out, err = jobs("--storage-dir", given)
    assert (code, out) == (2, "")
    assert "expected a directory accessible from every machine" in err
    assert repr(given) in err
    assert len(err.splitlines()) == 1


def test_a_uri_is_a_directory_too(
    storage: HighAvailabilityStorage, jobs: Command, root: Path
) -> None:
    begun(storage, 0)
    assert jobs("--storage-dir", root.as_uri())[1] == jobs()[1]


def test_the_directory_may_come_from_the_environment(
    storage: HighAvailabilityStorage,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("HOLDFAST_STORAGE_DIR", raising=False)
    assert cli.main(["jobs"]) == 2
    assert "set --storage-dir DIR or $HOLDFAST_STORAGE_DIR" in capsys.readouterr().err
    monkeypatch.setenv("HOLDFAST_STORAGE_DIR", root.as_uri())
    assert cli.main(["jobs"]) == 0
    assert capsys.readouterr().out == f"No jobs are recorded in {root}.\n"
    monkeypatch.setenv("HOLDFAST_STORAGE_DIR", "s3://bucket/x")
    assert cli.main(["jobs"]) == 2
    assert "$HOLDFAST_STORAGE_DIR: expected" in capsys.readouterr().err


def test_a_name_can_t_play_with_the_terminal(
    storage: HighAvailabilityStorage, jobs: Command
) -> None:
    begun(storage, 0, "\x1b[31mred\nline")
    _, out, _ = jobs()
    assert "\x1b" not in out
    assert "?[31mred?line" in out


def test_a_pipe_that_closes_ends_it_quietly(storage: HighAvailabilityStorage, root: Path) -> None:
    begun(storage, 0)
    command = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli.main", "jobs", "--storage-dir", str(root)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert command.stdout is not None
    command.stdout.close()
    assert command.stderr is not None
    assert command.stderr.read() == b""
    assert command.wait(timeout=60) == 1


def test_progress_counts_what_is_decided(storage: HighAvailabilityStorage) -> None:
    assert Progress.of(None) == Progress(0, 0, 0, 0)
    start = begun(storage, 0)
    start.update(vertices=VERTICES)
    assert Progress.of(start.record) == Progress(1, 2, 11, 16)
    start.update(vertices={**VERTICES, "3" * 64: VertexProgress(name="Sort")})
    assert Progress.of(start.record) == Progress(1, 3, 11, None)

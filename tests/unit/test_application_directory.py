"""A directory that goes with its process, however that ends, and never with another's."""

from __future__ import annotations

import fcntl
import gc
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.errors import StorageError
from holdfast.ids import ApplicationID
from holdfast.taskexecutor.applications.application_directory import (
    EXECUTOR_RECORD,
    ApplicationDirectory,
    remove_garbage,
)


def application(root: Path, *, lock: bool = True) -> Path:
    """A directory as an application leaves it that was killed."""
    path = root / f"application-{uuid4().hex}"
    (path / "datasets" / "one").mkdir(parents=True)
    (path / "datasets" / "one" / "part-0.parquet").touch()
    if lock:
        (path / "lock").touch()
    return path


def age(path: Path) -> None:
    then = time.time() - 3600
    os.utime(path, (then, then))


def test_it_is_its_owner_s_alone_and_goes_when_it_is_closed(tmp_path: Path) -> None:
    directory = ApplicationDirectory.create(tmp_path / "some" / "root")
    for path in (directory.root, directory.path()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for _ in range(2):
        directory.close()
    assert list(directory.root.iterdir()) == []
    with pytest.raises(OSError, match="closed"):
        directory.path()
    # Or with its last reference.
    directory = ApplicationDirectory.create(tmp_path / "some" / "root")
    root = directory.root
    del directory
    gc.collect()
    assert list(root.iterdir()) == []


def test_what_may_belong_to_others_stays(tmp_path: Path) -> None:
    names = ["application-form", "application-", ".new-things", "data", f"x-application-{'0' * 32}"]
    for name in names:
        (tmp_path / name).mkdir()
        age(tmp_path / name)
    (tmp_path / "file").touch()
    locked, left, unlocked = (application(tmp_path, lock=each) for each in (True, True, False))
    # What a living process may be making stays for a while.
    making, aside = (tmp_path / f".new-{uuid4().hex}" for _ in range(2))
    making.mkdir()
    (making / "lock").touch()
    aside.write_text("half of it")
    removed = tmp_path / f".removed-{uuid4().hex}"
    (removed / "datasets" / "x").mkdir(parents=True)
    with (locked / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert sorted(remove_garbage(tmp_path)) == sorted([removed, left])
        for path in (locked, making, aside, unlocked):
            age(path)
        assert sorted(remove_garbage(tmp_path)) == sorted([making, aside, unlocked])
    assert {path.name for path in tmp_path.iterdir()} == {*names, "file", locked.name}
    # What a task executor that is down keeps stays, too.
    (tmp_path / EXECUTOR_RECORD).write_text("{}")
    ApplicationDirectory.create(tmp_path).close()
    assert locked.is_dir()


_ENDING = """
import os, signal, sys
from pathlib import Path
from holdfast.taskexecutor.applications.application_directory import (
    ApplicationDirectory, remove_garbage
)

root, how = Path(sys.argv[1]), sys.argv[2]
directories = [ApplicationDirectory.create(root), ApplicationDirectory.create(root)]
for directory in directories:
    (directory.path() / "datasets").mkdir()
    (directory.path() / "datasets" / "file").touch()
print(*(directory.path() for directory in directories), flush=True)
if how == "a forked child ends":
    for ends in (lambda: sys.exit(5), directories[0].close):
        child = os.fork()
        if child == 0:
            ends()
            sys.exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
        assert all((each.path() / "datasets" / "file").exists() for each in directories)
        assert remove_garbage(root) == []
elif how == "an interrupt":
    signal.raise_signal(signal.SIGINT)
elif how == "SIGKILL":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("how", "status"), [("a forked child ends", 0), ("an interrupt", -2), ("SIGKILL", -9)]
)
def test_a_process_s_directories_go_with_it_and_a_living_one_s_stay(
    tmp_path: Path, how: str, status: int
) -> None:
    root = tmp_path / "root"
    living = ApplicationDirectory.create(root)
    ended = subprocess.run(
        [sys.executable, "-c", _ENDING, str(root), how], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == status, ended.stderr
    theirs = [Path(path) for path in ended.stdout.split()]
    assert len(set(theirs)) == 2
    assert [path.exists() for path in theirs] == [how == "SIGKILL"] * 2
    # The next start removes what no end of a program has.
    ApplicationDirectory.create(root).close()
    assert list(root.iterdir()) == [living.path()]
    living.close()
    assert list(root.iterdir()) == []


def test_a_directory_that_tasks_have_made_gives_way_to_its_application(tmp_path: Path) -> None:
    application_id = ApplicationID.random()
    path = tmp_path / f"application-{application_id.hex}"
    (path / "staging" / "x").mkdir(parents=True)
    (path / "staging" / "x" / "part").touch()
    # One that was killed while it made the directory has left this.
    (tmp_path / f".new-{application_id.hex}").mkdir()
    directory = ApplicationDirectory.create(tmp_path, application_id)
    assert directory.path() == path
    assert [each.name for each in path.iterdir()] == ["lock"]
    # Another process's doesn't give way.
    with pytest.raises(StorageError, match="can't be used to keep results"):
        ApplicationDirectory.create(tmp_path, application_id)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    directory.close()


def test_a_starter_waits_for_who_looks_at_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making the lock's file and taking the lock, another start may be looking at it."""
    real = fcntl.flock
    meddled: list[bool] = []

    def meddling(file: int, operation: int) -> None:
        if not meddled and operation & fcntl.LOCK_EX:
            meddled.append(True)
            (lock,) = tmp_path.glob(".new-*/lock")
            with lock.open("rb") as other:
                real(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                pid = os.fork()
                if pid == 0:
                    time.sleep(0.1)
                    os._exit(0)
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", meddling)
    directory = ApplicationDirectory.create(tmp_path)
    assert meddled
    assert remove_garbage(tmp_path) == []
    directory.close()
    os.wait()


def test_another_one_is_made_when_somebody_removed_it(tmp_path: Path) -> None:
    directory = ApplicationDirectory.create(tmp_path / "root")
    first = directory.path()
    (first / "lock").unlink()
    second = directory.path()
    assert first != second
    assert remove_garbage(tmp_path / "root") == []
    directory.close()
    assert list((tmp_path / "root").iterdir()) == []
    (tmp_path / "file").touch()
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match="can't be used to keep results"):
            ApplicationDirectory.create(root)


@pytest.mark.skipif(os.getuid() != 0, reason="needs the right to give files away")
def test_a_root_that_belongs_to_somebody_else_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o777)
    theirs = application(root)
    os.chown(root, 12345, 12345)
    with pytest.raises(StorageError, match="belongs to another user"):
        ApplicationDirectory.create(root)
    assert theirs.exists()

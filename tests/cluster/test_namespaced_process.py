"""A process with files of its own, which leaves nothing behind however it ends. No Spark here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.harness.errors import ClusterProcessError, NamespacesUnavailableError
from tests.harness.namespaced_process import BindMount, NamespacedProcess
from tests.harness.namespaces import unshare_command
from tests.harness.process_tree import descendants, is_alive
from tests.harness.waiting import wait_for

SECONDS = 20
USER_NAMESPACE = ("--user", "--map-root-user")

# Starts a child that leaves the session and the process group, as Spark's Python workers do.
FAMILY = "setsid sleep 600 & echo ready; sleep 600"

# Runs what a shell is given in a namespaced process, tells its processes' numbers, and waits.
OWNER = """
import sys, time
from pathlib import Path
from tests.harness.namespaced_process import NamespacedProcess
from tests.harness.namespaces import unshare_command

home = Path(sys.argv[1])
process = NamespacedProcess("family", ["sh", "-c", sys.argv[2]], log=home / "log",
    environment={"PATH": sys.argv[3]}, unshare=unshare_command(home))
process.find_in_log("ready", 20)
print(*process.pids(), flush=True)
time.sleep(600)
"""

Start = Callable[..., NamespacedProcess]


def wait_until_gone(pids: Sequence[int]) -> None:
    assert wait_for(lambda: None if any(map(is_alive, pids)) else True, SECONDS), pids


@pytest.fixture
def start(tmp_path: Path, request: pytest.FixtureRequest) -> Start:
    def started(script: str, *mounts: BindMount, unshare: Sequence[str] = ()) -> NamespacedProcess:
        process = NamespacedProcess(
            "the process",
            ["sh", "-c", script],
            log=tmp_path / "log",
            environment=dict(os.environ),
            unshare=unshare or unshare_command(tmp_path),
            mounts=mounts,
        )
        request.addfinalizer(process.kill)
        return process

    return started


def test_the_same_path_is_another_directory(start: Start, tmp_path: Path) -> None:
    outside, own = tmp_path / "a path", tmp_path / "own"
    outside.mkdir()
    own.mkdir()
    process = start(f"echo mine > '{outside}/file'; echo done; sleep 600", BindMount(own, outside))
    process.find_in_log("done", SECONDS)
    assert (own / "file").read_text() == "mine\n"
    assert list(outside.iterdir()) == []
    assert Path(f"/proc/{process.pid}/root", *outside.parts[1:], "file").exists()
    assert str(outside) not in Path("/proc/self/mountinfo").read_text()


def test_what_detached_itself_dies_with_the_process(start: Start) -> None:
    process = start(FAMILY)
    process.find_in_log("ready", SECONDS)
    pids = process.pids()
    assert process.pid in pids
    assert len(pids) == 3
    process.kill()
    assert not any(map(is_alive, pids))
    assert not process.is_running
    assert process.pids() == []


def test_when_the_command_ends_everything_of_it_ends(start: Start) -> None:
    process = start(FAMILY)
    process.find_in_log("ready", SECONDS)
    pids = process.pids()
    os.kill(process.pid, signal.SIGKILL)
    wait_until_gone(pids)
    assert wait_for(lambda: None if process.is_running else True, SECONDS)
    process.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_nothing_outlives_its_owner(tmp_path: Path, number: signal.Signals) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), FAMILY, os.environ["PATH"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        everything = descendants(owner.pid)
        assert set(pids) < set(everything)
        owner.send_signal(number)
    wait_until_gone(everything)


def test_nothing_outlives_unshare(start: Start) -> None:
    process = start(FAMILY)
    process.find_in_log("ready", SECONDS)
    everything = descendants(os.getpid())
    family = [pid for pid in everything if pid in process.pids()]
    unshare = next(pid for pid in everything if process.pid in descendants(pid))
    os.kill(unshare, signal.SIGKILL)
    wait_until_gone(family)


def test_a_thread_that_made_it_may_end(start: Start) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        process = pool.submit(start, "echo ready; sleep 1; echo alive; sleep 600").result()
    process.find_in_log("alive", SECONDS)
    assert process.is_running


def test_paused_it_does_nothing_until_resumed(start: Start, tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    process = start(f"while true; do echo tick >> '{ticks}'; sleep 0.01; done")

    def size() -> int:
        return ticks.stat().st_size if ticks.exists() else 0

    assert wait_for(lambda: size() or None, SECONDS)
    process.pause()
    paused = size()
    time.sleep(0.2)
    assert size() == paused
    process.resume()
    assert wait_for(lambda: True if size() > paused else None, SECONDS)
    process.pause()
    process.kill()
    assert not process.is_running


def test_a_command_that_ends_shows_the_end_of_its_log(start: Start) -> None:
    process = start("sleep 0.2; echo this went wrong; exit 3")
    with pytest.raises(ClusterProcessError, match=r"the process has ended.*\n  this went wrong"):
        process.find_in_log("never written", SECONDS)


def test_a_command_that_is_too_slow_shows_the_end_of_its_log(start: Start) -> None:
    process = start("echo still trying; sleep 600")
    process.find_in_log("trying", SECONDS)
    with pytest.raises(ClusterProcessError, match=r"does not answer within 0.1 s(.|\n)*trying"):
        process.find_in_log("never written", 0.1)


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ClusterProcessError, match="no such program"):
        NamespacedProcess(
            "missing",
            ["no such program"],
            log=tmp_path / "log",
            environment=dict(os.environ),
            unshare=unshare_command(tmp_path),
        )
    assert not [pid for pid in descendants(os.getpid()) if "no such program" in _command_line(pid)]


def test_a_directory_that_can_not_be_mounted(start: Start, tmp_path: Path) -> None:
    with pytest.raises(ClusterProcessError, match="missing can't be mounted over"):
        start("sleep 600", BindMount(tmp_path / "missing", tmp_path))


def test_only_what_this_start_wrote_is_searched(start: Start, tmp_path: Path) -> None:
    (tmp_path / "log").write_text("serving on port 1\n")
    process = start("echo serving on port 2; sleep 600")
    assert process.find_in_log(r"port (\d)", SECONDS)[1] == "2"
    assert (tmp_path / "log").read_text().startswith("serving on port 1\n")


def test_in_a_user_namespace_it_is_the_same(start: Start, tmp_path: Path) -> None:
    mine = unshare_command(tmp_path)
    inner = mine if USER_NAMESPACE[0] in mine else (*mine, *USER_NAMESPACE)
    outside, own = tmp_path / "outside", tmp_path / "own"
    outside.mkdir()
    own.mkdir()
    if subprocess.run([*inner, "true"], capture_output=True).returncode != 0:
        pytest.skip("user namespaces are not allowed on this machine")
    process = start(f"touch {outside}/file; {FAMILY}", BindMount(own, outside), unshare=inner)
    process.find_in_log("ready", SECONDS)
    pids = process.pids()
    assert (own / "file").exists()
    process.kill()
    assert not any(map(is_alive, pids))


def test_without_unshare_it_says_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NamespacesUnavailableError, match="no unshare on the PATH"):
        unshare_command(tmp_path)


def test_where_unshare_is_refused_it_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = tmp_path / "unshare"
    refusing.write_text("#!/bin/sh\necho unshare failed: Operation not permitted >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(NamespacesUnavailableError, match="Operation not permitted.*--user.*Oper"):
        unshare_command(tmp_path)


def test_user_namespaces_are_tried_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.which("unshare")
    picky = tmp_path / "unshare"
    picky.write_text(
        f'#!/bin/sh\ncase "$*" in *--user*) exec {real} "$@";; esac\necho for root only\nexit 1\n'
    )
    picky.chmod(0o755)
    if subprocess.run([str(picky), "--user", "--map-root-user", "true"]).returncode != 0:
        pytest.skip("user namespaces are not allowed on this machine")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert unshare_command(tmp_path)[-2:] == USER_NAMESPACE


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""

"""The process: how it starts, what stands against that, and what a kill or a lost driver leaves."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import (
    TaskExecutorUnreachableError,
    UnauthorizedError,
    UnknownApplicationError,
)
from holdfast.ids import JobID
from holdfast.version import __version__
from tests.catalog.commands import run
from tests.lying_files import parquet_below
from tests.taskexecutor.callers import Caller, output_of, parts, write
from tests.taskexecutor.nodes import comes

TOKEN = "0123456789abcdef" * 2
ONE, TWO, THREE, FOUR, FIVE = map(output_of, "12345")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def is_refused(root: Path, *arguments: object) -> str:
    """What a start says that is refused, in one line."""
    code, said = run("taskexecutor", "start", "--dir", root, *arguments)
    assert (code, len(said.splitlines())) == (2, 1), said
    return said


# -- starting and ending


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.sampled(2)
def test_it_says_one_line_listens_on_loopback_alone_and_ends_when_it_is_asked_to(
    start: Any, root: Path, number: signal.Signals
) -> None:
    executor = start(root).serving()
    said = rf"task executor at 127\.0\.0\.1:\d+ keeps partitions in {root}\n"
    assert re.fullmatch(said, executor.line)
    port = f"{int(executor.port):04X}"
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port}") and line.split()[3] == "0A"
    ]
    assert listening == [f"0100007F:{port}"]
    executor.process.send_signal(number)
    assert executor.process.communicate(timeout=20) == ("", "")
    assert executor.process.returncode == 0


def test_it_listens_and_is_called_as_is_asked(start: Any, root: Path) -> None:
    executor = start(root, "--host", "127.0.0.2", "--public-host", "node-7").serving()
    assert executor.address.startswith("node-7:")
    socket.create_connection(("127.0.0.2", int(executor.port))).close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(executor.port)))


def test_its_own_token_is_for_its_owner_alone_and_a_given_one_counts(
    start: Any, root: Path, tmp_path: Path
) -> None:
    executor = start(root).serving()
    token = executor.token
    assert len(token) == 64
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (root / "token", root)]
    assert modes == [0o600, 0o700]
    executor.kill()
    assert start(root).serving().token == token
    (tmp_path / "given").write_text(f"{TOKEN}\n")
    by_file = start(tmp_path / "one", "--token-file", str(tmp_path / "given")).serving()
    by_variable = start(tmp_path / "two", HOLDFAST_TOKEN=TOKEN).serving()
    for executor in (by_file, by_variable):
        assert executor.gateway(TOKEN).describe().version == __version__
        assert not (executor.directory / "token").exists()
        with pytest.raises(UnauthorizedError):
            executor.gateway(TOKEN[1:]).describe()


def test_a_directory_and_a_port_are_one_process_s(start: Any, root: Path, tmp_path: Path) -> None:
    first = start(root).serving()
    assert "another task executor serves this directory" in is_refused(root)
    said = is_refused(tmp_path / "two", "--port", first.port)
    assert f"127.0.0.1:{first.port}: can't listen on this address" in said
    assert "192.0.2.1" in is_refused(tmp_path / "two", "--host", "192.0.2.1")
    first.gateway().describe()
    first.kill()
    start(root).serving().gateway().describe()


def test_a_directory_that_can_not_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("open", "linked", "other", "stranger"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "linked" / "taskexecutor.lock").symlink_to(tmp_path / "file")
    (tmp_path / "other" / "taskexecutor.json").write_text("{}")
    for name in ("file", "open", "linked", "other"):
        assert str(tmp_path / name) in is_refused(tmp_path / name)
    is_refused(Path("/proc/nothing"))
    if os.getuid() == 0:
        os.chown(tmp_path / "stranger", 12345, 12345)
        assert "another user" in is_refused(tmp_path / "stranger")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_a_directory_that_is_read_only_is_refused(root: Path) -> None:
    root.mkdir(mode=0o700)
    mounted = f"mount --bind {root} {root} && mount -o remount,bind,ro {root} && exec "
    command = f"{sys.executable} -m holdfast taskexecutor start --dir {root}"
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", mounted + command], capture_output=True, text=True, timeout=60
    )
    if "mount" in ended.stderr.split(":")[0]:
        pytest.skip("nothing can be mounted here")
    assert (ended.returncode, "Read-only file system" in ended.stderr) == (2, True), ended.stderr


@pytest.mark.parametrize("token", [b"", b"short", b"with a space in it", b"\xff" * 20, b"x\0" * 20])
def test_what_can_not_be_a_token_is_refused(root: Path, tmp_path: Path, token: bytes) -> None:
    (tmp_path / "given").write_bytes(token)
    assert "token" in is_refused(root, "--token-file", tmp_path / "given")


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--port", "x"], ["--port", "70000"], ["--port", "-1"], ["--lease", "0"]),
        *(["--lease", "nan"], ["--grace", "-1"], ["--dir", ""], ["--token-file", ""]),
        *(["--catalog-url", "mysql://x"], ["--catalog-url", ""], ["--catalog-interval", "0"]),
    ],
    ids=" ".join,
)
def test_arguments_that_make_no_sense_are_refused(root: Path, arguments: list[str]) -> None:
    code, said = run("taskexecutor", "start", "--dir", root, *arguments)
    assert (code, "usage" in said, root.exists()) == (2, True, False)


def test_readers_that_hang_up_are_no_news(start: Any, root: Path) -> None:
    executor = start(root).serving()
    app = Caller(executor.gateway()).connect()
    write(app.open(ONE), 0, rows=4_000_000)
    (part,) = app.finish(ONE)
    app.promote(ONE, (part,))
    assert part.bytes > 10_000_000
    request = f"GET {app.base}/{ONE}/{part.file}?op=OPEN&offset=0 HTTP/1.1\r\nHost: x\r\n\r\n"
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", int(executor.port))) as connection:
            connection.sendall(request.encode())
            assert connection.recv(12) == b"HTTP/1.1 200"
    app.gateway.describe()
    executor.process.terminate()
    assert executor.process.communicate(timeout=20) == ("", "")


# -- starting again


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.sampled(2)
def test_what_is_whole_is_served_again(
    start: Any, root: Path, free_port: int, number: signal.Signals
) -> None:
    first = start(root, "--port", str(free_port)).serving()
    app = Caller(first.gateway()).connect()
    for output in (ONE, TWO, THREE):
        kept = app.keep(output)
    write(app.open(FOUR), 0)
    write(app.open(FIVE), 0)
    app.finish(FIVE)
    places = {each.output: Path(each.directory) for each in app.gateway.report(app.application)}
    kept = app.gateway.report(app.application)[0].partitions
    described = app.gateway.describe()
    first.process.send_signal(number)
    first.process.wait(20)
    with pytest.raises(TaskExecutorUnreachableError):
        app.gateway.describe()
    next(places[TWO].glob("part-00001*")).write_bytes(b"PAR1")
    (places[THREE] / "_manifest.json").unlink()

    app.gateway = start(root, "--port", first.port).serving().gateway()
    again = app.gateway.describe()
    assert again.executor_id == described.executor_id
    assert again.incarnation != described.incarnation
    # Its lease is a fresh one, and what it knew of the executor still holds.
    assert app.gateway.heartbeat(app.application, {ONE: 3}) == again.incarnation
    (report,) = app.gateway.report(None)
    assert (report.output, report.partitions, report.hits) == (ONE, kept, 3)
    assert {path.parent for path in parquet_below(root)} == {places[ONE]}
    read_root, app.job_id = app.read_root, JobID.random()
    assert app.connect().read_root == read_root and app.damage(ONE) is None
    app.gateway.unregister_application(app.application)
    assert not list(root.glob("application-*"))


@pytest.mark.parametrize("turns", [2, pytest.param(8, marks=pytest.mark.soak)])
def test_a_kill_at_any_time_leaves_whole_outputs_or_nothing(
    start: Any, root: Path, turns: int
) -> None:
    for turn in range(turns):
        executor = start(root).serving()
        app = Caller(executor.gateway()).connect()
        seconds = 0.05 + 0.12 * turn / turns
        killer = subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -9 {executor.process.pid}"])
        with pytest.raises((TaskExecutorUnreachableError, OSError)):
            for number in range(10_000):
                output = output_of("7", f"{number:08x}")
                app.keep(output)
                if number % 2:
                    app.gateway.release_outputs(app.application, [output])
        killer.wait()
        executor.process.wait()
    gateway = start(root).serving().gateway()
    reports = gateway.report(None)
    for report in reports:
        assert gateway.damage(report.application, report.output) is None
    served = {Path(report.directory) for report in reports}
    assert {path.parent for path in parquet_below(root)} == served
    assert all(len(list(each.glob("part-*"))) == 2 for each in served)


# -- losing the driver


def test_a_lease_that_lapses_leaves_no_orphan_and_its_driver_may_come_back(
    start: Any, root: Path
) -> None:
    executor = start(root, "--lease", "1").serving()
    app = Caller(executor.gateway()).connect(lease_seconds=1)
    app.keep(ONE)
    write(app.open(TWO), 0)
    app.finish(TWO)
    attempt = app.open(THREE) / "_temporary" / "0"
    write(attempt, 0)
    assert comes(lambda: parts(root) == parts(attempt))
    with pytest.raises(UnknownApplicationError):
        app.gateway.heartbeat(app.application, {})
    assert app.gateway.report(None) == ()
    # A task that commits late leaves nothing either.
    for path in parquet_below(root):
        path.rename(attempt.parents[1] / path.name)
    assert comes(lambda: not list(root.glob("application-*")))
    again = Caller(executor.gateway(), app.application).connect()
    assert again.outputs() == []
    again.keep(ONE)
    assert len(parts(root)) == 2
    executor.kill()
    # What no driver asks for after a new start goes.
    start(root, "--lease", "1").serving()
    assert comes(lambda: not list(root.glob("application-*")))

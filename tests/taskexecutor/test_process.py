"""The process: how it starts, what stands against that, and what a kill or a lost driver leaves."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import (
    TaskExecutorUnreachableError,
    UnauthorizedError,
    UnknownApplicationError,
)
from holdfast.ids import IntermediateDataSetID
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.version import __version__
from tests.lying_files import parquet_below

TOKEN = "0123456789abcdef" * 2


def output_of(digit: str) -> OutputID:
    return OutputID(IntermediateDataSetID(digit * 64), "0badcafe")


def eventually(true: Callable[[], bool], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)


# -- starting and ending


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_one_line_and_ends_when_it_is_told(
    start: Any, tmp_path: Path, number: signal.Signals
) -> None:
    executor = start(tmp_path / "kept").serving()
    assert re.fullmatch(
        rf"task executor at 127\.0\.0\.1:\d+ keeps partitions in {tmp_path}/kept\n", executor.line
    )
    executor.gateway().describe()
    executor.process.send_signal(number)
    out, err = executor.process.communicate(timeout=20)
    assert (executor.process.returncode, out, err) == (0, "", "")


def test_it_listens_on_loopback_alone(start: Any, tmp_path: Path) -> None:
    executor = start(tmp_path / "kept").serving()
    port = f"{int(executor.port):04X}"
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port}") and line.split()[3] == "0A"
    ]
    assert listening == [f"0100007F:{port}"]


def test_it_listens_and_is_called_as_it_is_told(start: Any, tmp_path: Path) -> None:
    executor = start(tmp_path / "kept", "--host", "127.0.0.2", "--public-host", "node-7").serving()
    assert executor.address.startswith("node-7:")
    with socket.create_connection(("127.0.0.2", int(executor.port))):
        pass
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(executor.port)))


def test_its_own_token_is_for_its_owner_alone(start: Any, tmp_path: Path) -> None:
    executor = start(tmp_path / "kept").serving()
    token = executor.token
    assert len(token) == 64
    assert stat.S_IMODE((tmp_path / "kept" / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    executor.kill()
    assert start(tmp_path / "kept").serving().token == token


def test_a_given_token_counts(start: Any, tmp_path: Path) -> None:
    file = tmp_path / "given"
    file.write_text(f"{TOKEN}\n")
    by_file = start(tmp_path / "one", "--token-file", str(file)).serving()
    by_variable = start(tmp_path / "two", HOLDFAST_TOKEN=TOKEN).serving()
    for executor in (by_file, by_variable):
        assert executor.gateway(TOKEN).describe().version == __version__
        assert not (executor.directory / "token").exists()
        with pytest.raises(UnauthorizedError):
            executor.gateway(TOKEN[1:]).describe()


@pytest.mark.parametrize("token", [b"", b"short", b"with a space in it", b"\xff" * 20, b"x\0" * 20])
@pytest.mark.sampled(3)
def test_what_can_not_be_a_token_is_refused(start: Any, tmp_path: Path, token: bytes) -> None:
    (tmp_path / "given").write_bytes(token)
    code, said = start(tmp_path / "kept", "--token-file", str(tmp_path / "given")).refused()
    assert code == 2
    assert "token" in said and len(said.splitlines()) == 1


def test_two_processes_do_not_share_a_directory(start: Any, tmp_path: Path) -> None:
    first = start(tmp_path / "kept").serving()
    code, said = start(tmp_path / "kept").refused()
    assert (code, len(said.splitlines())) == (2, 1)
    assert "another task executor serves this directory" in said
    first.gateway().describe()
    first.kill()
    start(tmp_path / "kept").serving().gateway().describe()


def test_a_port_that_is_in_use_is_refused(start: Any, tmp_path: Path) -> None:
    first = start(tmp_path / "one").serving()
    code, said = start(tmp_path / "two", "--port", first.port).refused()
    assert (code, len(said.splitlines())) == (2, 1)
    assert f"127.0.0.1:{first.port}: can't listen on this address" in said
    code, said = start(tmp_path / "two", "--host", "192.0.2.1").refused()
    assert (code, "192.0.2.1" in said) == (2, True)


def test_a_directory_that_can_not_be_used_is_refused(start: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "linked").mkdir(mode=0o700)
    (tmp_path / "linked" / "taskexecutor.lock").symlink_to(tmp_path / "file")
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "other" / "taskexecutor.json").write_text("{}")
    for name in ("file", "open", "linked", "other"):
        code, said = start(tmp_path / name).refused()
        assert (code, len(said.splitlines())) == (2, 1), said
        assert str(tmp_path / name) in said
    assert start(Path("/proc/nothing")).refused()[0] == 2


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make another's directory")
def test_a_strangers_directory_is_refused(start: Any, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir(mode=0o700)
    os.chown(tmp_path / "kept", 12345, 12345)
    code, said = start(tmp_path / "kept").refused()
    assert (code, "another user" in said) == (2, True)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another")
def test_a_directory_that_is_read_only_is_refused(start: Any, tmp_path: Path) -> None:
    if shutil.which("unshare") is None:
        pytest.skip("util-linux is not there")
    (tmp_path / "kept").mkdir(mode=0o700)
    executor = start(tmp_path / "never")
    executor.end()
    mounted = (
        f"mount --bind {tmp_path}/kept {tmp_path}/kept && "
        f"mount -o remount,bind,ro {tmp_path}/kept && exec "
    )
    command = " ".join(map(str, executor.process.args)).replace("never", "kept")
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", mounted + command], capture_output=True, text=True, timeout=60
    )
    if "mount" in ended.stderr.split(":")[0]:
        pytest.skip("nothing can be mounted here")
    assert (ended.returncode, "Read-only file system" in ended.stderr) == (2, True), ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--port", "x"], ["--port", "70000"], ["--port", "-1"], ["--lease", "0"]),
        *(["--lease", "nan"], ["--grace", "-1"], ["--dir", ""], ["--token-file", ""]),
        *(["--catalog-url", "mysql://x"], ["--catalog-url", ""], ["--catalog-interval", "0"]),
    ],
)
@pytest.mark.sampled(4)
def test_arguments_that_make_no_sense_are_refused(
    start: Any, tmp_path: Path, arguments: list[str]
) -> None:
    code, said = start(tmp_path / "kept", *arguments).refused()
    assert (code, "usage" in said) == (2, True)
    assert not (tmp_path / "kept").exists()


def test_readers_that_hang_up_are_no_news(
    start: Any, make_caller: Any, leave: Any, tmp_path: Path
) -> None:
    executor = start(tmp_path / "kept").serving()
    app = make_caller(executor.gateway()).connect()
    output = output_of("1")
    leave(app.open(output), 0, rows=4_000_000)
    (part,) = app.finish(output)
    app.promote(output, (part,))
    path = f"/webhdfs/v1/{app.read_root.split('/', 3)[3]}/{output}/{part.file}?op=OPEN&offset=0"
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", int(executor.port))) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert connection.recv(12) == b"HTTP/1.1 200"
    app.gateway.describe()
    executor.process.terminate()
    assert executor.process.communicate(timeout=20) == ("", "")
    assert part.bytes > 10_000_000


# -- starting again


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_is_whole_is_served_again(
    start: Any,
    make_caller: Any,
    leave: Any,
    tmp_path: Path,
    free_port: int,
    number: signal.Signals,
) -> None:
    root = tmp_path / "kept"
    first = start(root, "--port", str(free_port)).serving()
    app = make_caller(first.gateway()).connect()
    whole, damaged, half = app.keep("1"), app.keep("2"), app.keep("3")
    leave(app.open(output_of("4")), 0)
    finished = output_of("5")
    leave(app.open(finished), 0)
    app.finish(finished)
    places = {each.output: Path(each.directory) for each in app.gateway.report(app.application)}
    described = app.gateway.describe()
    kept = app.gateway.report(app.application)[0].partitions
    first.process.send_signal(number)
    first.process.wait(20)
    with pytest.raises(TaskExecutorUnreachableError):
        app.gateway.describe()
    next(places[damaged].glob("part-00001*")).write_bytes(b"PAR1")
    (places[half] / "_manifest.json").unlink()

    second = start(root, "--port", first.port).serving()
    app.gateway = second.gateway()
    again = app.gateway.describe()
    assert again.executor_id == described.executor_id
    assert again.incarnation != described.incarnation
    # Its lease is a fresh one, and what it knew of the executor still holds.
    assert app.gateway.heartbeat(app.application, {whole: 3}) == again.incarnation
    (report,) = app.gateway.report(None)
    assert (report.output, report.partitions, report.hits) == (whole, kept, 3)
    assert {path.parent for path in parquet_below(root)} == {places[whole]}
    registration = app.gateway.register_application(app.application, 60, __version__)
    assert registration.read_root == app.read_root
    assert app.gateway.damage(app.application, whole) is None
    app.gateway.unregister_application(app.application)
    assert not list(root.glob("application-*"))


def test_a_kill_at_any_time_leaves_whole_outputs_or_nothing(
    start: Any, make_caller: Any, leave: Any, tmp_path: Path
) -> None:
    root = tmp_path / "kept"
    app = None
    for turn in range(6):
        executor = start(root).serving()
        app = make_caller(executor.gateway()).connect()
        killer = subprocess.Popen(
            ["sh", "-c", f"sleep {0.05 + 0.02 * turn}; kill -9 {executor.process.pid}"]
        )
        with pytest.raises((TaskExecutorUnreachableError, OSError)):
            for number in range(10_000):
                output = OutputID(IntermediateDataSetID("7" * 64), f"{number:08x}")
                leave(app.open(output), 0, 1)
                app.promote(output, app.finish(output))
                if number % 2:
                    app.gateway.release_outputs(app.application, [output])
        killer.wait()
        executor.process.wait()
    executor = start(root).serving()
    gateway = executor.gateway()
    reports = gateway.report(None)
    for report in reports:
        assert gateway.damage(report.application, report.output) is None
    served = {Path(report.directory) for report in reports}
    assert {path.parent for path in parquet_below(root)} == served
    assert all(len(list(each.glob("part-*"))) == 2 for each in served)


def test_what_nobody_asks_for_after_a_new_start_goes(
    start: Any, make_caller: Any, tmp_path: Path
) -> None:
    root = tmp_path / "kept"
    first = start(root).serving()
    make_caller(first.gateway()).connect().keep("1")
    first.kill()
    assert len(parquet_below(root)) == 2
    start(root, "--lease", "1").serving()
    eventually(lambda: not list(root.glob("application-*")))


# -- losing the driver


def test_a_lease_that_lapses_leaves_no_orphan(
    start: Any, make_caller: Any, leave: Any, tmp_path: Path
) -> None:
    root = tmp_path / "kept"
    executor = start(root).serving()
    app = make_caller(executor.gateway()).connect(lease_seconds=2)
    app.keep("1")
    finished = output_of("2")
    leave(app.open(finished), 0)
    app.finish(finished)
    in_progress = app.open(output_of("3"))
    attempt = in_progress / "_temporary" / "0"
    leave(attempt, 0)
    for _ in range(5):
        time.sleep(0.5)
        app.gateway.heartbeat(app.application, {})
    assert len(parquet_below(root)) == 4
    eventually(lambda: parquet_below(root) == sorted(attempt.glob("*.parquet")))
    with pytest.raises(UnknownApplicationError):
        app.gateway.heartbeat(app.application, {})
    assert app.gateway.report(None) == ()
    for path in parquet_below(root):
        path.rename(in_progress / path.name)
    eventually(lambda: not parquet_below(root))
    eventually(lambda: not list(root.glob("application-*")))


def test_a_driver_that_was_cut_off_may_come_back(
    start: Any, make_caller: Any, tmp_path: Path
) -> None:
    executor = start(tmp_path / "kept").serving()
    app = make_caller(executor.gateway()).connect(lease_seconds=1)
    app.keep("1")
    eventually(lambda: not parquet_below(tmp_path))
    app = make_caller(executor.gateway(), app.application).connect(lease_seconds=60)
    assert app.outputs() == []
    app.keep("1")
    assert len(parquet_below(tmp_path)) == 2

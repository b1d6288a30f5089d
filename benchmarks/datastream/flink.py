"""PyFlink in a virtual environment and a session cluster of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.datastream.jobs import JOBS, check
from benchmarks.datastream.session import PARALLELISM

# Newer versions of setuptools lack a module that one of PyFlink's requirements imports.
_REQUIREMENTS = ("apache-flink>=2,<3", "setuptools<81")
_PYTHONS = ("python3.11", "python3.12", "python3.10", "python3.9")
_PROGRAM = Path(__file__).with_name("flink_program.py")
_SECONDS_TO_START = 90.0
_SECONDS_TO_RUN = 1200.0


def measure(
    cache: Path, home: Path, records: int, tell: Callable[[str], None]
) -> list[float] | None:
    """Seconds of each of PyFlink's jobs; None, and a line that says why, where it can't run.

    Args:
        cache: where the virtual environment is, or is to be.
        home: a directory for the cluster's files.
        records: how many integers.
        tell: is told how far it has got.

    Raises:
        AssertionError: when an answer is wrong.
    """
    try:
        python = _installed(cache / "venv", tell)
        with _cluster(python, home / "flink") as (flink, port, environment):
            tell("PyFlink's jobs")
            command = ["bash", str(flink / "bin" / "flink"), "run", "-m", f"127.0.0.1:{port}"]
            command += ["-pyclientexec", str(python), "-pyexec", str(python), "-py", str(_PROGRAM)]
            command += [str(records), str(PARALLELISM), str(JOBS)]
            output = subprocess.run(
                command,
                env=environment,
                timeout=_SECONDS_TO_RUN,
                check=True,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "output", None) or getattr(error, "stderr", None) or ""
        last = (str(said).strip().splitlines() or [""])[-1]
        tell(f"PyFlink is skipped: {error}{': ' if last else ''}{last}")
        return None
    jobs = [json.loads(line) for line in output.splitlines() if line.startswith('{"seconds"')]
    for job in jobs:
        check([tuple(pair) for pair in job["answer"]], records)
    return [job["seconds"] for job in jobs]


def _installed(venv: Path, tell: Callable[[str], None]) -> Path:
    """The Python of PyFlink's virtual environment, which is made if it isn't there."""
    python = venv.resolve() / "bin" / "python"
    complete = venv / ".complete"
    if not complete.exists():
        base = next(filter(None, map(_usable, _PYTHONS)), None)
        if base is None:
            raise OSError(f"there is none of {', '.join(_PYTHONS)}, which PyFlink needs")
        tell(f"installing PyFlink into {venv}: some minutes the first time")
        _quietly(base, "-m", "venv", "--clear", str(venv))
        _quietly(str(python), "-m", "pip", "install", "--quiet", *_REQUIREMENTS)
        complete.touch()
    return python


def _usable(name: str) -> str | None:
    """A Python of this name that starts."""
    found = shutil.which(name)
    if found is None or subprocess.run([found, "-c", ""], capture_output=True).returncode:
        return None
    return found


def _quietly(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


@contextmanager
def _cluster(python: Path, home: Path) -> Iterator[tuple[Path, int, dict[str, str]]]:
    """A job manager and a task manager: what cache() keeps outlives a job only in a session."""
    where = "import pyflink; print(pyflink.__path__[0])"
    flink = Path(subprocess.check_output([str(python), "-c", where], text=True).strip())
    shutil.copytree(flink / "conf", home / "conf")
    (home / "log").mkdir()
    port, rpc_port = _free_ports(2)
    configuration = home / "conf" / "config.yaml"
    shipped = configuration.read_text(encoding="utf-8")
    # The options that Java 17 needs are in what is shipped.
    java = shipped[shipped.index("env:") : shipped.index("\n", shipped.index("all:"))]
    ours = {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": rpc_port,
        "jobmanager.bind-host": "127.0.0.1",
        "jobmanager.memory.process.size": "1600m",
        "taskmanager.host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        "taskmanager.memory.process.size": "3g",
        "taskmanager.numberOfTaskSlots": PARALLELISM,
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": port,
        "io.tmp.dirs": home,
    }
    lines = "".join(f"{key}: {value}\n" for key, value in ours.items())
    configuration.write_text(f"{java}\n{lines}", encoding="utf-8")
    environment = {
        **os.environ,
        "FLINK_HOME": str(flink),
        "FLINK_CONF_DIR": str(home / "conf"),
        "FLINK_LOG_DIR": str(home / "log"),
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "no_proxy": "127.0.0.1",
    }
    with (home / "log" / "processes").open("w") as log:
        processes = [
            subprocess.Popen(
                ["bash", str(flink / "bin" / script), "start-foreground"],
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            for script in ("jobmanager.sh", "taskmanager.sh")
        ]
        try:
            _await_slots(port)
            yield flink, port, environment
        finally:
            for process in processes:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _await_slots(port: int) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + _SECONDS_TO_START
    while True:
        with suppress(OSError), opener.open(f"http://127.0.0.1:{port}/overview", timeout=5) as got:
            if json.load(got)["slots-available"] >= PARALLELISM:
                return
        if time.monotonic() > end:
            raise OSError(f"Flink's cluster has not started within {_SECONDS_TO_START:g} s")
        time.sleep(0.5)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()

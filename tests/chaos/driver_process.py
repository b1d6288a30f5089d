"""A driver in its own process group, which is killed, stopped and woken for real."""

from __future__ import annotations

import enum
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.orders import Diary, Orders
from tests.harness.process_tree import descendants, is_stopped
from tests.harness.waiting import wait_for

if TYPE_CHECKING:
    from typing_extensions import Self

ROOT = Path(__file__).parents[2]
_STOP_SECONDS = 10
_END_SECONDS = 120


class Blow(enum.Enum):
    """What is killed."""

    ALL = "the driver with its JVM"
    PYTHON = "the Python process alone"
    """Its JVM notices a little later, and goes on until then."""
    JVM = "the JVM alone"
    """The Python process notices, and ends with an error."""
    TASK_EXECUTOR = "a task executor"
    """The driver lives, and its job is to end well."""


DRIVER_BLOWS = (Blow.ALL, Blow.ALL, Blow.PYTHON, Blow.JVM)
"""What may be killed of a driver, some more often than others."""


class DriverProcess:
    """A driver that runs."""

    def __init__(
        self, orders: Orders, home: Path, name: str, environment: Mapping[str, str] | None = None
    ) -> None:
        path = home / f"{name}.json"
        orders.save(path)
        self.diary = Diary(orders.diary)
        self._log = home / f"{name}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.chaos.driver", str(path)],
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYSPARK_PYTHON": sys.executable,
                    "PYTHONPATH": os.pathsep.join(
                        filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
                    ),
                    **(environment or {}),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._family: set[int] = set()

    @property
    def returncode(self) -> int | None:
        """The Python process's; None while it runs."""
        return self._process.poll()

    def said(self) -> str:
        """What it and its JVM have written."""
        return self._log.read_text(errors="replace")

    def wait(self, seconds: float) -> int | None:
        """Waits for its end; returns its code, or None when it has not ended in that time."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def strike(self, blow: Blow) -> None:
        """Kills with SIGKILL, and returns when the Python process is gone."""
        self._family.update(descendants(self._process.pid))
        if blow is Blow.JVM:
            for pid in filter(_is_jvm, descendants(self._process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            code = self.wait(_END_SECONDS)
            assert code, f"the program ended with {code} without a JVM:\n{self.said()}"
            return
        if blow is Blow.ALL:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stops it with its JVM and its Python workers, as a machine that hangs."""
        while running := [pid for pid in self._members() if not is_stopped(pid)]:
            for pid in running:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: all(map(is_stopped, self._members())) or None, _STOP_SECONDS)

    def wake(self) -> None:
        """Lets it go on after `stop`."""
        for pid in self._members():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def _members(self) -> list[int]:
        return [self._process.pid, *descendants(self._process.pid)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Kills what is left of it."""
        self._family.update(descendants(self._process.pid))
        self._process.kill()
        self._process.wait()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pid in self._family:
            if _is_of_session(pid, self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _is_jvm(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == "java"
    return False


def _is_of_session(pid: int, session: int) -> bool:
    with suppress(OSError, ProcessLookupError):
        return os.getsid(pid) == session
    return False

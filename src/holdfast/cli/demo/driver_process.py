"""A driver in a process of its own, which can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from holdfast.cli.demo.driver_home import DriverHome
from holdfast.cli.demo.driver_report import DriverReport
from holdfast.cli.demo.errors import DemoError
from holdfast.cli.demo.spark_session import end_of_log

_PROGRAM = "holdfast.cli.demo.driver_program"


class DriverProcess:
    """A driver that runs; what is left of it at the end of the block is killed.

    Args:
        data: the folder of TPC-H's tables.
        home: where it has its files.
        plain: whether it does without Holdfast.
    """

    def __init__(self, data: Path, home: DriverHome, *, plain: bool = False) -> None:
        self._home = home
        home.temporary.mkdir(parents=True, exist_ok=True)
        self._started = time.perf_counter()
        with home.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", _PROGRAM, str(data), str(home.path)),
                    *(["--plain"] if plain else []),
                ],
                cwd=home.temporary,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # With its JVM in a group of its own, both are killed at once.
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

    @property
    def runs(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.perf_counter() - self._started

    def kill(self) -> bool:
        """Kills it and its JVM with SIGKILL, and returns when it is gone.

        Returns:
            whether it had not ended by itself.
        """
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait() == -signal.SIGKILL

    def wait(self) -> DriverReport:
        """Waits until it has ended by itself.

        Raises:
            DemoError: when it has failed.
        """
        code = self._process.wait()
        if code != 0:
            raise DemoError(
                f"the driver of the third act failed with code {code}. The end of its log:\n"
                f"{end_of_log(self._home.log)}"
            )
        return DriverReport.model_validate_json(self._home.report.read_text(encoding="utf-8"))

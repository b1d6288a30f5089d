"""A program of the demo in a process of its own, which can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from holdfast.cli.demo.errors import DemoError
from holdfast.cli.demo.spark_session import end_of_log

if TYPE_CHECKING:
    from typing_extensions import Self

_SECONDS_BETWEEN_LOOKS = 0.05


class ProgramProcess:
    """A program that runs; what is left of it at the end of the block is killed.

    Args:
        title: what it is, for messages.
        module: the module that is run.
        arguments: its arguments.
        folder: the folder that it is started in, which is made.
        log: the file that takes what it and its JVM write to their standard output and error.
    """

    def __init__(
        self, title: str, module: str, arguments: Sequence[str], folder: Path, log: Path
    ) -> None:
        self._title = title
        self._log = log
        folder.mkdir(parents=True, exist_ok=True)
        self._started = time.perf_counter()
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
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

    def wait_for_end(self, interrupted: Event | None = None) -> None:
        """Waits until it has ended by itself.

        Args:
            interrupted: set when it is not to be waited for any longer.

        Raises:
            DemoError: when it has failed, or was interrupted.
        """
        while interrupted is not None and self.runs:
            if interrupted.wait(_SECONDS_BETWEEN_LOOKS):
                raise DemoError(f"{self._title} was interrupted")
        code = self._process.wait()
        if code != 0:
            raise DemoError(
                f"{self._title} failed with code {code}. The end of its log:\n"
                f"{end_of_log(self._log)}"
            )

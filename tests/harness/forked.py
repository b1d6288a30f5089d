"""Processes that are forked from one which has imported Holdfast: that takes a second each time."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["tests.harness.imported", "tests.catalog.storm", "tests.catalog.user_programs"]
)


class Command:
    """The `holdfast` command in a process of its own: as `subprocess.Popen` with pipes."""

    def __init__(
        self,
        *arguments: object,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        given = [*map(str, arguments)]
        out, into = CONTEXT.Pipe(duplex=False)
        err, errors = CONTEXT.Pipe(duplex=False)
        self._process = CONTEXT.Process(
            target=_run,
            args=(given, os.environ | dict(environment or {}), cwd, into, errors),
            daemon=True,
        )
        self._process.start()
        into.close()
        errors.close()
        self.stdout = os.fdopen(os.dup(out.fileno()))
        self.stderr = os.fdopen(os.dup(err.fileno()))

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Sends it a signal, unless it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills it with SIGKILL."""
        self._process.kill()

    def terminate(self) -> None:
        """Asks it to end."""
        self._process.terminate()

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; gives its exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("holdfast", timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it has said beside what was read, and of errors, once it has ended."""
        self.wait(timeout)
        with self.stdout, self.stderr:
            return self.stdout.read(), self.stderr.read()


def _run(
    arguments: list[str],
    environment: Mapping[str, str],
    cwd: Path | None,
    out: Connection,
    errors: Connection,
) -> None:
    from holdfast_command import main

    os.dup2(out.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    out.close()
    errors.close()
    if cwd is not None:
        os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    # Of commands that were tried out before.
    for name in ("", "holdfast"):
        logging.getLogger(name).handlers.clear()
    sys.argv = ["holdfast", *arguments]
    sys.exit(main())

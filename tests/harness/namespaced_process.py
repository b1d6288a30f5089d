"""One process of the cluster, with everything that it starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.harness import namespace_init
from tests.harness.errors import ClusterProcessError
from tests.harness.process_tree import descendants, is_stopped, pid_in_namespace
from tests.harness.waiting import wait_for

if TYPE_CHECKING:
    from typing_extensions import Self

_REPORT_LENGTH = 32


@dataclass(frozen=True)
class BindMount:
    """A directory that a process sees under another path.

    Attributes:
        source: the directory.
        target: where the process sees it; a directory that exists.
    """

    source: Path
    target: Path


class NamespacedProcess:
    """A command in a mount namespace and a process namespace of its own.

    It ends with everything that it has started, at once, when it is killed, when its first process
    ends, and when the process that made it ends, in whatever way. Ctrl-C doesn't reach it.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        unshare: Sequence[str],
        mounts: Sequence[BindMount] = (),
    ) -> None:
        self.name = name
        self.log = log
        self._log_start = log.stat().st_size if log.exists() else 0
        with ExitStack() as closed:
            owner = os.pidfd_open(os.getpid())
            closed.callback(os.close, owner)
            reading, writing = os.pipe()
            closed.callback(os.close, reading)
            with os.fdopen(writing, "wb"), log.open("ab") as output:
                self._unshare = subprocess.Popen(
                    [
                        *unshare,
                        *(sys.executable, "-I", "-S", namespace_init.__file__),
                        *(str(owner), str(writing)),
                        *(
                            word
                            for m in mounts
                            for word in ("--bind", str(m.source), str(m.target))
                        ),
                        *("--", *command),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    pass_fds=(owner, writing),
                    # The terminal's Ctrl-C is for the owner alone.
                    start_new_session=True,
                )
            try:
                reported = os.read(reading, _REPORT_LENGTH)
                self._init, self.pid = self._find(int(reported) if reported else None)
            except BaseException:
                self._unshare.kill()
                self._unshare.wait()
                raise

    def _find(self, inner_pid: int | None) -> tuple[int, int]:
        """A descriptor of the namespace's first process, and the command's number out here."""
        family = descendants(self._unshare.pid)
        for pid in family:
            if inner_pid is not None and pid_in_namespace(pid) == inner_pid:
                return os.pidfd_open(family[0]), pid
        self._unshare.wait()
        raise ClusterProcessError(self.name, "has ended at once", self.log)

    @property
    def is_running(self) -> bool:
        """Whether its first process is there, if only stopped."""
        return self._unshare.poll() is None

    def pids(self) -> list[int]:
        """The numbers of the command and of every process that it has started, as of now."""
        return descendants(self._unshare.pid)[1:] if self.is_running else []

    def find_in_log(self, pattern: str, seconds: float) -> re.Match[str]:
        """Waits until the log has a line that matches."""
        line = re.compile(pattern)

        def found_or_ended() -> re.Match[str] | bool | None:
            ended = not self.is_running
            with self.log.open("rb") as log:
                log.seek(self._log_start)
                written = log.read().decode(errors="replace")
            return line.search(written) or (ended or None)

        seen = wait_for(found_or_ended, seconds)
        if isinstance(seen, re.Match):
            return seen
        why = "has ended" if seen else f"does not answer within {seconds:g} s"
        raise ClusterProcessError(self.name, why, self.log)

    def kill(self) -> None:
        """Kills it with everything that it has started, and waits until all of that is gone."""
        if self._init >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init, signal.SIGKILL)
            # The kernel lets the first process go after all others.
            self._unshare.wait()
            os.close(self._init)
            self._init = -1

    def pause(self) -> None:
        """Stops it with everything that it has started, as a machine that hangs."""
        while running := [pid for pid in self.pids() if not is_stopped(pid)]:
            for pid in running:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on after `pause`."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.kill()

"""A sink's directory, while the processes that write it are killed at any step.

The processes are real, and so are their files. A hook of Python's own, which hears of each thing
that a process is about to do to its files, kills it there.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.highavailability.epochs import take_epoch
from holdfast.ids import JobID
from holdfast.runtime.recovery.job_sink import write_once
from holdfast.sinks.directory_renames import DirectoryRenames, KernelRenames, TwoRenames
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.sink_start import SinkStart

JOB = JobID("ab12" * 8)
RENAMES = frozenset({"os.rename"})
ALL_EVENTS = RENAMES | frozenset(
    """open os.link os.mkdir os.remove os.rmdir os.chmod os.chown os.utime os.listdir
    os.scandir""".split()
)
ENDED, BROKEN = 0, 4
BEFORE = {"part-a": "a", "p=1/part-b": "b", "p=2/part-c": "c"}
WRITTEN = {"p=1/part-d": "d", "p=3/part-e": "e"}


@dataclass(frozen=True)
class Case:
    """A write, and what it makes of the rows that are there."""

    name: str
    mode: SinkMode
    before: dict[str, str] | None
    after: list[str]
    dynamic: bool = False
    renames: DirectoryRenames = field(default_factory=KernelRenames)

    def sink(self, out: Path) -> DirectorySink:
        return DirectorySink(
            out,
            self.mode,
            dynamic_partitions=self.dynamic,
            renames=self.renames,
            grace_seconds=0,
            patience_seconds=0,
        )


CASES = [
    Case("append", SinkMode.APPEND, BEFORE, ["a", "b", "c", "d", "e"]),
    Case("append-new", SinkMode.APPEND, None, ["d", "e"]),
    Case("overwrite", SinkMode.OVERWRITE, BEFORE, ["d", "e"]),
    Case("overwrite-new", SinkMode.OVERWRITE, None, ["d", "e"]),
    Case("partitions", SinkMode.OVERWRITE, BEFORE, ["a", "c", "d", "e"], dynamic=True),
    Case("error-new", SinkMode.ERROR, None, ["d", "e"]),
    Case("ignore-new", SinkMode.IGNORE, None, ["d", "e"]),
]
CASES += [replace(case, name=f"{case.name}-two-renames", renames=TwoRenames()) for case in CASES]
DAILY = ("append", "append-two-renames", "partitions")


class Journal:
    """A journal that is replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str:
        return self._path.read_text() if self._path.exists() else ""

    def write(self, text: str) -> None:
        new = self._path.with_suffix(f".{os.getpid()}")
        new.write_text(text)
        os.replace(new, self._path)


class World:
    """A target, and what the storage directory knows of the job that writes it."""

    def __init__(self, home: Path, case: Case) -> None:
        shutil.rmtree(home, ignore_errors=True)
        self.case = case
        self.out = home / "data" / "out"
        self.epochs, self.journal, self.end = home / "epochs", home / "journal", home / "ended"
        self.out.parent.mkdir(parents=True)
        if case.before is not None:
            _put(self.out, case.before)

    def rows(self) -> list[str] | None:
        """What a reader sees; None where there is no directory."""
        if not self.out.exists():
            return None
        return sorted(path.read_text() for path in _visible(self.out))

    def check_visible(self) -> None:
        """The rows are those of before, or those of after."""
        before = None if self.case.before is None else sorted(self.case.before.values())
        allowed = [before, self.case.after]
        if isinstance(self.case.renames, TwoRenames):
            allowed.append(None)
        assert self.rows() in allowed

    def check_end(self) -> None:
        """The rows are there exactly once, and nothing else is."""
        assert self.rows() == self.case.after
        assert os.listdir(self.out.parent) == [self.out.name]
        assert not [name for name in os.listdir(self.out) if name.startswith(".")]

    def run(
        self, events: frozenset[str] = ALL_EVENTS, step: Callable[[int], object] | None = None
    ) -> int:
        """Runs the job's driver in a process; gives its exit code.

        Args:
            events: what the process does to files.
            step: called with 0, 1, … before each of them.
        """
        process = os.fork()
        if process == 0:
            code = BROKEN
            try:
                if step is not None:
                    _watch(events, step)
                self._drive()
                code = ENDED
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    def _drive(self) -> None:
        epoch = take_epoch(self.epochs)
        start = SinkStart(JOB, epoch, Journal(self.journal))
        sink = self.case.sink(self.out)
        if not self.end.exists():
            write_once(sink, start, lambda: None, lambda path: _write(Path(path), epoch))
        self.end.touch()
        sink.forget(start)


def _watch(events: frozenset[str], step: Callable[[int], object]) -> None:
    """Has `step` called with 0, 1, … before each of these things that this process does."""
    count = 0
    inside = False

    def hook(event: str, args: Any) -> None:
        nonlocal count, inside
        writes = event != "open" or (
            isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if event not in events or not writes:
            return
        if not inside:
            inside = True
            step(count)
            inside = False
            count += 1

    sys.addaudithook(hook)


def _write(stage: Path, epoch: int) -> None:
    """Writes as Spark does: with a directory of the tasks."""
    for number, (name, text) in enumerate(WRITTEN.items()):
        task = stage / "_temporary" / "0" / str(number)
        task.mkdir(parents=True, exist_ok=True)
        (task / "file").write_text(text)
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        os.rename(task / "file", stage / f"{name}-{epoch}")
    shutil.rmtree(stage / "_temporary")
    (stage / "_SUCCESS").touch()


def _put(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def _visible(directory: Path) -> Iterator[Path]:
    """The files that readers of Parquet and the like take."""
    for path in directory.iterdir():
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir():
            yield from _visible(path)
        else:
            yield path


def _kill(step: int, count: int) -> None:
    if count == step:
        os.kill(os.getpid(), signal.SIGKILL)


def _note(descriptor: int, count: int) -> None:
    os.pwrite(descriptor, str(count).encode(), 0)


@pytest.mark.parametrize(
    ("case", "events"),
    [pytest.param(case, RENAMES, id=case.name) for case in CASES if case.name in DAILY]
    + [
        pytest.param(case, ALL_EVENTS, id=f"{case.name}-all", marks=pytest.mark.soak)
        for case in CASES
    ],
)
def test_a_start_is_killed_at_any_step(tmp_path: Path, case: Case, events: frozenset[str]) -> None:
    world = World(tmp_path / "world", case)
    with (tmp_path / "steps").open("w") as counter:
        assert world.run(events, partial(_note, counter.fileno())) == ENDED
    world.check_end()
    steps = int((tmp_path / "steps").read_text()) + 1
    assert steps > 5
    for step in range(steps):
        world = World(tmp_path / "world", case)
        assert world.run(events, partial(_kill, step)) == -signal.SIGKILL
        world.check_visible()
        assert world.run() == ENDED
        world.check_end()

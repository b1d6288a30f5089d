"""Runs several starts of a program in every order of what they do, with real files.

The starts are the real code, a greenlet each. A start stops before each of its *steps*: calls of
the product's functions that a scenario names, such as claiming an epoch, fencing, recording,
publishing, ending. The scheduler lets one start at a time do one step. A start that is never
resumed is one that was killed; one that is resumed after others is one that stood still, and
doesn't know that it has been taken over from.

Two runs that have reached the same state continue in the same ways, so that each state is continued
from once. A start's state is what its steps have answered so far; the files' state is what lies
where. Exhaustive, unless the number of times is bounded that one start stops in favor of another.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MethodType
from typing import Any, Protocol

import pytest
from greenlet import getcurrent, greenlet

from holdfast.older_python import add_note

# Moments, and numbers that the file system draws, are others in each run.
_PASSING = re.compile(
    r"[-0-9]{10}T[0-9:.]+Z|datetime\.datetime\([^)]*\)|0x[0-9a-f]+|\b[1-9][0-9]{3,}\b"
)


class Killed(BaseException):
    """Ends a start: it does no step from then on."""


@dataclass(frozen=True)
class Step:
    """What starts do as a whole, or stop before.

    Attributes:
        owner: of the function: a class or a module.
        name: of the function.
        is_whole: whether nothing within it is a step, too.
    """

    owner: Any
    name: str
    is_whole: bool = True


class Scenario(Protocol):
    """What is run, in the current directory, and what has to hold: always, and in the end.

    Where all are killed `recover` ends the work, in a copy of the files. `observed` is what has
    been observed of the steps by which the files are judged.
    """

    names: Sequence[str]
    are_alike: bool
    """Whether it is all the same which of them begins."""

    def prepare(self) -> None: ...

    def run(self, name: str) -> object: ...

    def killed(self, name: str) -> None:
        """Releases the locks of a start, as the operating system does."""

    def observe(self, name: str, step: str, answer: object) -> None: ...

    def observed(self) -> object: ...

    def check(self) -> None: ...

    def recover(self) -> None: ...

    def check_ends(self, ends: Mapping[str, object]) -> None: ...


@dataclass
class Start:
    """A start, and its greenlet."""

    name: str
    thread: greenlet | None = None
    answers: int = 0
    waits_before: str = ""
    end: object = None
    has_ended: bool = False
    is_in_step: bool = False
    ids: int = 0

    def learn(self, step: Step, answer: object) -> None:
        self.answers = hash((self.answers, step.name, _lasting(repr(answer))))

    def state(self) -> object:
        return repr(self.end) if self.has_ended else (self.answers, self.waits_before, self.ids)


class _Turn:
    """Whose turn it is, and how many ids were drawn where it is no start's."""

    start: Start | None = None
    ids: int = 0


_turn = _Turn()


class _Run:
    """One run of all starts."""

    def __init__(self, root: Path, scenario: Scenario) -> None:
        self.root, self._scenario = root, scenario
        self.starts = [Start(name) for name in scenario.names]
        self.trace: list[str] = []
        root.mkdir()
        os.chdir(root)
        _turn.ids = 0
        scenario.prepare()
        for start in self.starts:
            start.thread = greenlet(self._main)
            self._switch(start, start)

    def _main(self, start: Start) -> None:
        try:
            start.end = self._scenario.run(start.name)
        except (Killed, Exception) as error:
            start.end = error
        start.has_ended = True

    def _switch(self, start: Start, *value: object) -> None:
        _turn.start = start
        try:
            assert start.thread is not None
            start.thread.switch(*value)
        finally:
            _turn.start = None

    def do_step(self, index: int) -> None:
        """Has a start do the step before which it waits; its complement kills it instead."""
        if index < 0:
            self.trace.append(f"{self.starts[~index].name} is killed")
            self.kill(self.starts[~index])
            return
        start = self.starts[index]
        self.trace.append(f"{start.name}: {start.waits_before}")
        self._switch(start)

    def kill(self, start: Start) -> None:
        _turn.start = start
        try:
            while not start.has_ended:
                assert start.thread is not None
                start.thread.throw(Killed)
        finally:
            _turn.start = None
        self._scenario.killed(start.name)

    def running(self) -> list[int]:
        return [index for index, start in enumerate(self.starts) if not start.has_ended]

    def files(self) -> frozenset[object]:
        return frozenset(_files("."))

    def close(self) -> None:
        for start in self.starts:
            self.kill(start)
        shutil.rmtree(self.root)


def _files(directory: str) -> Iterator[object]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield entry.path
                yield from _files(entry.path)
            else:
                with open(entry.path, encoding="latin-1") as file:
                    yield entry.path, _lasting(file.read())


@cache
def _lasting(text: str) -> str:
    return _PASSING.sub("", text)


@dataclass
class Explored:
    """How many states were reached, and how many of files."""

    states: int
    files: int


def explore(
    home: Path,
    scenario: Scenario,
    steps: Sequence[Step],
    *,
    switches: int | None = None,
    kills: bool = False,
) -> Explored:
    """Runs a scenario in all orders of its starts' steps.

    Args:
        home: an empty directory.
        scenario: what is run.
        steps: before which starts stop.
        switches: how often a start that has not ended stops in favor of another; None: always.
        kills: whether a start that is killed differs from one that is never resumed: others see
            that its locks are gone.

    Raises:
        AssertionError: of the scenario, with the steps that led there.
    """
    before = os.getcwd()
    seen: dict[object, float] = {}
    seen_files: set[object] = set()
    waiting: list[tuple[int, ...]] = [()]
    limit = float("inf") if switches is None else switches
    with _stopping_before(steps, scenario):
        try:
            while waiting:
                schedule = waiting.pop()
                run = _Run(home / "run", scenario)
                try:
                    left, current = limit, -1
                    for index in schedule:
                        left, current = _left_after(run, left, current, index), index
                        run.do_step(index)
                    while True:
                        files = run.files(), scenario.observed()
                        key = (files, *(start.state() for start in run.starts))
                        if switches is not None:
                            key = (current, *key)
                        if seen.get(key, -1) >= left:
                            break
                        seen[key] = left
                        if files not in seen_files:
                            seen_files.add(files)
                            scenario.check()
                            _recover(run.root, home / "copy", scenario)
                        running = run.running()
                        if not running:
                            scenario.check_ends({each.name: each.end for each in run.starts})
                            break
                        if current in running:
                            running.remove(current)
                            running.insert(0, current)
                        if not schedule and scenario.are_alike:
                            running = running[:1]
                        choices = running + [~index for index in running if kills]
                        first, *others = (
                            each for each in choices if _left_after(run, left, current, each) >= 0
                        )
                        waiting += [(*schedule, each) for each in others]
                        schedule = (*schedule, first)
                        left, current = _left_after(run, left, current, first), first
                        run.do_step(first)
                except Exception as error:
                    add_note(error, "\n".join(run.trace))
                    raise
                finally:
                    run.close()
        finally:
            os.chdir(before)
    return Explored(len(seen), len(seen_files))


def _left_after(run: _Run, left: float, current: int, index: int) -> float:
    stops = current >= 0 and current != index and not run.starts[current].has_ended
    return left - 1 if stops and index >= 0 else left


def _recover(root: Path, copy: Path, scenario: Scenario) -> None:
    """In a copy, of which the starts that wait know nothing, nor hold a lock there."""

    def take(source: str, to: str) -> None:
        # What is published is known by its inode, too, and never written to again.
        (shutil.copyfile if source.startswith(str(root / "ha")) else os.link)(source, to)

    shutil.copytree(root, copy, copy_function=take)
    os.chdir(copy)
    try:
        scenario.recover()
    finally:
        os.chdir(root)
        shutil.rmtree(copy)


@contextmanager
def _stopping_before(steps: Sequence[Step], scenario: Scenario) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for step in steps:
            patch.setattr(step.owner, step.name, _stopping(step, scenario))
        patch.setattr(uuid, "uuid4", _uuid4)
        # No machine stops here.
        patch.setattr(os, "fsync", lambda _: None)
        yield


def _stopping(step: Step, scenario: Scenario) -> Callable[..., Any]:
    real = getattr(step.owner, step.name)

    def call(*args: Any, **kwargs: Any) -> Any:
        start = _turn.start
        if start is None or start.is_in_step:
            return real(*args, **kwargs)
        start.waits_before = step.name
        getcurrent().parent.switch()
        start.is_in_step = step.is_whole
        try:
            answer = real(*args, **kwargs)
        except BaseException as error:
            start.learn(step, type(error))
            raise
        finally:
            start.is_in_step = False
        start.learn(step, getattr(answer, "__dict__", answer))
        scenario.observe(start.name, step.name, answer)
        return answer

    return staticmethod(call) if isinstance(real, MethodType) else call


def _uuid4() -> uuid.UUID:
    of = _turn.start or _turn
    of.ids += 1
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{getattr(of, 'name', '')} {of.ids}")

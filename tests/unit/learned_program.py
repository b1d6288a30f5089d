"""A program as a state machine, which is learned by running it: each answer is given to it once.

The program is the real code. What it does to files doesn't come to any: it waits for an answer at
each step, and what it does next follows from the answers alone.
"""

from __future__ import annotations

import os
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from greenlet import getcurrent

from tests.unit.interleavings import Killed, Program, Start, relative, resume
from tests.unit.modelled_files import Answer, Step
from tests.unit.named_files import DIRECTORY, status

_KEPT = 2000


@dataclass(frozen=True)
class LocalState:
    """A state of a program.

    Attributes:
        step: what it does next; None where it has ended.
        end: what it has returned and raised then.
        answers: what leads there from the beginning, the last answer first, and the ones before.
    """

    step: Step | None
    end: object
    answers: tuple[Any, ...] | None


class LearnedProgram:
    """The state machine of a program.

    Args:
        name: of the start that is run.
        made: makes the program, in the state in which it begins.
        told: what of a file's content programs go by.
    """

    def __init__(
        self, name: str, made: Callable[[], Program], told: Callable[[bytes], str]
    ) -> None:
        self._name = name
        self._made = made
        self._told = told
        self.states: list[LocalState] = []
        self.contents: dict[str, bytes] = {}
        self._numbers: dict[object, int] = {}
        self._next: dict[tuple[int, Answer], int] = {}
        self._waiting: OrderedDict[int, _Replay] = OrderedDict()
        self.first = self._known(_Replay(self, self._name, self._made()), None)
        self.killed = len(self.states)
        self.states.append(LocalState(None, ("killed", None), None))

    def after(self, state: int, answer: Answer) -> int:
        """The number of the state in which a program is after its step was answered.

        Args:
            state: the number of the state before.
            answer: to the step.
        """
        found = self._next.get((state, answer))
        if found is None:
            before = self.states[state].answers
            replay = self._waiting.pop(state, None) or self._replayed(before)
            replay.go_on(answer)
            found = self._next[state, answer] = self._known(replay, (answer, before))
        return found

    def before(self) -> dict[int, list[int]]:
        """For each state those that come right before it, as far as is known."""
        found: dict[int, list[int]] = defaultdict(list)
        for (state, _), after in self._next.items():
            found[after].append(state)
        return found

    def write(self, content: bytes) -> str:
        """What is told of a content, which is known from then on."""
        told = self._told(content)
        self.contents.setdefault(told, content)
        return told

    def forget(self) -> None:
        """Ends what is still being run."""
        while self._waiting:
            self._waiting.popitem()[1].end()

    def _replayed(self, answers: tuple[Any, ...] | None) -> _Replay:
        ordered: list[Answer] = []
        while answers is not None:
            ordered.append(answers[0])
            answers = answers[1]
        replay = _Replay(self, self._name, self._made())
        for answer in reversed(ordered):
            replay.go_on(answer)
        return replay

    def _known(self, replay: _Replay, answers: tuple[Any, ...] | None) -> int:
        number = self._numbers.setdefault(replay.start.state(), len(self.states))
        if number < len(self.states):
            replay.end()
            return number
        self.states.append(LocalState(replay.next, replay.start.end, answers))
        if replay.next is not None:
            self._waiting[number] = replay
            if len(self._waiting) > _KEPT:
                self._waiting.popitem(last=False)[1].end()
        return number


class _Replay:
    """A run of a program that is given answers; takes the place of a `Run`."""

    def __init__(self, program: LearnedProgram, name: str, made: Program) -> None:
        self._program = program
        self.start = Start(name)
        self._prefix = f"{os.getcwd()}{os.sep}"
        self.next: Step | None = None
        self.made: dict[str, object] = defaultdict(str)
        self.start.begin(self, made)

    def go_on(self, answer: Answer) -> None:
        """Goes on up to the next step."""
        self.next = None
        resume(self, self.start, answer)

    def end(self) -> None:
        """Ends it."""
        self.start.kill(self)

    def relative(self, path: Any) -> str | None:
        """A path in the current directory; None for all others."""
        return relative(path, self._prefix)

    def step(
        self,
        what: str,
        reads: Sequence[str],
        writes: Sequence[str],
        act: Callable[[], Any],
        content: bytes = b"",
    ) -> Any:
        """Gives the program the answer to a step."""
        if self.start.is_killed:
            raise Killed
        told = self._program.write(content) if content else ""
        self.next = Step(what, tuple(reads), tuple(writes), told)
        kind, answer = getcurrent().parent.switch() or (None, None)
        if self.start.is_killed:
            raise Killed
        self.start.learned = hash((self.start.learned, what, *reads, *writes, answer))
        if kind == "error":
            raise OSError(answer, os.strerror(answer))
        if kind == "kind":
            return status(reads[0], DIRECTORY if answer else "")
        if kind == "status":
            return status(reads[0], answer)
        if kind in ("names", "entries"):
            return list(answer)
        if kind == "content":
            return self._program.contents[answer]
        if what in ("open", "create", "truncate"):
            # One that can be closed, and is nobody else's: its mode is changed as well.
            return os.memfd_create(what)
        return answer

    def put(self, path: str) -> None:
        """A step has made what lies there."""

    def fill(self, path: str, content: bytes) -> None:
        """A step has written what lies there."""

    def move(self, source: str, to: str, *, swaps: bool = False) -> None:
        """What lies at a path has been renamed."""

    def drop(self, path: str) -> None:
        """Nothing lies there any more."""

"""Goes through all interleavings of starts of one program over a model of their files.

What is gone through, and why nothing is missed, is as in `interleavings`, with two differences that
make it some fifty times as fast:

- What a start does next, given what it has learned, is found out once, by running it
  (`learned_program`). From then on its steps are those of a state machine, and the files are a
  model (`modelled_files`). What nobody may see, and whether a last start ends the work, is looked
  at in real files, which each state of the model is written to.
- Starts are the same program: two states are the same if they are but for who is who. Each start
  calls itself the first one and those after it the next ones, in a ring; all that they name is
  renamed on its way to the files and back. So there is one state machine, and of the states that
  differ by a turn of the ring one is gone on with.

Nor is a start stopped before a step that finds what it asks for, or is to make, where no start ever
removes it: whatever others do, it is answered the same and changes nothing. Which paths are removed
is found out like which ones are shared. Nor before one that goes on in the same way whatever it is
answered, or that makes no difference to anything that the others may still do (`futures`).
"""

from __future__ import annotations

import errno
import functools
import os
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.older_python import add_note
from tests.unit.futures import Futures
from tests.unit.interleavings import (
    Explored,
    Program,
    Scenario,
    by_name,
    by_the_system,
    kind,
    scheduled,
    with_parents,
)
from tests.unit.learned_program import LearnedProgram
from tests.unit.modelled_files import LOCK, NOTHING, Answer, Files, Step, done
from tests.unit.named_files import DIRECTORY, NAME

_WALKS = 2000
_REMEMBERED = 5_000_000
_STRETCHES = [1, 3, 10, 30, 100]
_FINDS = ("mkdir", "open", "stat", "truncate")


@dataclass(frozen=True)
class _Pending:
    """A step that a start is about to do, by the names that all know."""

    step: Step
    looks: frozenset[str]
    kinds: frozenset[str]
    writes: frozenset[str]


@dataclass(frozen=True)
class _Placed:
    """What lies where.

    Attributes:
        number: stands for it.
        files: by path.
        hashes: stand for those that matter, by how far the ring is turned.
    """

    number: int
    files: Files
    hashes: tuple[int, ...]


@dataclass(frozen=True)
class _State:
    """A state of all starts and files.

    Attributes:
        starts: the number of each start's state.
        placed: the files.
        trace: the steps that led there, the last one first.
    """

    starts: tuple[int, ...]
    placed: _Placed
    trace: tuple[object, ...] | None


@dataclass(frozen=True, slots=True)
class _Move:
    """A start's next step among some files.

    Attributes:
        stops: whether the start is stopped before it.
        told: the step, and whose.
        after: the number of the start's state then.
        placed: the files then.
        answer: what the start is told.
        shows: whether what it changes may be looked at; so it does for one that has ended.
        is_anyway: whether the start goes on in the same way whatever it is answered.
        is_missing: whether it finds nothing where it looks.
    """

    stops: bool
    told: _Pending | None
    after: int
    placed: _Placed
    answer: object
    shows: bool
    is_anyway: bool
    is_missing: bool


_KILLED = _Move(True, None, 0, _Placed(0, {}, ()), None, True, False, False)


class ModelledInterleavings:
    """All interleavings of the programs of a scenario, which are starts of one program.

    Args:
        home: where files are put.
        scenario: what is gone through. Its programs are named by `NAME`, in order.
        turns: whether states that differ by who is who are one.
        kills: whether the locks of a start that is killed go. Without, a start that is killed is
            one that is never gone on with.
    """

    def __init__(
        self, home: Path, scenario: Scenario, *, turns: bool = True, kills: bool = False
    ) -> None:
        self._home = home
        self._scenario = scenario
        self._names = tuple(scenario.programs)
        self._ring = len(self._names)
        self._turns = range(self._ring if turns else 1)
        self._kills = kills
        self._random = random.Random(0)
        self._shared: set[str] = set()
        self._removed: set[str] = set()
        self._touched: dict[str, dict[int, bool]] = {}
        self._keys: dict[tuple[str, str], tuple[int, ...]] = {}
        self._drawn: dict[tuple[str, str], int] = {}
        self._placed: dict[int, _Placed] = {}
        self._moves: dict[tuple[int, int, int], _Move] = {}
        self._goes_on_anyway: dict[int, bool] = {}
        self._explored = Explored()
        self._has_news = False
        self.turned = functools.cache(self._turned)
        self._is_passing = functools.cache(scenario.is_passing)
        self._pending = functools.cache(self._told_to_all)

    def go_through(self) -> Explored:
        """Goes through all of them.

        Raises:
            AssertionError: what the scenario has raised, with the steps that led there.
        """
        before = os.getcwd()
        os.chdir(self._home)
        with scheduled():
            try:
                self._program = LearnedProgram(self._names[0], self._made, self._scenario.told)
                first = self._first()
                self._learn(first)
                while not self._is_complete(first):
                    pass
                self._program.forget()
            finally:
                os.chdir(before)
        return self._explored

    def _is_complete(self, first: _State) -> bool:
        """Whether nothing was found out that would have been gone by."""
        self._explored = Explored()
        self._moves.clear()
        self._has_news = False
        self._futures = Futures(self._program, self.turned)
        # Each state, and the steps that need not be done from there.
        self.seen: dict[int, int] = {}
        self.seen_files: set[int] = set()
        self.seen_contents: set[int] = set()
        self._search(self._settled(first))
        self._explored.states = len(self.seen)
        self._explored.files = len(self.seen_contents)
        return not self._has_news and self._futures.is_known()

    def _search(self, first: _State) -> None:
        seen, everyone = self.seen, range(self._ring)
        waiting = [(first, 0)]
        while waiting:
            state, asleep = waiting.pop()
            key, turn = self._key(state)
            running = [each for each in everyone if self._program.states[state.starts[each]].step]
            still = self._mask(asleep, turn)
            before = seen.get(key)
            if before is None:
                self._look_at(state)
                if not running:
                    self._ended(state)
                todo = [each for each in running if not asleep >> each & 1]
                seen[key] = still
                if self._kills:
                    waiting.extend((self._killed(state, each), 0) for each in self._holders(state))
            else:
                todo = [
                    each
                    for each in running
                    if not asleep >> each & 1 and before >> (each + turn) % self._ring & 1
                ]
                seen[key] = before & still
                asleep &= self._mask(before, -turn)
            for each in todo:
                after, moved = self._gone_on(state, each)
                pending = self._pending(state.starts[each], each)
                rest = 0
                for other in running:
                    if asleep >> other & 1 and _commute(
                        pending, self._pending(state.starts[other], other)
                    ):
                        rest |= 1 << other
                # What has come at once need not be done from here, nor then anything after it.
                if not moved & rest:
                    waiting.append((after, rest))
                asleep |= 1 << each

    def _learn(self, first: _State) -> None:
        """Finds out about most of the paths that are shared, so that little is done again."""
        order = random.Random(0)
        for _ in range(_WALKS):
            state = first
            while running := [
                each
                for each in range(self._ring)
                if self._program.states[state.starts[each]].step is not None
            ]:
                chosen = order.choice(running)
                for _ in range(order.choice(_STRETCHES)):
                    if self._program.states[state.starts[chosen]].step is None:
                        break
                    state, _ = self._gone_on(state, chosen, alone=True)

    # -- states

    def _first(self) -> _State:
        """In which nobody has done anything."""
        os.chdir(self._new_directory("first"))
        by_the_system()
        self._scenario.prepare()
        files: dict[str, str] = {}
        for directory, directories, names in os.walk("."):
            for name in directories:
                path = os.path.normpath(os.path.join(directory, name))
                files[path] = DIRECTORY + path
            for name in names:
                path = os.path.normpath(os.path.join(directory, name))
                files[path] = self._program.write(Path(path).read_bytes())
        os.chdir(self._home)
        files = {path: told for path, told in files.items() if not self._is_passing(path)}
        placed = self._placed_as(files, 0, self._hashes(files))
        assert len(set(placed.hashes)) == 1, "what is there before is not the same to all"
        return _State((self._program.first,) * self._ring, placed, None)

    def _settled(self, state: _State) -> _State:
        """After what the starts do before their first step that others may see."""
        for each in range(self._ring):
            if not self._move(state.starts[each], each, state.placed).stops:
                state, _ = self._gone_on(state, each)
        return state

    def _gone_on(self, state: _State, index: int, *, alone: bool = False) -> tuple[_State, int]:
        """After a start's step, and what comes up to the next ones before which any is stopped.

        Args:
            state: the state before.
            index: of the start.
            alone: the step alone.

        Returns:
            the state, and which of the other starts have gone on, too.
        """
        placed, trace = state.placed, state.trace
        starts = list(state.starts)
        going: int | None = index
        moved = 0
        while going is not None:
            moved |= 1 << going
            move = self._move(starts[going], going, placed)
            starts[going], placed = move.after, move.placed
            trace = (going, move, trace)
            if alone:
                break
            if self._move(starts[going], going, placed).stops:
                going = self._idle(starts, placed)
        return _State(tuple(starts), placed, trace), moved & ~(1 << index)

    def _holders(self, state: _State) -> list[int]:
        """The starts that hold a lock which others may look at."""
        return [
            each
            for each, number in enumerate(state.starts)
            if self._program.states[number].step is not None
            and self._futures.may_be_looked_at(
                self._locks(state, each), _others(state.starts, each)
            )
        ]

    def _killed(self, state: _State, index: int) -> _State:
        """After a start was killed, which holds locks."""
        starts = list(state.starts)
        starts[index] = self._program.killed
        placed = self._changed(state.placed, dict.fromkeys(self._locks(state, index)))
        killed = _State(tuple(starts), placed, (index, _KILLED, state.trace))
        going = self._idle(starts, placed)
        return killed if going is None else self._gone_on(killed, going)[0]

    def _locks(self, state: _State, index: int) -> list[str]:
        files, name = state.placed.files, self._names[index]
        return [path for path, told in files.items() if path.endswith(LOCK) and told == name]

    def _idle(self, starts: Sequence[int], placed: _Placed) -> int | None:
        """A start for which it is all the same when it does its next step."""
        for index, number in enumerate(starts):
            move = self._move(number, index, placed)
            if move.is_anyway:
                return index
            if move.told is None or move.shows:
                continue
            if self._futures.are_apart(
                move.told.step,
                _others(starts, index),
                is_missing=move.is_missing,
                is_changing=move.placed is not placed,
            ):
                return index
        return None

    def _move(self, number: int, index: int, placed: _Placed) -> _Move:
        key = number, index, placed.number
        found = self._moves.get(key)
        if found is None:
            if len(self._moves) > _REMEMBERED:
                self._moves.clear()
            found = self._moves[key] = self._moved(number, index, placed)
        return found

    def _moved(self, number: int, index: int, placed: _Placed) -> _Move:
        if self._program.states[number].step is None:
            return _Move(True, None, number, placed, None, True, False, False)
        pending = self._pending(number, index)
        step, files = pending.step, placed.files
        answer, changes = done(step, files)
        path = (step.writes or step.reads)[0]
        finds = step.what in _FINDS and path in files and kind(path) not in self._removed
        shows = any(not path.endswith(LOCK) and not self._is_passing(path) for path in changes)
        is_anyway = step.what == "open" and self._is_anyway(
            number, files.get(path, "")[:1] == DIRECTORY
        )
        is_missing = answer == ("error", errno.ENOENT) and path not in files
        for path, told in changes.items():
            if told is None and kind(path) not in self._removed:
                self._removed.add(kind(path))
                self._has_news = True
        return _Move(
            not finds and not self._shared.isdisjoint(pending.kinds),
            pending,
            self._program.after(number, self._own(answer, index)),
            self._changed(placed, changes),
            answer[1],
            shows,
            is_anyway,
            is_missing,
        )

    def _is_anyway(self, number: int, is_directory: bool) -> bool:
        """Whether a start goes on in the same way where the directory to be opened is gone."""
        if number not in self._goes_on_anyway and is_directory:
            found, gone = (
                self._program.after(number, answer) for answer in (NOTHING, ("error", errno.ENOENT))
            )
            self._goes_on_anyway[number] = found == gone
        return self._goes_on_anyway.get(number, False)

    def _changed(self, placed: _Placed, changes: Mapping[str, str | None]) -> _Placed:
        files, number, hashes = dict(placed.files), placed.number, list(placed.hashes)
        for path, told in changes.items():
            before = files.pop(path, None)
            if told is not None:
                files[path] = told
            for each in (before, told):
                if each is not None:
                    keys = self._keys_of(path, each)
                    number ^= keys[0]
                    if not self._is_passing(path):
                        hashes = [one ^ key for one, key in zip(hashes, keys, strict=True)]
        return self._placed_as(files, number, tuple(hashes))

    def _placed_as(self, files: Files, number: int, hashes: tuple[int, ...]) -> _Placed:
        return self._placed.setdefault(number, _Placed(number, files, hashes))

    def _key(self, state: _State) -> tuple[int, int]:
        """Stands for a state, whoever is who; and how far the ring is turned for that."""
        starts, hashes = state.starts, state.placed.hashes
        found = [
            hash((starts[self._ring - turn :] + starts[: self._ring - turn], hashes[turn]))
            for turn in self._turns
        ]
        least = min(found)
        return least, found.index(least)

    def _mask(self, mask: int, turn: int) -> int:
        """A set of starts after the ring has been turned."""
        turn %= self._ring
        every = (1 << self._ring) - 1
        return (mask << turn | mask >> (self._ring - turn)) & every

    def _hashes(self, files: Files) -> tuple[int, ...]:
        hashes = [0] * len(self._turns)
        for path, told in files.items():
            for turn, key in enumerate(self._keys_of(path, told)):
                hashes[turn] ^= key
        return tuple(hashes)

    def _keys_of(self, path: str, told: str) -> tuple[int, ...]:
        """A random number for a file, and for what it becomes where the ring is turned."""
        found = self._keys.get((path, told))
        if found is None:
            found = self._keys[path, told] = tuple(
                self._drawn.setdefault(
                    (self.turned(path, turn), self.turned(told, turn)),
                    self._random.getrandbits(63),
                )
                for turn in self._turns
            )
        return found

    # -- names

    def _turned(self, text: str, turn: int) -> str:
        """A text in which each start is called as the one that comes so much later in the ring."""

        def name(found: object) -> str:
            return self._names[(self._names.index(found[0]) + turn) % self._ring]  # type: ignore[index]

        return NAME.sub(name, text)

    def _told_to_all(self, number: int, index: int) -> _Pending:
        """What a start is about to do in a state."""
        own = self._program.states[number].step
        assert own is not None
        reads, writes = (
            tuple(self.turned(path, index) for path in paths) for paths in (own.reads, own.writes)
        )
        step = Step(own.what, reads, writes, self.turned(own.content, index))
        if step.content:
            self._contents(step.content, own.content, index)
        touches = {place for path in (*reads, *writes) for place in with_parents(path)}
        for place in touches:
            self._touch(kind(place), index, writes=place in writes)
        # What else lies in a directory matters to who asks for it alone.
        looks = {place for place in touches if place in reads or not place.endswith(f"{os.sep}*")}
        return _Pending(step, frozenset(looks), frozenset(map(kind, touches)), frozenset(writes))

    def _touch(self, place: str, index: int, *, writes: bool) -> None:
        for turn in range(self._ring):
            touched = self._touched.setdefault(self.turned(place, turn), {})
            who = (index + turn) % self._ring
            touched[who] = touched.get(who, False) or writes
            if len(touched) > 1 and any(touched.values()):
                self._has_news |= self.turned(place, turn) not in self._shared
                self._shared.add(self.turned(place, turn))

    def _own(self, answer: Answer, index: int) -> Answer:
        """An answer, as the start calls everybody."""
        what, value = answer
        if what in ("content", "status"):
            assert isinstance(value, str)
            own = self.turned(value, -index)
            if what == "content":
                self._contents(own, value, -index)
            return what, own
        if what == "names":
            assert isinstance(value, tuple)
            return what, tuple(sorted(self.turned(name, -index) for name in value))
        if what == "entries":
            assert isinstance(value, tuple)
            return what, tuple(sorted((self.turned(name, -index), kind) for name, kind in value))
        return answer

    def _contents(self, to: str, of: str, turn: int) -> None:
        contents = self._program.contents
        if to not in contents:
            text = self._turned(contents[of].decode("ascii"), turn)
            contents[to] = text.encode("ascii")

    # -- what is looked at

    def _look_at(self, state: _State) -> None:
        """Looks at the files of a state, whichever start has made them, once."""
        if (files := min(state.placed.hashes)) in self.seen_files:
            return
        self.seen_files.add(files)
        real = {path: told for path, told in state.placed.files.items() if not path.endswith(LOCK)}
        contents = min(
            self._hashes({path: told for path, told in real.items() if not self._is_passing(path)})
        )
        if contents in self.seen_contents:
            return
        self.seen_contents.add(contents)
        directory = self._new_directory("files")
        try:
            os.chdir(directory)
            for path, told in sorted(real.items()):
                if told[:1] == DIRECTORY:
                    os.mkdir(path)
                else:
                    Path(path).write_bytes(self._program.contents[told])
            self._scenario.check()
            by_the_system("last")
            with by_name(self._scenario.told):
                self._scenario.recover()
        except BaseException as error:
            add_note(error, "\n".join(_told(state.trace)))
            raise
        finally:
            os.chdir(self._home)
            shutil.rmtree(directory)

    def _ended(self, state: _State) -> None:
        ends = [self._program.states[number].end for number in state.starts]
        try:
            self._scenario.ended(dict(zip(self._names, ends, strict=True)))
        except AssertionError as error:
            add_note(error, "\n".join(_told(state.trace)))
            raise

    def _made(self) -> Program:
        """The program, before it has done anything."""
        before = os.getcwd()
        directory = self._new_directory("made")
        os.chdir(directory)
        by_the_system()
        self._scenario.prepare()
        os.chdir(before)
        shutil.rmtree(directory)
        return self._scenario.programs[self._names[0]]

    def _new_directory(self, name: str) -> Path:
        path = self._home / name
        path.mkdir()
        return path


def _others(starts: Sequence[int], index: int) -> list[tuple[int, int]]:
    """The states of the other starts, each with its index."""
    return [(other, each) for each, other in enumerate(starts) if each != index]


def _commute(one: _Pending, other: _Pending) -> bool:
    return one.writes.isdisjoint(other.looks) and other.writes.isdisjoint(one.looks)


def _told(trace: tuple[object, ...] | None) -> list[str]:
    return list(_backwards(trace))[::-1]


def _backwards(trace: tuple[object, ...] | None) -> Iterator[str]:
    while trace is not None:
        index, move, trace = trace  # type: ignore[misc, assignment]
        assert isinstance(move, _Move)
        if move.told is None:
            yield f"{index}: killed"
            continue
        step = move.told.step
        yield f"{index}: {step.what} {' '.join((*step.reads, *step.writes))}: {move.answer}"

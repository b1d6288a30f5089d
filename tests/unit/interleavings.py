"""Goes through all interleavings of several programs over what they do to their files.

The programs are the real code, in a thread each (a light one: they take turns anyway), and their
files are real. Of each thing that a thread does to a file the scheduler hears before it is done,
and lets one thread at a time go on by one step. What a killed program has done is what its thread
has done so far, so that every state that is reached is also one in which any of the threads have
been killed.

What keeps "all" feasible, and why nothing is missed:

- Two runs that have reached the same state are gone on with once. A thread's state is what it has
  learned of its files so far, step by step, since nothing else tells it anything; the state of the
  files is for each path what lies there, but for what no program goes by. Both the same, both runs
  go on in the same ways.
- What a thread has learned within a function that keeps nothing of it is forgotten at its end.
- Where two threads wait before steps that commute, one order of the two is gone through ("sleep
  sets", after Godefroid). That leaves out no state, only a second way to the same one.
- A thread isn't stopped before a step over paths that no other thread touches in any run (or that
  all only look at). Such a step commutes with every step of the others: to do it at once gives the
  same states as to do it later. Which paths these are is found out: where a run shows that another
  thread does touch one, all is done again with that known. What the first step is that breaks this
  can't be missed, as the steps before it were reordered among commuting ones alone, and a run with
  these was gone through.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import functools
import io
import os
import random
import re
import shutil
import stat
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from greenlet import getcurrent, greenlet

from holdfast.older_python import add_note
from holdfast.sinks.directory_renames import KernelRenames
from tests.unit.named_files import NAME, ROOT, status

_LEARNING = 60
_OTHER_IDS = 1000
_EPOCH = re.compile(r"\b[0-9]{10}\b")
_REAL_RMTREE = shutil.rmtree
_REAL_COPYTREE = shutil.copytree
_REAL_OPEN = io.open
_REAL = {
    name: getattr(os, name)
    for name in """stat lstat open close listdir scandir mkdir rmdir rename replace link unlink
    remove chmod chown utime listxattr""".split()
}
_REAL_EXCHANGE = KernelRenames._rename
real_open = os.open

Program = Callable[[str], object]
"""Runs in the current directory, under a name of its own; what it returns or raises is its end."""


class Killed(BaseException):
    """Ends a thread at once: no step of it is done from then on."""


@dataclass
class Start:
    """A program in a thread of its own.

    Attributes:
        name: of the start.
        learned: stands for what its steps have told it.
        steps: how many it has done.
        end: what it has returned or raised; None while it runs.
    """

    name: str
    learned: int = 0
    steps: int = 0
    end: object = None
    is_killed: bool = False
    thread: greenlet | None = None
    entered: list[tuple[str, int]] = field(default_factory=list)
    uuids: int = 0
    looks: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    waits_for: str | None = None
    holds: str | None = None

    def begin(self, run: Any, program: Program) -> None:
        """Runs a program up to its first step.

        Args:
            run: which is told of its steps.
            program: the program.
        """

        def main(_: object) -> None:
            try:
                self.end = (program(self.name), None)
            except Killed:
                self.end = ("killed", None)
            except BaseException as error:
                self.end = (None, error)

        self.thread = greenlet(main)
        resume(run, self)

    def kill(self, run: Any) -> None:
        """Ends it: no step of it is done from now on."""
        self.is_killed = True
        while self.end is None:
            resume(run, self)

    def state(self) -> object:
        """Stands for all that it goes by from here on: for whoever has ended, its end."""
        return (self.learned, self.uuids) if self.end is None else repr(self.end)

    def commutes_with(self, other: Start) -> bool:
        """Whether the steps before which both wait can be done in either order."""
        return self.writes.isdisjoint(other.looks) and other.writes.isdisjoint(self.looks)


class Run:
    """One run of several programs.

    Args:
        root: the directory that they share.
        shared: the kinds of paths before which threads are stopped.
        scenario: says what of paths and contents programs go by.
    """

    def __init__(self, root: Path, shared: set[str], scenario: Scenario) -> None:
        self.root = root
        self._scenario = scenario
        self._prefix = f"{root.resolve()}{os.sep}"
        self._shared = shared
        self.made: dict[str, object] = {}
        self.touched: dict[str, dict[str, bool]] = {}
        self.starts: list[Start] = []
        self.trace: list[str] = []

    def add(self, name: str, program: Program) -> None:
        """Adds a start, which runs up to its first step."""
        self.starts.append(Start(name))
        self.starts[-1].begin(self, program)

    def go_on(self, index: int) -> None:
        """Lets a start do the step before which it waits, and what comes up to the next one.

        Args:
            index: of the start; its complement kills it instead.
        """
        if index >= 0:
            resume(self, self.starts[index])
            return
        start = self.starts[~index]
        self.trace.append(f"{start.name}: killed")
        start.kill(self)
        self.made.pop(start.holds or "", None)
        start.holds = None

    def kill(self) -> None:
        """Kills all that run."""
        for start in self.starts:
            start.kill(self)

    def running(self) -> list[int]:
        """The starts that have a step to do."""
        return [
            number
            for number, start in enumerate(self.starts)
            if start.end is None and (start.waits_for is None or start.waits_for not in self.made)
        ]

    def kills(self) -> list[int]:
        """Kills that are not as if a start were never gone on with: of who holds what others await.

        Returns:
            the complements of their numbers.
        """
        awaited = {start.waits_for for start in self.starts if start.end is None} - {None}
        return [~number for number, start in enumerate(self.starts) if start.holds in awaited]

    def state(self) -> tuple[object, ...]:
        """Stands for the state of the threads and of the files."""
        return tuple(start.state() for start in self.starts), self.files()

    def files(self) -> frozenset[tuple[str, object]]:
        """Stands for the state of the files."""
        return frozenset(
            (path, made) for path, made in self.made.items() if not self._scenario.is_passing(path)
        )

    def relative(self, path: Any) -> str | None:
        """A path below the shared directory; None for all others."""
        return relative(path, self._prefix)

    # -- in the threads of the starts

    def step(
        self,
        what: str,
        reads: Sequence[str],
        writes: Sequence[str],
        act: Callable[[], Any],
        content: bytes = b"",
    ) -> Any:
        """Does a step of the current start when it is its turn."""
        start = _current.start
        looks = frozenset(place for path in (*reads, *writes) for place in with_parents(path))
        for place in looks:
            self.touched.setdefault(kind(place), {}).setdefault(start.name, False)
        for place in writes:
            self.touched.setdefault(kind(place), {})[start.name] = True
        if start.is_killed:
            raise Killed
        if not self._shared.isdisjoint(map(kind, looks)):
            start.looks, start.writes = looks, frozenset(writes)
            getcurrent().parent.switch()
            if start.is_killed:
                raise Killed
            self.trace.append(f"{start.name}: {what} {' '.join((*reads, *writes))}")
        start.steps += 1
        try:
            found = act()
        except OSError as error:
            start.learned = hash((start.learned, what, *reads, *writes, error.errno))
            raise
        # Not by what the scenario says that nobody goes by.
        told = self._scenario.told(found) if what == "read" else _told(found)
        start.learned = hash((start.learned, what, *reads, *writes, told))
        return found

    def put(self, path: str) -> None:
        """A step has made what lies there, which is empty."""
        self.made[path] = ""

    def fill(self, path: str, content: bytes) -> None:
        """A step has written what lies there."""
        if path in self.made:
            self.made[path] = self._scenario.told(content)

    def move(self, source: str, to: str, *, swaps: bool = False) -> None:
        """What lies at a path, and below it, has been renamed."""
        moved, others = self._taken(source), self._taken(to)
        self.made.update({to + path: made for path, made in moved.items()})
        if swaps:
            self.made.update({source + path: made for path, made in others.items()})

    def drop(self, path: str) -> None:
        """Nothing lies there any more."""
        self._taken(path)

    def _taken(self, path: str) -> dict[str, object]:
        below = [each for each in self.made if each == path or each.startswith(path + os.sep)]
        return {each[len(path) :]: self.made.pop(each) for each in below}


def relative(path: Any, prefix: str = "") -> str | None:
    """A path in the current directory; None for all others.

    Args:
        path: the path, or the number of an open file.
        prefix: of absolute paths of what is in that directory.
    """
    if isinstance(path, int):
        return None
    text = os.fspath(path)
    if prefix and f"{text}{os.sep}".startswith(prefix):
        return text[len(prefix) :] or ROOT
    return None if text.startswith(os.sep) else os.path.normpath(text)


def resume(run: Any, start: Start, answer: object = None) -> None:
    """Lets a start go on.

    Args:
        run: which is told of its steps.
        start: the start.
        answer: what the step before which it waits is told.
    """
    before = _current.run, _current.start
    _current.run, _current.start = run, start
    assert start.thread is not None
    start.thread.switch(answer)
    _current.run, _current.start = before


class _Current:
    run: Run
    start: Start
    told: Callable[[bytes], str] | None = None

    def __init__(self) -> None:
        self.run = None  # type: ignore[assignment]
        self.start = Start("nobody")


_current = _Current()


def with_parents(path: str) -> Iterator[str]:
    yield path
    while os.sep in path:
        path = path.rpartition(os.sep)[0]
        yield path


@functools.cache
def kind(path: str) -> str:
    """A path but for its epoch: of the next one nothing else is to be found out."""
    return _EPOCH.sub("<epoch>", path)


def _entries(path: str) -> str:
    """Stands for what a directory holds, apart from what its entries are."""
    return f"{'' if path == ROOT else path}{os.sep}*"


def _listing_of(path: str) -> str:
    return _entries(path.rpartition(os.sep)[0] or ROOT)


def _told(found: object) -> object:
    """What of an answer a program goes by: not numbers that are others in each run."""
    if isinstance(found, os.stat_result):
        return stat.S_IFMT(found.st_mode)
    if isinstance(found, list):
        return tuple(found)
    return found if isinstance(found, str | bool | bytes | None) else None


def by_the_system(name: str = "nobody") -> None:
    """What is done from now on is done in the same way each time.

    Args:
        name: of the start for which it is done.
    """
    _current.start = Start(name, uuids=_OTHER_IDS)


@contextmanager
def by_name(told: Callable[[bytes], str]) -> Iterator[None]:
    """Has files told apart as in a model of them, where no start runs.

    Args:
        told: what of a file's content programs go by.
    """
    _current.told = told
    try:
        yield
    finally:
        _current.told = None


def who() -> str:
    """The name of the start that runs; "last" for the one that ends the work."""
    return "last" if _current.run is None else _current.start.name


def forgetful(
    patch: pytest.MonkeyPatch, owner: object, *names: str, told: Callable[[Any], object] = repr
) -> None:
    """Has a thread forget what it learned within functions, but for what they give or raise.

    That is the state that such a function leaves: it keeps nothing else, or only what follows from
    its arguments and from what it gives.

    Args:
        patch: takes it back.
        owner: of the functions.
        names: of the functions.
        told: what there is to what they give.
    """
    for name in names:
        patch.setattr(owner, name, _forgetful(getattr(owner, name), name, told))


def _forgetful(real: Callable[..., Any], name: str, told: Callable[[Any], object]) -> Any:
    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _current.run is None:
            return real(*args, **kwargs)
        start = _current.start
        before = start.learned
        start.entered.append((name, before))
        # So that no state within is one after.
        start.learned = hash(("in", name, before))
        try:
            found = real(*args, **kwargs)
        except Killed:
            raise
        except BaseException as error:
            start.learned = hash((before, name, type(error), getattr(error, "errno", None)))
            raise
        finally:
            start.entered.pop()
        start.learned = hash((before, name, told(found)))
        return found

    return call


def starts_over(
    patch: pytest.MonkeyPatch, owner: object, name: str, within: str, when: Callable[[object], bool]
) -> None:
    """Has a thread forget what it learned in a loop that begins anew, and keeps nothing.

    Args:
        patch: takes it back.
        owner: of a function that is called in the loop.
        name: of that function.
        within: the forgetful function that has the loop, and no other one.
        when: whether the loop begins anew after this is given or raised.
    """
    real = getattr(owner, name)

    @functools.wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            found = real(*args, **kwargs)
        except OSError as error:
            begin_anew(error)
            raise
        begin_anew(found)
        return found

    def begin_anew(found: object) -> None:
        start = _current.start
        if _current.run is None or not when(found):
            return
        # It is the innermost one, of those that are told of.
        if start.entered and start.entered[-1][0] == within:
            start.learned = hash((start.entered[-1], "again"))

    patch.setattr(owner, name, call)


class _WrittenFile(io.BytesIO):
    """Collects what is written; that it comes to the file is a step of its own."""

    def __init__(self, descriptor: int, path: str, *, is_text: bool) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._path = path
        self._is_text = is_text
        self._is_done = False

    def write(self, content: Any) -> int:
        return super().write(content.encode() if isinstance(content, str) else content)

    def flush(self) -> None:
        if self._is_done or not self.getvalue():
            return
        self._is_done = True
        run, content = _current.run, self.getvalue()
        act = functools.partial(os.write, self._descriptor, content)
        run.step("write", (), (self._path,), act, content)
        run.fill(self._path, content)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        if not self.closed:
            try:
                self.flush()
            finally:
                # First this: who is closed twice closes what others have opened since.
                super().close()
                _REAL["close"](self._descriptor)


class _Entry:
    """An entry of a directory, which is looked at by a step of its own."""

    def __init__(self, directory: str, name: str, is_directory: bool) -> None:
        self.name = name
        self.path = os.path.join(directory, name)
        self._is_directory = is_directory

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._is_directory

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.lstat(self.path)


class _Entries(list[_Entry]):
    """Those of a directory, which are listed at once and need not be closed."""

    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""


def _in_run(path: Any) -> str | None:
    return None if _current.run is None else _current.run.relative(path)


def _looking(name: str) -> Callable[..., Any]:
    real = _REAL[name]

    def look(path: Any, *args: Any, **kwargs: Any) -> Any:
        found = _in_run(path)
        if found is None:
            if name == "lstat" and _current.told is not None:
                return _named(path, _current.told)
            return real(path, *args, **kwargs)
        return _current.run.step(name, (found,), (), lambda: real(path, *args, **kwargs))

    return look


def _named(path: Any, told: Callable[[bytes], str]) -> Any:
    """A status that is by the name of the file, but for directories: these are there once."""
    real = _REAL["lstat"](path)
    return status(os.fspath(path), told(_content(path))) if stat.S_ISREG(real.st_mode) else real


def _listdir(path: Any = ".") -> list[str]:
    found = _in_run(path)
    if found is None:
        return _REAL["listdir"](path)  # type: ignore[no-any-return]
    return _current.run.step(  # type: ignore[no-any-return]
        "listdir", (found, _entries(found)), (), lambda: sorted(_REAL["listdir"](path))
    )


def _scandir(path: Any = ".") -> Any:
    found = _in_run(path)

    def act() -> list[tuple[str, bool]]:
        with _REAL["scandir"](path) as entries:
            return sorted((each.name, each.is_dir(follow_symlinks=False)) for each in entries)

    if found is not None:
        entries = _current.run.step("scandir", (found, _entries(found)), (), act)
    elif _current.told is not None and not isinstance(path, int):
        entries = act()
    else:
        return _REAL["scandir"](path)
    return _Entries(_Entry(os.fspath(path), *entry) for entry in entries)


def _making(name: str) -> Callable[..., Any]:
    real = _REAL[name]

    def make(path: Any, *args: Any, **kwargs: Any) -> None:
        found = _in_run(path)
        if found is None:
            return real(path, *args, **kwargs)  # type: ignore[no-any-return]
        run = _current.run
        run.step(name, (), (found, _listing_of(found)), lambda: real(path, *args, **kwargs))
        run.put(found)
        return None

    return make


def _removing(name: str) -> Callable[..., Any]:
    real = _REAL[name]

    def remove(path: Any, *args: Any, **kwargs: Any) -> None:
        found = _in_run(path)
        if found is None:
            return real(path, *args, **kwargs)  # type: ignore[no-any-return]
        run = _current.run
        reads = (_entries(found),) if name == "rmdir" else ()
        run.step(name, reads, (found, _listing_of(found)), lambda: real(path))
        run.drop(found)
        return None

    return remove


def _moving(name: str) -> Callable[..., Any]:
    real = _REAL[name]

    def move(source: Any, to: Any, **kwargs: Any) -> None:
        found, goal = _in_run(source), _in_run(to)
        if found is None or goal is None:
            return real(source, to, **kwargs)  # type: ignore[no-any-return]
        run = _current.run
        writes = (found, goal, _listing_of(found), _listing_of(goal))
        run.step(name, (), writes, lambda: real(source, to, **kwargs))
        run.move(found, goal)
        return None

    return move


def _exchanging(self: KernelRenames, new: Path, target: Path, flag: int) -> bool:
    found, goal = _in_run(new), _in_run(target)
    if found is None or goal is None:
        return _REAL_EXCHANGE(self, new, target, flag)
    run = _current.run
    writes = (found, goal, _listing_of(found), _listing_of(goal))
    what = "exchange" if flag == 2 else "put"
    done = run.step(what, (), writes, lambda: _REAL_EXCHANGE(self, new, target, flag))
    assert done is not False, "this file system can't exchange two directories"
    run.move(found, goal, swaps=flag == 2)
    return True


def _linking(source: Any, to: Any, **kwargs: Any) -> None:
    found, goal = _in_run(source), _in_run(to)
    if found is None or goal is None:
        return _REAL["link"](source, to, **kwargs)  # type: ignore[no-any-return]
    run = _current.run
    run.step(
        "link", (found,), (goal, _listing_of(goal)), lambda: _REAL["link"](source, to, **kwargs)
    )
    run.made[goal] = run.made[found]
    return None


def _os_open(path: Any, flags: int, mode: int = 0o777, **kwargs: Any) -> int:
    found = _in_run(path)
    if found is None:
        return _REAL["open"](path, flags, mode, **kwargs)  # type: ignore[no-any-return]
    run = _current.run
    is_new = bool(flags & os.O_CREAT)
    writes = (found, _listing_of(found)) if is_new else ()
    what = "open" if not is_new else "create" if flags & os.O_EXCL else "truncate"
    act = functools.partial(_REAL["open"], path, flags, mode, **kwargs)
    descriptor: int = run.step(what, () if is_new else (found,), writes, act)
    if is_new and (flags & os.O_EXCL or found not in run.made):
        run.put(found)
    _paths[descriptor] = found
    return descriptor


_paths: dict[int, str] = {}


def _io_open(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    if isinstance(file, int):
        if _current.run is None or file not in _paths or "w" not in mode:
            return _REAL_OPEN(file, mode, *args, **kwargs)
        return _WrittenFile(file, _paths[file], is_text="b" not in mode)
    found = _in_run(file)
    if found is None:
        return _REAL_OPEN(file, mode, *args, **kwargs)
    if "w" in mode:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        return _WrittenFile(_os_open(file, flags, 0o666), found, is_text="b" not in mode)

    def act() -> bytes:
        with _REAL_OPEN(file, "rb") as opened:
            content: bytes = opened.read()
            return content

    content = _current.run.step("read", (found,), (), act)
    return io.BytesIO(content) if "b" in mode else io.StringIO(content.decode())


def _rmtree(path: Any, ignore_errors: bool = False, **kwargs: Any) -> None:
    if _in_run(path) is None:
        return _REAL_RMTREE(path, ignore_errors=ignore_errors, **kwargs)
    try:
        for name in os.listdir(path):
            below = os.path.join(path, name)
            if stat.S_ISDIR(os.lstat(below).st_mode):
                _rmtree(below, ignore_errors)
                continue
            try:
                os.unlink(below)
            except OSError:
                if not ignore_errors:
                    raise
        os.rmdir(path)
    except OSError:
        if not ignore_errors:
            raise
    return None


def _uuid4() -> uuid.UUID:
    start = _current.start
    start.uuids += 1
    drawn = uuid.uuid5(uuid.NAMESPACE_OID, f"{start.name} {start.uuids}").hex
    # Whose it is can be read in it.
    return uuid.UUID(hex=start.name + drawn[len(start.name) :] if NAME.match(start.name) else drawn)


def _no_extended_attributes(path: Any, **kwargs: Any) -> list[str]:
    return _REAL["listxattr"](path, **kwargs) if _in_run(path) is None else []


def _no_locks(*_: object) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


class Lock:
    """Stands for a lock that goes with its process, which others can look at.

    Args:
        path: the file that is locked.
    """

    def __init__(self, path: Path) -> None:
        self._place = f"{_in_run(path)}#lock"
        self._is_held = _current.run is not None
        if self._is_held:
            act = functools.partial(_current.run.put, self._place)
            _current.run.step("lock", (), (self._place,), act, _current.start.name.encode())

    def release(self) -> None:
        """Lets go of it."""
        if self._is_held:
            self._is_held = False
            _current.run.step("unlock", (), (self._place,), lambda: _current.run.drop(self._place))


def is_locked(path: Path) -> bool:
    """Whether somebody who runs holds a `Lock`."""
    run, file = _current.run, _in_run(path)
    if run is None or file is None:
        return False
    place = f"{file}#lock"

    def act() -> bool:
        return file in run.made and place in run.made

    found: bool = run.step("is locked", (file, place), (), act)
    return found


@contextmanager
def one_at_a_time(path: Path, _: float) -> Iterator[None]:
    """Keeps starts from a part of their work in which another one is, until that one is killed."""
    run, start, place = _current.run, _current.start, f"{_in_run(path)}#lock"
    if run is None:
        yield
        return
    start.waits_for = place
    run.step("lock", (), (place,), lambda: run.put(place))
    start.waits_for, start.holds = None, place
    try:
        yield
    finally:
        run.step("unlock", (), (place,), lambda: run.drop(place))
        start.holds = None


@contextmanager
def scheduled() -> Iterator[None]:
    """Has the scheduler hear of what threads of starts do to files.

    The file system has no locks meanwhile: who holds one may be stopped for longer than others
    wait for it, so that nothing may rest on them.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("stat", "lstat", "chmod", "chown", "utime"):
            patch.setattr(os, name, _looking(name))
        patch.setattr(os, "mkdir", _making("mkdir"))
        for name in ("rmdir", "unlink", "remove"):
            patch.setattr(os, name, _removing(name))
        for name in ("rename", "replace"):
            patch.setattr(os, name, _moving(name))
        patch.setattr(os, "listdir", _listdir)
        patch.setattr(os, "scandir", _scandir)
        patch.setattr(os, "link", _linking)
        patch.setattr(os, "listxattr", _no_extended_attributes)
        patch.setattr(os, "open", _os_open)
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(io, "open", _io_open)
        patch.setattr(builtins, "open", _io_open)
        patch.setattr(shutil, "rmtree", _rmtree)
        patch.setattr(uuid, "uuid4", _uuid4)
        patch.setattr(fcntl, "flock", _no_locks)
        patch.setattr(time, "sleep", lambda _: None)
        patch.setattr(KernelRenames, "_rename", _exchanging)
        yield


@dataclass
class Explored:
    """What was gone through.

    Attributes:
        states: of all threads and files, each in all of which any threads may have been killed.
        files: different states of the files among them, from each of which the work was finished.
        runs: how often the programs were run for that.
    """

    states: int = 0
    files: int = 0
    runs: int = 0


class Scenario(Protocol):
    """What is gone through. All in the current directory."""

    programs: Mapping[str, Program]

    def prepare(self) -> None:
        """Makes what is there before."""

    def let_go(self) -> None:
        """Called after programs were killed: closes what the system would have closed."""

    def check(self) -> None:
        """Called in each state of the files; raises AssertionError where nobody may see that."""

    def is_passing(self, path: str) -> bool:
        """Whether a path is one that nobody goes by but the thread that has made it."""

    def told(self, content: bytes) -> str:
        """What of a file's content programs go by."""

    def contents(self) -> object:
        """Stands for all that a program that is started in this state of the files goes by."""

    def recover(self) -> None:
        """Called with a copy of each state of the files, after all programs were killed in it: to
        run one again, and to check what came of it."""

    def ended(self, ends: Mapping[str, object]) -> None:
        """Called when all programs have ended, with what they returned or raised."""


class Interleavings:
    """All interleavings of the programs of a scenario.

    Args:
        home: where the runs have their directories.
        scenario: what is gone through.
    """

    def __init__(self, home: Path, scenario: Scenario) -> None:
        self._home = home
        self._scenario = scenario
        self._shared: set[str] = set()
        self._touched: dict[str, dict[str, bool]] = {}
        self._count = 0
        self._explored = Explored()

    def go_through(self) -> Explored:
        """Goes through all of them.

        Raises:
            AssertionError: what the scenario has raised, with the steps that led there.
        """
        before = os.getcwd()
        with scheduled():
            try:
                self._learn()
                while not self._is_complete():
                    pass
            finally:
                os.chdir(before)
        return self._explored

    def _is_complete(self) -> bool:
        """Whether no path turned out to be shared that wasn't known to be."""
        self._explored = Explored()
        # Each state, and the steps that need not be done from there.
        seen: dict[object, frozenset[int]] = {}
        seen_files: set[object] = set()
        seen_contents: set[object] = set()
        # Those with few changes from one thread to another come first, in which most faults show.
        waiting = deque([((), frozenset[int]())])
        while waiting:
            schedule, asleep = waiting.popleft()
            run = self._run(schedule)
            chosen = list(schedule)
            try:
                while True:
                    state, running = run.state(), run.running()
                    todo = [each for each in running if each not in asleep] + run.kills()
                    if state in seen:
                        todo = [each for each in todo if each in seen[state]]
                        asleep &= seen[state]
                    elif (files := run.files()) not in seen_files:
                        seen_files.add(files)
                        self._scenario.check()
                        contents = self._scenario.contents()
                        if contents not in seen_contents:
                            seen_contents.add(contents)
                            self._recover(run.root)
                    seen[state] = asleep
                    if not running:
                        self._scenario.ended({each.name: each.end for each in run.starts})
                    if not todo:
                        break
                    ways = []
                    for each in todo:
                        if each < 0:
                            ways.append((each, frozenset[int]()))
                            continue
                        start = run.starts[each]
                        still = (
                            other for other in asleep if start.commutes_with(run.starts[other])
                        )
                        ways.append((each, frozenset(still)))
                        asleep |= {each}
                    waiting.extend(((*chosen, each), still) for each, still in ways[1:])
                    first, asleep = ways[0]
                    chosen.append(first)
                    run.go_on(first)
            except BaseException as error:
                add_note(error, "\n".join(run.trace))
                raise
            finally:
                self._kill(run)
                os.chdir(self._home)
                _REAL_RMTREE(run.root)
            if self._has_learned(run):
                return False
        self._explored.states, self._explored.files = len(seen), len(seen_contents)
        return True

    def _learn(self) -> None:
        """Finds out about most of the paths that are shared, so that little is done again."""
        for number in range(_LEARNING):
            run, order = self._run(()), random.Random(number)
            while running := run.running():
                chosen = order.choice(running)
                for _ in range(order.choice([1, 3, 10, 30, 100])):
                    if chosen in run.running():
                        run.go_on(chosen)
            self._has_learned(run)
            self._kill(run)
            os.chdir(self._home)
            _REAL_RMTREE(run.root)

    def _has_learned(self, run: Run) -> bool:
        known = len(self._shared)
        for path, by in run.touched.items():
            touched = self._touched.setdefault(path, {})
            for name, writes in by.items():
                touched[name] = touched.get(name, False) or writes
            if len(touched) > 1 and any(touched.values()):
                self._shared.add(path)
        return len(self._shared) > known

    def _run(self, schedule: Sequence[int]) -> Run:
        self._count += 1
        self._explored.runs += 1
        root = self._home / str(self._count)
        root.mkdir()
        os.chdir(root)
        by_the_system()
        self._scenario.prepare()
        run = Run(root, self._shared, self._scenario)
        for directory, directories, files in os.walk("."):
            for name in (*directories, *files):
                path = os.path.normpath(os.path.join(directory, name))
                is_file = name in files
                run.made[path] = self._scenario.told(_content(path)) if is_file else ""
        for name, program in self._scenario.programs.items():
            run.add(name, program)
        for index in schedule:
            run.go_on(index)
        return run

    def _kill(self, run: Run) -> None:
        run.kill()
        self._scenario.let_go()

    def _recover(self, root: Path) -> None:
        """In a copy, which the threads that wait know nothing of."""
        copy = self._home / "copy"
        _REAL_COPYTREE(root, copy, copy_function=_link)
        os.chdir(copy)
        try:
            self._scenario.recover()
        finally:
            os.chdir(root)
            _REAL_RMTREE(copy)


def _content(path: str) -> bytes:
    with _REAL_OPEN(path, "rb") as file:
        content: bytes = file.read()
        return content


def _link(source: str, to: str) -> None:
    # Files are told by their inodes as well, and none is written to once it is whole.
    _REAL["link"](source, to)

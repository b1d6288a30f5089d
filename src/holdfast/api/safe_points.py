"""Releases that finalizers and signal handlers ask for.

Python's garbage collector runs finalizers wherever something is allocated, and signal handlers run
between any two instructions: while this thread waits for an answer of the JVM, which a second call
would take for its own, or while it holds a lock. There a release is noted only, without a lock, and
worked off as soon as a thread calls or leaves an action.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator
from types import FrameType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_OURS = "holdfast."
# What stands between the user's call and what it does.
_ENTRY = (f"{_OURS}api.", "pyspark.")
# These call code of the user's, which is not in the middle of anything because of that.
_CALLING_USERS = (f"{_OURS}cli.", f"{_OURS}api.stream_writer")
_PY4J = "py4j."
_CALLED_BY_JVM = "_call_proxy"

_noted: deque[Callable[[], object]] = deque()
# What was noted in a process is not to be done in those that are forked off it.
os.register_at_fork(after_in_child=_noted.clear)

logger = logging.getLogger(__name__)


def releasing(
    method: Callable[Concatenate[S, P], None],
) -> Callable[Concatenate[S, P], None]:
    """Wraps a method that releases something, so that finalizers and signal handlers may call it.

    Args:
        method: It may take locks, and call the JVM.
    """

    @functools.wraps(method)
    def released(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        now_or_later(functools.partial(method, self, *args, **kwargs))

    return released


def now_or_later(release: Callable[[], object]) -> None:
    """Releases something now, or at the next safe point where this isn't one.

    Args:
        release: does it; it may take locks, and call the JVM.
    """
    _release(release, _caller())


def work_off() -> None:
    """Does what was noted, unless something is in the middle here as well."""
    if _noted and not _is_amid(_caller()):
        _work_off()


class DroppableRows(Iterator[T], Generic[T]):
    """The rows of a generator, which is closed at a safe point when it is not referred to any more.

    Args:
        rows: the generator.
    """

    def __init__(self, rows: Generator[T, None, None]) -> None:
        self._rows = rows
        # Python would close a generator that is garbage wherever that is found out.
        _open.add(rows)

    def __next__(self) -> T:
        return next(self._rows)

    def close(self) -> None:
        """Ends what computes the rows. Does nothing the second time."""
        _close(self._rows)

    def __del__(self) -> None:
        if not sys.is_finalizing():
            # Python calls this from the very frame that it interrupts.
            _release(functools.partial(_close, self._rows), sys._getframe().f_back)


_open: set[Generator[Any, None, None]] = set()


def _close(rows: Generator[Any, None, None]) -> None:
    _open.discard(rows)
    rows.close()


def _release(release: Callable[[], object], frame: FrameType | None) -> None:
    if _is_amid(frame):
        _noted.append(release)
    else:
        _work_off()
        release()


@atexit.register
def _work_off() -> None:
    while True:
        try:
            release = _noted.popleft()
        except IndexError:
            return
        try:
            release()
        except Exception:
            # As Python does with the errors of finalizers.
            logger.debug("something could not be released", exc_info=True)


def _caller() -> FrameType | None:
    """Whose call has led here."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and _name(frame).startswith(_ENTRY):
        frame = frame.f_back
    return frame


def _is_amid(frame: FrameType | None) -> bool:
    """Whether a frame is in the middle of something of Holdfast's, or of a call of the JVM."""
    while frame is not None:
        name = _name(frame)
        if name.startswith(_PY4J):
            return frame.f_code.co_name != _CALLED_BY_JVM
        if name.startswith(_OURS) and not name.startswith(_CALLING_USERS):
            return True
        frame = frame.f_back
    return False


def _name(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))

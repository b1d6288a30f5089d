"""Calls to somebody who may never answer: given up when it is found out that nobody is there."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from threading import RLock, Thread
from typing import Any, TypeVar

T = TypeVar("T")


class AbandonableCalls:
    """Makes calls that another thread can end. Safe for use by several threads.

    Args:
        name: what the threads are called that make the calls.

    Example:
        >>> AbandonableCalls("numbers").make(lambda: 6 * 7)
        42
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = RLock()
        self._waiting: set[Future[Any]] = set()

    def make(self, request: Callable[[], T]) -> T:
        """Makes a call and waits for its answer.

        Raises:
            Exception: what the call raises, or what `abandon` was given meanwhile.
        """
        answer: Future[T] = Future()
        with self._lock:
            self._waiting.add(answer)
        # A daemon: one that waits for somebody hung must not hold up the program's end.
        Thread(target=_settle, args=(answer, request), name=self._name, daemon=True).start()
        try:
            return answer.result()
        finally:
            with self._lock:
                self._waiting.discard(answer)

    def abandon(self, error: Exception) -> None:
        """Ends the calls that wait for an answer; what they get is not looked at any more.

        Args:
            error: what their callers get instead.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, set()
        for answer in waiting:
            try:
                answer.set_exception(error)
            except InvalidStateError:
                # It was answered just now.
                continue


def _settle(answer: Future[T], request: Callable[[], T]) -> None:
    try:
        try:
            result = request()
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(result)
    except InvalidStateError:
        # Nobody waits for it any more.
        return

"""Walks of any depth, written as if they were recursive, that take no stack for it.

A plan's expressions may be nested thousands deep, where Python's own stack ends at some hundreds.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")

Walk = Generator["Walk[Any]", Any, T]
"""A step of a walk: it yields the walks that it needs, and is sent what they return."""


def walked(walk: Walk[T]) -> T:
    """What a walk returns.

    Args:
        walk: a generator that yields walks like itself.

    >>> def depth(nested):
    ...     deepest = 0
    ...     for each in nested:
    ...         deepest = max(deepest, (yield depth(each)))
    ...     return deepest + 1
    >>> nested = []
    >>> for _ in range(100_000):
    ...     nested = [nested]
    >>> walked(depth(nested))
    100001
    """
    waiting: list[Walk[Any]] = [walk]
    result: Any = None
    while True:
        try:
            waiting.append(waiting[-1].send(result))
            result = None
        except StopIteration as end:
            waiting.pop()
            result = end.value
            if not waiting:
                return result  # type: ignore[no-any-return]

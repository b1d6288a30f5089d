"""A part of a pass that shares nothing with the rest of it, although one pickle holds both."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Generic, TypeVar

from pyspark import cloudpickle

__all__ = ["OwnPickle"]

_PROTOCOL = 5

T = TypeVar("T")


class OwnPickle(Generic[T]):
    """A value in a pickle of its own.

    Two passes that a person's functions share an object between each have their own one, as they
    have where Spark unpickles them apart.

    Args:
        value: anything that can be pickled.

    >>> shared = [0]
    >>> mine, theirs = pickle.loads(pickle.dumps((shared, OwnPickle(shared))))
    >>> mine is theirs.value
    False
    """

    def __init__(self, value: T) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Callable[[bytes], OwnPickle[T]], tuple[bytes]]:
        return _unpickled_apart, (cloudpickle.dumps(self.value, _PROTOCOL),)


def _unpickled_apart(payload: bytes) -> OwnPickle[T]:
    return OwnPickle(pickle.loads(payload))

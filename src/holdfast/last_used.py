"""What was used last, of what there is no room for otherwise."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def put(known: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Remembers something as what was used last; what was used longest ago makes room.

    Args:
        known: what is remembered, in the order of its use.
        key: what it is remembered by.
        value: what is remembered.
        most: how much may be.

    >>> known = OrderedDict(a=1, b=2)
    >>> put(known, "a", 3, most=2)
    >>> put(known, "c", 4, most=2)
    >>> dict(known)
    {'a': 3, 'c': 4}
    """
    known[key] = value
    known.move_to_end(key)
    while len(known) > most:
        known.popitem(last=False)

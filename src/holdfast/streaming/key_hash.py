"""A hash of keys that is the same in all processes: equal keys, equal hashes."""

from __future__ import annotations

import dataclasses
import enum
import numbers
import os
import types
import zlib
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

__all__ = ["UnstableKeyError", "stable_hash", "target_of"]

_MASK = (1 << 64) - 1
_SPREAD = 0x9E3779B97F4A7C15
_TUPLE_SEED = 0x345678
_TUPLE_FACTOR = 1000003
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType)
# All of them are equal to each other where their values are, as are NumPy's.
_NUMBERS = (int, float, complex, Decimal, Fraction)
_NUMBER_HASHES = frozenset(kind.__hash__ for kind in _NUMBERS)

_Hash = Callable[[Any], int]


class UnstableKeyError(Exception):
    """A key has no hash that would be the same in another process."""


def stable_hash(key: Any) -> int:
    """A hash of a key.

    Args:
        key: anything hashable that is equal to its copies.

    Returns:
        the same number for equal keys, in whatever process.

    Raises:
        UnstableKeyError: when the key has no such hash.
        TypeError: when it isn't hashable.

    >>> stable_hash(1) == stable_hash(1.0) == stable_hash(True)
    True
    >>> stable_hash(("a", None)) == stable_hash(("a", None))
    True
    """
    found = _HASHES.get(type(key))
    if found is None:
        found = _HASHES[type(key)] = _hash_for(type(key))
    return found(key)


def target_of(key: Any, targets: int) -> int:
    """Which target a key belongs to.

    Args:
        key: as for `stable_hash`.
        targets: how many there are.

    Returns:
        a number from 0, below `targets`.

    Raises:
        UnstableKeyError: when the key has no stable hash.
        TypeError: when it isn't hashable.
    """
    # Spread, or keys that are all even would leave half of the targets idle.
    return ((stable_hash(key) * _SPREAD & _MASK) >> 32) % targets


def _of_none(key: None) -> int:
    return 0


def _of_number(key: Any) -> int:
    if key != key:
        raise UnstableKeyError("it is not equal to itself")
    return hash(key)


def _of_text(key: str) -> int:
    return zlib.crc32(key.encode("utf-8", "surrogatepass"))


def _of_tuple(key: tuple[Any, ...]) -> int:
    result = _TUPLE_SEED
    for item in key:
        result = (result ^ stable_hash(item)) * _TUPLE_FACTOR & _MASK
    return result ^ len(key)


def _of_frozenset(key: frozenset[Any]) -> int:
    return sum(_of_tuple((item,)) for item in key) & _MASK


def _of_member(key: enum.Enum) -> int:
    return _of_text(key.name)


def _of_named(key: Any) -> int:
    return _of_text(f"{key.__module__}.{key.__qualname__}")


def _of_instance(key: Any) -> int:
    found = hash(key)
    if os.environ.get("PYTHONHASHSEED", "random") == "random":
        raise UnstableKeyError("its hash differs between processes unless PYTHONHASHSEED is set")
    return found


def _of_identity(key: Any) -> int:
    hash(key)
    raise UnstableKeyError("it is not equal to its copies: its class defines no __eq__")


def _of_fields(kind: type) -> _Hash:
    fields = dataclasses.fields(kind)
    names = [item.name for item in fields if (item.compare if item.hash is None else item.hash)]
    return lambda key: _of_tuple(tuple(getattr(key, name) for name in names))


def _hash_for(kind: type) -> _Hash:
    hashing: Any = kind.__hash__
    own_hash = isinstance(hashing, types.FunctionType)
    for known, found in (
        (str, _of_text),
        (bytes, zlib.crc32),
        (tuple, _of_tuple),
        (frozenset, _of_frozenset),
    ):
        # Equal to each other by content, such as NumPy's texts and Python's.
        if issubclass(kind, known) and not isinstance(kind.__eq__, types.FunctionType):
            return found
    if hashing in _NUMBER_HASHES or (issubclass(kind, numbers.Number) and not own_hash):
        return _of_number
    if hashing is enum.Enum.__hash__:
        return _of_member
    if issubclass(kind, _NAMED):
        return _of_named
    if hashing is object.__hash__:
        return _of_identity
    if _is_hashed_by_fields(kind):
        return _of_fields(kind)
    return _of_instance


def _is_hashed_by_fields(kind: type) -> bool:
    # Where a person has written __eq__ or __hash__, only they know what is equal.
    if not dataclasses.is_dataclass(kind) or kind.__hash__ is None:
        return False
    return all(
        isinstance(method, types.FunctionType) and method.__code__.co_filename == "<string>"
        for method in (kind.__eq__, kind.__hash__)
    )


_HASHES: dict[type, _Hash] = {type(None): _of_none}

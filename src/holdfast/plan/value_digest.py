"""Feeds values to a hash: tokens from which the value could be built again, the same everywhere.

Every token tells by its beginning where it ends, so that two values have the same tokens only where
they are the same. Objects with an identity are numbered in the order in which they are reached; a
second visit yields the number. That keeps cycles finite and tells shared objects from equal ones.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import hashlib
import struct
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

_FLUSH_AT = 1 << 14
_LARGE = 1 << 16
_REDUCE_PROTOCOL = 4
_REDUCE_LENGTHS = range(2, 7)
_SET_REDUCTIONS = (set.__reduce__, frozenset.__reduce__)

DIGEST_HOOK = "__holdfast_digest__"
"""A method by which an object says what is to be digested in place of what it is made of."""


class Undigestible(Exception):
    """The content of a function or a value can't be known for sure.

    Args:
        what: what it is that could not be known, and where it was found.

    >>> str(Undigestible("global 'lock': cannot pickle '_thread.lock' object"))
    "global 'lock': cannot pickle '_thread.lock' object"
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)


def _int_token(value: int) -> bytes:
    return b"i%x;" % value


def _float_token(value: float) -> bytes:
    return b"f" + struct.pack("<d", value)


def _complex_token(value: complex) -> bytes:
    return b"c" + struct.pack("<dd", value.real, value.imag)


def _str_token(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    if len(data) > _LARGE:
        return b"S%d:" % len(data) + hashlib.sha256(data).digest()
    return b"s%d:" % len(data) + data


def _bytes_token(value: bytes) -> bytes:
    if len(value) > _LARGE:
        return b"B%d:" % len(value) + hashlib.sha256(value).digest()
    return b"b%d:" % len(value) + value


_Token = Callable[[Any], bytes]

_LEAVES: dict[type, _Token] = {
    type(None): lambda value: b"N",
    type(Ellipsis): lambda value: b"E",
    type(NotImplemented): lambda value: b"I",
    bool: lambda value: b"T" if value else b"F",
    int: _int_token,
    float: _float_token,
    complex: _complex_token,
    str: _str_token,
    bytes: _bytes_token,
}


class Manner(enum.Flag):
    """How code meets a value."""

    HELD = 0
    """As a value like any other."""
    CALLED = enum.auto()
    """It is called, and nobody gets hold of it."""
    JUDGED = enum.auto()
    """What is done with it is known to show nothing of the outside world."""
    MADE = enum.auto()
    """An object was made by it, whose state is known."""


class ValueEncoder:
    """Digests plain values and whatever can be taken apart as for a copy.

    Subclasses say what functions, classes and modules are.
    """

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._hasher = hashlib.sha256()
        self._path: list[str] = []
        self._numbers: dict[int, int] = {}
        # Kept alive, or an id might be given again.
        self._numbered: list[object] = []
        self._complete: dict[int, object] = {}
        self._settled: dict[int, bytes] = {}
        # They only grow, so their sizes tell how to get back to where they were.
        self._tables: list[dict[Any, Any]] = [self._numbers, self._complete, self._settled]
        self._sets_in_progress: set[int] = set()
        # How the next value is met, and how the one that is being fed was.
        self._next_manner = self._manner = Manner.HELD

    def hexdigest(self) -> str:
        """The digest of everything visited so far."""
        self._flush()
        return self._hasher.hexdigest()

    def visit(self, value: object) -> None:
        """Feeds a value.

        Args:
            value: any object.

        Raises:
            Undigestible: when its content can't be known for sure.
        """
        leaf = _LEAVES.get(type(value))
        if leaf is not None:
            self._pending.append(leaf(value))
        else:
            self._composite(value)

    def _visit_as(self, manner: Manner, value: object) -> None:
        if type(value) not in _LEAVES:
            self._next_manner = manner
        self.visit(value)

    def fail(self, why: str) -> NoReturn:
        """Gives up.

        Args:
            why: what could not be known, without where it was found.
        """
        raise Undigestible(": ".join([*self._path, why]))

    def _open(self, kind: str, count: int = 0) -> None:
        self._pending.append(b"(%s:%x;" % (kind.encode(), count))

    def _observe(self, value: object) -> None:
        """Takes note of a value that code may get hold of, rather than only call it."""

    def _is_settled_by_name(self, cls: type) -> bool:
        """Whether a class's content is known by its name alone."""
        raise NotImplementedError

    def _special(self, value: object) -> bool:
        """Feeds a value that isn't a plain one; False if there is nothing special about it."""
        raise NotImplementedError

    def _by_name(self, value: object, name: str) -> None:
        """Feeds a value that a copy would find under a name."""
        raise NotImplementedError

    def _mark(self) -> list[int]:
        return [len(table) for table in self._tables]

    def _roll_back(self, mark: list[int]) -> None:
        for table, size in zip(self._tables, mark, strict=True):
            while len(table) > size:
                table.popitem()
        del self._numbered[len(self._numbers) :]

    def _flush(self) -> None:
        self._hasher.update(b"".join(self._pending))
        self._pending.clear()

    def _digest_of(self, encode: Callable[[], None]) -> bytes:
        outer = self._pending, self._hasher
        self._pending, self._hasher = [], hashlib.sha256()
        try:
            encode()
            self._flush()
            return self._hasher.digest()
        finally:
            self._pending, self._hasher = outer

    def _number(self, value: object) -> None:
        self._numbers[id(value)] = len(self._numbers)
        self._numbered.append(value)

    def _composite(self, value: Any) -> None:
        if len(self._pending) > _FLUSH_AT:
            self._flush()
        self._manner, self._next_manner = self._next_manner, Manner.HELD
        if self._manner is Manner.HELD:
            self._observe(value)
        known = self._numbers.get(id(value))
        if known is not None:
            self._open("seen", known)
            return
        kind = type(value)
        if kind is list:
            self._number(value)
            self._sequence("list", value)
        elif kind is tuple:
            self._tuple(value)
        elif kind is dict:
            self._number(value)
            self._pairs("dict", list(value.items()))
        elif kind is set:
            self._number(value)
            self._unordered("set", value)
        elif kind is frozenset:
            self._unordered("frozenset", value)
        elif kind is bytearray:
            self._number(value)
            self._open("bytearray")
            self.visit(bytes(value))
        elif kind is range or kind is slice:
            self._sequence(kind.__name__, [value.start, value.stop, value.step])
        elif not self._special(value):
            self._instance(value)

    def _tuple(self, value: tuple[Any, ...]) -> None:
        tokens = []
        for item in value:
            leaf = _LEAVES.get(type(item))
            if leaf is None:
                self._immutable(value, lambda: self._sequence("tuple", value))
                return
            tokens.append(leaf(item))
        self._open("tuple", len(tokens))
        self._pending.extend(tokens)

    def _sequence(self, kind: str, items: Iterable[object]) -> None:
        items = list(items)
        self._open(kind, len(items))
        for start in range(0, len(items), _FLUSH_AT):
            for item in items[start : start + _FLUSH_AT]:
                leaf = _LEAVES.get(type(item))
                if leaf is not None:
                    self._pending.append(leaf(item))
                else:
                    self._composite(item)
            if len(self._pending) > _FLUSH_AT:
                self._flush()

    def _parts(self, kind: str, *parts: object) -> None:
        self._sequence(kind, parts)

    def _pairs(self, kind: str, pairs: Iterable[tuple[object, object]]) -> None:
        self._sequence(kind, [part for pair in pairs for part in pair])

    def _immutable(self, value: object, encode: Callable[[], None]) -> None:
        # From the second visit on all it holds has been numbered, so the digest stays the same.
        digest = self._settled.get(id(value))
        if digest is None:
            again = id(value) in self._complete
            digest = self._digest_of(encode)
            if again:
                self._settled[id(value)] = digest
            else:
                self._complete[id(value)] = value
        self._pending.append(b"#" + digest)

    def _unordered(self, kind: str, value: set[Any] | frozenset[Any]) -> None:
        if id(value) in self._sets_in_progress:
            self.fail("a set that contains itself")
        self._sets_in_progress.add(id(value))
        plain = [leaf(item) for item in value if (leaf := _LEAVES.get(type(item))) is not None]
        digests = []
        numbering = False
        for item in value if len(plain) < len(value) else ():
            if type(item) in _LEAVES:
                continue
            # Each item as if it were the first one, since the order isn't known yet.
            mark = self._mark()
            digests.append((self._digest_of(functools.partial(self.visit, item)), item))
            numbering = numbering or self._mark()[0] != mark[0]
            self._roll_back(mark)
        digests.sort(key=lambda pair: pair[0])
        self._sets_in_progress.discard(id(value))
        if numbering and len({digest for digest, _ in digests}) < len(digests):
            self.fail("a set of objects that can't be told apart by their content")
        self._open(kind, len(value))
        self._pending.extend(sorted(plain))
        for digest, item in digests:
            if numbering:
                self.visit(item)
            else:
                self._pending.append(b"#" + digest)

    def _instance(self, value: Any) -> None:
        cls: Any = type(value)
        self._path.append(f"instance of {cls.__module__}.{cls.__qualname__}")
        hook = getattr(cls, DIGEST_HOOK, None)
        if hook is not None:
            self._number(value)
            self._parts("stands for", cls, hook(value))
        elif cls.__reduce__ in _SET_REDUCTIONS and cls.__reduce_ex__ is object.__reduce_ex__:
            # Taken apart as for a copy, its elements would come in the order of their hashes.
            self._number(value)
            self._open("set instance")
            self.visit(cls)
            self.visit(self._reduce(value)[2])
            self._unordered("items", value)
        elif self._is_settled_by_name(cls) and cls.__hash__ not in (None, object.__hash__):
            # It is equal by value, hence nobody tells a copy from the original.
            self._immutable(value, lambda: self._reduced(value, self._reduce(value)))
        else:
            self._number(value)
            self._reduced(value, self._reduce(value))
        self._path.pop()

    def _reduce(self, value: Any) -> str | tuple[Any, ...]:
        reducer: Any = copyreg.dispatch_table.get(type(value))
        try:
            parts = reducer(value) if reducer else value.__reduce_ex__(_REDUCE_PROTOCOL)
        except (Undigestible, RecursionError):
            raise
        except Exception as error:
            self.fail(str(error) or type(error).__name__)
        if isinstance(parts, str):
            return parts
        if type(parts) is not tuple or len(parts) not in _REDUCE_LENGTHS:
            self.fail("what it is made of can't be told")
        return parts

    def _reduced(self, value: object, parts: str | tuple[Any, ...]) -> None:
        if isinstance(parts, str):
            self._by_name(value, parts)
            return
        call, arguments, *rest = parts
        state, items, pairs, setter = [*rest, None, None, None, None][:4]
        self._open("made by", len(parts))
        # With its state it is the same everywhere, unlike one that the code makes.
        self._visit_as(Manner.MADE, call)
        self._open("arguments", len(arguments))
        for argument in arguments:
            makes = isinstance(argument, type) and not isinstance(call, type)
            self._visit_as(Manner.MADE if makes else Manner.HELD, argument)
        self.visit(state)
        if items is not None:
            self._sequence("items", items)
        if pairs is not None:
            self._pairs("pairs", pairs)
        if setter is not None:
            self._open("setter")
            self.visit(setter)

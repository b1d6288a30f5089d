"""Fields of records: how an aggregate reads and replaces one."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

__all__ = ["reader_of", "with_field"]


def reader_of(record: Any, field: int | str) -> Callable[[Any], Any]:
    """What reads a field of records like this one.

    Args:
        record: a tuple, list, dict, row, or an object with attributes; or, for field 0, a number.
        field: a position, a key, or a name.

    Raises:
        TypeError: when records like this one have no such field.

    >>> reader_of(("a", 2), 1)(("b", 3))
    3
    >>> reader_of(7, 0)(8)
    8
    """
    if _has_items(record, field):
        return operator.itemgetter(field)
    if isinstance(field, str):
        return operator.attrgetter(field)
    if field == 0:
        return _itself
    raise TypeError(f"records of type {type(record).__name__} have no position {field}")


def with_field(record: Any, field: int | str, value: Any) -> Any:
    """A record like another one, but with another value in one field.

    Args:
        record: as for `reader_of`; it stays as it is.
        field: a position, a key, or a name.
        value: what to put there.

    >>> with_field(("a", 2), 1, 5)
    ('a', 5)
    >>> with_field({"k": "a", "n": 2}, "n", 5)
    {'k': 'a', 'n': 5}
    """
    if isinstance(record, tuple):
        return _tuple_with(record, field, value)
    if _has_items(record, field):
        changed = copy.copy(record)
        changed[field] = value
        return changed
    if isinstance(field, str):
        changed = copy.copy(record)
        # Also where the record's class refuses to be changed, as a frozen dataclass does.
        object.__setattr__(changed, field, value)
        return changed
    return value


def _itself(record: Any) -> Any:
    return record


def _has_items(record: Any, field: int | str) -> bool:
    if isinstance(field, str) and isinstance(record, tuple):
        # Rows have items by name, other tuples with names have attributes.
        return hasattr(record, "__fields__")
    return hasattr(record, "__getitem__") and not isinstance(record, (str, bytes))


def _tuple_with(record: tuple[Any, ...], field: int | str, value: Any) -> Any:
    names = getattr(record, "__fields__", getattr(record, "_fields", ()))
    position = list(names).index(field) if isinstance(field, str) else range(len(record))[field]
    changed = (*record[:position], value, *record[position + 1 :])
    if type(record) is tuple:
        return changed
    again: Any = tuple.__new__(type(record), changed)
    if hasattr(record, "__fields__"):
        again.__fields__ = names
    return again

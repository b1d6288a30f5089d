"""Operators that see all records of a key together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from holdfast.errors import StreamTaskError
from holdfast.streaming.contexts import KeyedRecordContext
from holdfast.streaming.folding import Grouping, Merging, folded
from holdfast.streaming.keyed_state import KeyedState
from holdfast.streaming.memory_gauge import MemoryGauge
from holdfast.streaming.record_pickling import RecordPickler
from holdfast.streaming.spill_files import KeyedParts
from holdfast.streaming.user_functions import failure

__all__ = ["keyed_values", "merged", "processed_by_key"]


def keyed_values(parts: Iterable[KeyedParts]) -> Iterator[Any]:
    """The records alone, in their order.

    Args:
        parts: keys, and a record for each.
    """
    return itertools.chain.from_iterable(values for _, values in parts)


def merged(
    parts: Iterable[KeyedParts],
    combine: Callable[[Any, Any], Any],
    operator: str,
    gauge: MemoryGauge,
) -> Iterator[Any]:
    """One record for each key.

    Args:
        parts: keys, and for each what some of its records have become.
        combine: makes one record of two.
        operator: the operator's name.
        gauge: tells when what is held has to go to disk.
    """
    try:
        for _, value in folded(parts, Merging(combine), gauge, RecordPickler(operator)):
            yield value
    except StreamTaskError:
        raise
    except Exception as error:
        raise failure(operator, error) from error


def processed_by_key(
    parts: Iterable[KeyedParts],
    function: Callable[[Any, Any], Any],
    states: KeyedState,
    operator: str,
    gauge: MemoryGauge,
) -> Iterator[Any]:
    """Any number of records from each, those for side outputs with their tags.

    Args:
        parts: keys, and a record for each.
        function: called with each record and a context; gives an iterable, or None.
        states: the keyed state that the function has been given.
        operator: the operator's name.
        gauge: tells when what is held has to go to disk.
    """
    context = KeyedRecordContext()
    try:
        for key, values in folded(parts, Grouping(), gauge, RecordPickler(operator)):
            context.key = key
            states.start()
            for value in values:
                results = function(value, context)
                if results is not None:
                    yield from results
        states.stop()
    except StreamTaskError:
        raise
    except Exception as error:
        raise failure(operator, error) from error

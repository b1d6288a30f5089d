"""Combines the records of a key before they are sent to where the key is at home."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.errors import StreamTaskError
from holdfast.streaming.aggregates import FieldAggregate
from holdfast.streaming.key_selection import check_key
from holdfast.streaming.memory_gauge import MemoryGauge
from holdfast.streaming.user_functions import failure

__all__ = ["aggregated", "reduced"]

# Both yield what they hold whenever it gets too much. Memory is looked at after some records: the
# loops in between are all that a record costs.


def reduced(
    records: Iterator[Any],
    key_of: Callable[[Any], Any],
    combine: Callable[[Any, Any], Any],
    operator: str,
    gauge: MemoryGauge,
) -> Iterator[dict[Any, Any]]:
    """Records combined two by two.

    Args:
        records: what comes in.
        key_of: tells the key of a record.
        combine: makes one record of two.
        operator: the operator's name.
        gauge: tells when what is held is too much.

    Yields:
        records by their keys; a key may come again later.
    """
    held: dict[Any, Any] = {}
    key = None
    try:
        for first in records:
            for record in itertools.chain((first,), itertools.islice(records, gauge.stride)):
                key = key_of(record)
                if key in held:
                    held[key] = combine(held[key], record)
                else:
                    held[key] = record
            if gauge.exceeded():
                yield held
                held = {}
                gauge.relieved()
    except StreamTaskError:
        raise
    except Exception as error:
        check_key(key, operator)
        raise failure(operator, error) from error
    yield held


def aggregated(
    records: Iterator[Any],
    key_of: Callable[[Any], Any],
    aggregate: FieldAggregate,
    operator: str,
    gauge: MemoryGauge,
) -> Iterator[dict[Any, Any]]:
    """Records with one field aggregated.

    Args:
        records: what comes in.
        key_of: tells the key of a record.
        aggregate: which aggregate of which field.
        operator: the operator's name.
        gauge: tells when what is held is too much.

    Yields:
        records by their keys; a key may come again later.
    """
    firsts: dict[Any, Any] = {}
    totals: dict[Any, Any] = {}
    of_two, result = aggregate.of_two, aggregate.result
    key = None
    try:
        for first in records:
            read = aggregate.reader(first)
            for record in itertools.chain((first,), itertools.islice(records, gauge.stride)):
                key = key_of(record)
                if key in totals:
                    totals[key] = of_two(totals[key], read(record))
                else:
                    firsts[key] = record
                    totals[key] = read(record)
            if gauge.exceeded():
                yield {key: result(firsts.pop(key), totals[key]) for key in totals}
                totals = {}
                gauge.relieved()
        yield {key: result(firsts.pop(key), totals[key]) for key in totals}
    except StreamTaskError:
        raise
    except Exception as error:
        check_key(key, operator)
        raise failure(operator, error) from error

"""Operators that see one record at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from holdfast.functions.process_function import ProcessFunction
from holdfast.streaming.batch_encoding import is_tagged
from holdfast.streaming.user_functions import failing_as

__all__ = ["filtered", "flat_mapped", "main_output", "mapped", "processed"]

# Generators, since a StopIteration that a person's function raises would end map() and filter()
# without a word; a loop in each, since a function called for each record would cost more than them.


def mapped(records: Iterator[Any], function: Callable[[Any], Any], operator: str) -> Iterator[Any]:
    """One record from each.

    Args:
        records: what comes in.
        function: called with each.
        operator: the operator's name.
    """
    with failing_as(operator):
        for record in records:
            yield function(record)


def flat_mapped(
    records: Iterator[Any], function: Callable[[Any], Any], operator: str
) -> Iterator[Any]:
    """Any number of records from each.

    Args:
        records: what comes in.
        function: called with each; gives an iterable, or None.
        operator: the operator's name.
    """
    with failing_as(operator):
        for record in records:
            results = function(record)
            if results is not None:
                yield from results


def filtered(
    records: Iterator[Any], function: Callable[[Any], Any], operator: str
) -> Iterator[Any]:
    """The records that the function says yes to.

    Args:
        records: what comes in.
        function: called with each.
        operator: the operator's name.
    """
    with failing_as(operator):
        for record in records:
            if function(record):
                yield record


def processed(
    records: Iterator[Any],
    function: Callable[[Any, Any], Any],
    context: ProcessFunction.Context,
    operator: str,
) -> Iterator[Any]:
    """Any number of records from each, those for side outputs with their tags.

    Args:
        records: what comes in.
        function: called with each and the context; gives an iterable, or None.
        context: what the function can ask about a record.
        operator: the operator's name.
    """
    with failing_as(operator):
        for record in records:
            results = function(record, context)
            if results is not None:
                yield from results


def main_output(records: Iterator[Any]) -> Iterator[Any]:
    """Without the records for side outputs.

    Args:
        records: as a process function gave them.
    """
    return (record for record in records if not is_tagged(record))

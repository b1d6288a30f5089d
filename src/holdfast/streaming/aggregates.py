"""Sums, minima and maxima of a field, by key."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from holdfast.graph.stream.operators import Aggregate, AggregateKind
from holdfast.streaming.field_access import reader_of, with_field

__all__ = ["FieldAggregate"]

_OF_TWO: dict[AggregateKind, Callable[[Any, Any], Any]] = {
    AggregateKind.SUM: operator.add,
    AggregateKind.MIN: min,
    AggregateKind.MAX: max,
}


class FieldAggregate:
    """Aggregates one field of records.

    Args:
        aggregate: which aggregate of which field.
    """

    def __init__(self, aggregate: Aggregate) -> None:
        self.of_two = _OF_TWO[aggregate.kind]
        self._field = aggregate.field
        self._read: Callable[[Any], Any] | None = None

    def reader(self, record: Any) -> Callable[[Any], Any]:
        """What reads the field.

        Args:
            record: any record; the others are like it.
        """
        if self._read is None:
            self._read = reader_of(record, self._field)
        return self._read

    def result(self, first: Any, value: Any) -> Any:
        """The first record with the aggregate in place of its own value.

        Args:
            first: the first record of a key.
            value: the aggregate.
        """
        return with_field(first, self._field, value)

    def combine(self, first: Any, second: Any) -> Any:
        """One record of two of the same key.

        Args:
            first: a record, or a result.
            second: another one.
        """
        read = self.reader(first)
        return self.result(first, self.of_two(read(first), read(second)))

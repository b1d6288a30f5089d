"""Functions from records to records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from holdfast.functions.function import Function

__all__ = ["FilterFunction", "FlatMapFunction", "KeySelector", "MapFunction", "ReduceFunction"]


class MapFunction(Function, ABC):
    """Maps each record to one record.

    Source: PyFlink, `pyflink.datastream.functions.MapFunction`.

    >>> class Doubled(MapFunction):
    ...     def map(self, value):
    ...         return 2 * value
    >>> Doubled().map(21)
    42
    """

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Maps a record to another.

        Args:
            value: a record.
        """


class FlatMapFunction(Function, ABC):
    """Maps each record to any number of records.

    Source: PyFlink, `pyflink.datastream.functions.FlatMapFunction`.

    >>> class Words(FlatMapFunction):
    ...     def flat_map(self, value):
    ...         yield from value.split()
    >>> list(Words().flat_map("to be"))
    ['to', 'be']
    """

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Maps a record to any number of records.

        Args:
            value: a record.

        Returns:
            the records, or None for none of them. A generator runs only as far as its records are
            taken. A record travels with others, so it must not be changed once it has been given.
        """


class FilterFunction(Function, ABC):
    """Selects records.

    Source: PyFlink, `pyflink.datastream.functions.FilterFunction`.

    >>> class Even(FilterFunction):
    ...     def filter(self, value):
    ...         return value % 2 == 0
    >>> Even().filter(3)
    False
    """

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Returns whether to keep a record.

        Args:
            value: a record.
        """


class ReduceFunction(Function, ABC):
    """Combines all records of a key pairwise into one.

    Records may be combined in any grouping, partly before the shuffle: the function must be
    associative.

    Source: PyFlink, `pyflink.datastream.functions.ReduceFunction`.

    >>> class Larger(ReduceFunction):
    ...     def reduce(self, value1, value2):
    ...         return max(value1, value2)
    >>> Larger().reduce(1, 2)
    2
    """

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Combines two records of the same key into one.

        Args:
            value1: a record, or the combination of several.
            value2: another one.
        """


class KeySelector(Function, ABC):
    """Returns the key of a record.

    Source: PyFlink, `pyflink.datastream.functions.KeySelector`.

    >>> class First(KeySelector):
    ...     def get_key(self, value):
    ...         return value[0]
    >>> First().get_key(("a", 1))
    'a'
    """

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Returns the key of a record: hashable, and equal for all records of one group.

        Args:
            value: a record.
        """

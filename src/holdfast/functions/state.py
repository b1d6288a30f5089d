"""Keyed state: state of a function for each key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

__all__ = ["ListState", "MapState", "ReducingState", "State", "ValueState"]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class State(ABC):
    """A state, scoped to the key of the current record.

    Source: PyFlink, `pyflink.datastream.state`.
    """

    @abstractmethod
    def clear(self) -> None:
        """Clears the state for the current key."""


class ValueState(State, Generic[T]):
    """One value."""

    @abstractmethod
    def value(self) -> T | None:
        """The value, or None if there is none yet."""

    @abstractmethod
    def update(self, value: T) -> None:
        """Sets the value.

        Args:
            value: the new one; None clears it.
        """


class ListState(State, Generic[T]):
    """A list."""

    @abstractmethod
    def get(self) -> Iterator[T]:
        """The elements, in the order in which they were added."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Appends an element.

        Args:
            value: the element.
        """

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Appends elements.

        Args:
            values: the elements.
        """

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replaces all elements.

        Args:
            values: the new ones.
        """

    def __iter__(self) -> Iterator[T]:
        return self.get()


class MapState(State, Generic[K, V]):
    """A mapping."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value under a key, or None if there is none.

        Args:
            key: the mapping's key, not the stream's.
        """

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets a value under a key.

        Args:
            key: the mapping's key.
            value: the value.
        """

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Sets several values.

        Args:
            dict_value: values under their keys.
        """

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes a key, if present.

        Args:
            key: the mapping's key.
        """

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is a value under a key.

        Args:
            key: the mapping's key.
        """

    @abstractmethod
    def items(self) -> Iterator[tuple[K, V]]:
        """Keys with their values."""

    @abstractmethod
    def keys(self) -> Iterator[K]:
        """The keys."""

    @abstractmethod
    def values(self) -> Iterator[V]:
        """The values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no key."""

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return self.keys()


class ReducingState(State, Generic[T]):
    """A value that is aggregated by a reduce function."""

    @abstractmethod
    def get(self) -> T | None:
        """The value, or None if nothing has been added yet."""

    @abstractmethod
    def add(self, value: T) -> None:
        """Adds a value.

        Args:
            value: what to add.
        """

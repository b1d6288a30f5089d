"""Keyed state: what is remembered of the key at hand, and forgotten when the next one comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from holdfast.errors import KeyedStateError
from holdfast.functions.state import ListState, MapState, ReducingState, ValueState

__all__ = ["KeyedListState", "KeyedMapState", "KeyedReducingState", "KeyedState", "KeyedValueState"]


class KeyedState:
    """All the states of the key at hand.

    A key's records come all together, so nothing is remembered of the keys before.
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] | None = None
        self._kinds: dict[str, type] = {}

    def start(self) -> None:
        """Begins with another key."""
        self._values = {}

    def stop(self) -> None:
        """Leaves the last key."""
        self._values = None

    def register(self, name: str, kind: type) -> None:
        """Says what a state is.

        Args:
            name: the state's name.
            kind: its class.

        Raises:
            KeyedStateError: when the name stands for another kind of state.
        """
        known = self._kinds.setdefault(name, kind)
        if known is not kind:
            raise KeyedStateError(
                name, f"it is already a {known.__name__}: expected a different name for each state"
            )

    def values(self, name: str) -> dict[str, Any]:
        """What is remembered of the key at hand, by the states' names.

        Args:
            name: the state that is being used.

        Raises:
            KeyedStateError: when there is no key at hand.
        """
        if self._values is None:
            raise KeyedStateError(name, "there is no current key: access it in process_element()")
        return self._values


class KeyedValueState(ValueState[Any]):
    """One value for each key.

    Args:
        name: the state's name.
        states: all states of the key at hand.
    """

    def __init__(self, name: str, states: KeyedState) -> None:
        states.register(name, ValueState)
        self._name = name
        self._states = states

    def value(self) -> Any:
        return self._states.values(self._name).get(self._name)

    def update(self, value: Any) -> None:
        self._states.values(self._name)[self._name] = value

    def clear(self) -> None:
        self._states.values(self._name).pop(self._name, None)


class KeyedListState(ListState[Any]):
    """A list for each key.

    Args:
        name: the state's name.
        states: all states of the key at hand.
    """

    def __init__(self, name: str, states: KeyedState) -> None:
        states.register(name, ListState)
        self._name = name
        self._states = states

    def get(self) -> Iterator[Any]:
        return iter(self._elements())

    def add(self, value: Any) -> None:
        self._elements().append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        self._elements().extend(values)

    def update(self, values: Iterable[Any]) -> None:
        self._states.values(self._name)[self._name] = list(values)

    def clear(self) -> None:
        self._states.values(self._name).pop(self._name, None)

    def _elements(self) -> list[Any]:
        elements: list[Any] = self._states.values(self._name).setdefault(self._name, [])
        return elements


class KeyedMapState(MapState[Any, Any]):
    """A mapping for each key.

    Args:
        name: the state's name.
        states: all states of the key at hand.
    """

    def __init__(self, name: str, states: KeyedState) -> None:
        states.register(name, MapState)
        self._name = name
        self._states = states

    def get(self, key: Any) -> Any:
        return self._entries().get(key)

    def put(self, key: Any, value: Any) -> None:
        self._entries()[key] = value

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        self._entries().update(dict_value)

    def remove(self, key: Any) -> None:
        self._entries().pop(key, None)

    def contains(self, key: Any) -> bool:
        return key in self._entries()

    def items(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._entries().items())

    def keys(self) -> Iterator[Any]:
        return iter(self._entries())

    def values(self) -> Iterator[Any]:
        return iter(self._entries().values())

    def is_empty(self) -> bool:
        return not self._entries()

    def clear(self) -> None:
        self._states.values(self._name).pop(self._name, None)

    def _entries(self) -> dict[Any, Any]:
        entries: dict[Any, Any] = self._states.values(self._name).setdefault(self._name, {})
        return entries


class KeyedReducingState(ReducingState[Any]):
    """A value for each key that others are added to.

    Args:
        name: the state's name.
        states: all states of the key at hand.
        combine: makes one value of two.
    """

    def __init__(self, name: str, states: KeyedState, combine: Callable[[Any, Any], Any]) -> None:
        states.register(name, ReducingState)
        self._name = name
        self._states = states
        self._combine = combine

    def get(self) -> Any:
        return self._states.values(self._name).get(self._name)

    def add(self, value: Any) -> None:
        values = self._states.values(self._name)
        if self._name in values:
            values[self._name] = self._combine(values[self._name], value)
        else:
            values[self._name] = value

    def clear(self) -> None:
        self._states.values(self._name).pop(self._name, None)

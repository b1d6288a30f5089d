"""RuntimeContext: the context in which a function runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from holdfast.functions.state import ListState, MapState, ReducingState, ValueState
from holdfast.functions.state_descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

__all__ = ["RuntimeContext"]


class RuntimeContext(ABC):
    """The context of a function, with access to keyed state. Passed to `Function.open`.

    Source: PyFlink, `pyflink.datastream.functions.RuntimeContext`.
    """

    @abstractmethod
    def get_task_name(self) -> str:
        """The name of the operator."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """The number of subtasks of the operator."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """The index of this subtask, from 0."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """One value for each key.

        Args:
            state_descriptor: names the state.

        Raises:
            KeyedStateError: when the function doesn't run on a keyed stream.
        """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list for each key.

        Args:
            state_descriptor: names the state.

        Raises:
            KeyedStateError: when the function doesn't run on a keyed stream.
        """

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A mapping for each key.

        Args:
            state_descriptor: names the state.

        Raises:
            KeyedStateError: when the function doesn't run on a keyed stream.
        """

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """A value for each key, aggregated by a reduce function.

        Args:
            state_descriptor: names the state and its function.

        Raises:
            KeyedStateError: when the function doesn't run on a keyed stream.
        """

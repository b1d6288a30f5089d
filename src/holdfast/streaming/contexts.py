"""The contexts that a person's functions get."""

from __future__ import annotations

from typing import Any, NoReturn

from holdfast.errors import KeyedStateError, UnsupportedFeatureError
from holdfast.functions.keyed_process_function import KeyedProcessFunction
from holdfast.functions.process_function import ProcessFunction
from holdfast.functions.runtime_context import RuntimeContext
from holdfast.functions.state import ListState, MapState, ReducingState, ValueState
from holdfast.functions.state_descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from holdfast.streaming.keyed_state import (
    KeyedListState,
    KeyedMapState,
    KeyedReducingState,
    KeyedState,
    KeyedValueState,
)
from holdfast.streaming.subtask import Subtask
from holdfast.streaming.user_functions import call_of

__all__ = ["KeyedRecordContext", "RecordContext", "TaskContext"]


class TaskContext(RuntimeContext):
    """What a function's `open` gets.

    Args:
        operator: the name of the function's operator.
        subtask: where it runs.
        states: keyed state, where there are keys.
    """

    def __init__(self, operator: str, subtask: Subtask, states: KeyedState | None = None) -> None:
        self._operator = operator
        self._subtask = subtask
        self._states = states

    def get_task_name(self) -> str:
        return self._operator

    def get_number_of_parallel_subtasks(self) -> int:
        return self._subtask.parallelism

    def get_index_of_this_subtask(self) -> int:
        return self._subtask.index

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        return KeyedValueState(state_descriptor.name, self._keyed(state_descriptor))

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        return KeyedListState(state_descriptor.name, self._keyed(state_descriptor))

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        return KeyedMapState(state_descriptor.name, self._keyed(state_descriptor))

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        combine = call_of(state_descriptor.reduce_function, "reduce")
        states = self._keyed(state_descriptor)
        return KeyedReducingState(state_descriptor.name, states, combine)

    def _keyed(self, descriptor: StateDescriptor) -> KeyedState:
        if self._states is None:
            raise KeyedStateError(
                descriptor.name,
                f"operator {self._operator!r} has no keyed state: expected a KeyedProcessFunction "
                "on a keyed stream, as in key_by(...).process(...)",
            )
        return self._states


class RecordContext(ProcessFunction.Context):
    """What `ProcessFunction.process_element` gets with a record."""

    def timestamp(self) -> int | None:
        return None

    def timer_service(self) -> NoReturn:
        raise UnsupportedFeatureError(
            "A timer", "Streams are bounded here: do the work at the last record, or after it."
        )


class KeyedRecordContext(RecordContext, KeyedProcessFunction.Context):
    """What `KeyedProcessFunction.process_element` gets with a record."""

    def __init__(self) -> None:
        self.key: Any = None

    def get_current_key(self) -> Any:
        return self.key

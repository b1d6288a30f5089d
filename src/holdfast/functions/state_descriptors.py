"""Descriptors of keyed state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.functions.type_information import TypeInformation

__all__ = [
    "ListStateDescriptor",
    "MapStateDescriptor",
    "ReducingStateDescriptor",
    "StateDescriptor",
    "ValueStateDescriptor",
]


@dataclass(frozen=True)
class StateDescriptor:
    """Names a state. A name stands for the same state wherever a function asks for it.

    Args:
        name: the state's name, unique in its function.

    Source: PyFlink, `pyflink.datastream.state.StateDescriptor`.
    """

    name: str


@dataclass(frozen=True)
class ValueStateDescriptor(StateDescriptor):
    """Names a state of one value.

    Args:
        name: the state's name, unique in its function.
        value_type_info: the type of the value; only descriptive.

    >>> ValueStateDescriptor("seen").name
    'seen'
    """

    value_type_info: TypeInformation | None = None


@dataclass(frozen=True)
class ListStateDescriptor(StateDescriptor):
    """Names a state that is a list.

    Args:
        name: the state's name, unique in its function.
        elem_type_info: the type of its elements; only descriptive.
    """

    elem_type_info: TypeInformation | None = None


@dataclass(frozen=True)
class MapStateDescriptor(StateDescriptor):
    """Names a state that is a mapping.

    Args:
        name: the state's name, unique in its function.
        key_type_info: the type of its keys; only descriptive.
        value_type_info: the type of its values; only descriptive.
    """

    key_type_info: TypeInformation | None = None
    value_type_info: TypeInformation | None = None


@dataclass(frozen=True)
class ReducingStateDescriptor(StateDescriptor):
    """Names a state that aggregates the values added to it.

    Args:
        name: the state's name, unique in its function.
        reduce_function: a ReduceFunction, or a callable for two values.
        type_info: the type of the value; only descriptive.
    """

    reduce_function: Any
    type_info: TypeInformation | None = None

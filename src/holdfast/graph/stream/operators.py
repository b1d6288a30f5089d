"""What an operator does with the records that it gets. A user's functions are opaque here."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar


class AggregateKind(Enum):
    """What an aggregate makes of the values of a field."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"


class Operator:
    """The base of all operators.

    Attributes:
        default_name: what a transformation is called that nobody has named.
        has_side_outputs: whether its function can yield records for side outputs.
    """

    __slots__ = ()

    default_name: ClassVar[str]
    has_side_outputs: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Identity(Operator):
    """Hands on what it gets. It gives an output of its own to what is no output by itself."""

    default_name: ClassVar[str] = "Identity"


@dataclass(frozen=True, slots=True)
class Map(Operator):
    """One record from each.

    Attributes:
        function: a MapFunction, or anything that can be called with a record.
    """

    default_name: ClassVar[str] = "Map"

    function: Any


@dataclass(frozen=True, slots=True)
class FlatMap(Operator):
    """Any number of records from each.

    Attributes:
        function: a FlatMapFunction, or anything that can be called with a record.
    """

    default_name: ClassVar[str] = "Flat Map"

    function: Any


@dataclass(frozen=True, slots=True)
class Filter(Operator):
    """The records for which its function says so.

    Attributes:
        function: a FilterFunction, or anything that can be called with a record.
    """

    default_name: ClassVar[str] = "Filter"

    function: Any


@dataclass(frozen=True, slots=True)
class Process(Operator):
    """Any number of records from each, for the main output and for side outputs.

    Attributes:
        function: a ProcessFunction.
    """

    default_name: ClassVar[str] = "Process"
    has_side_outputs: ClassVar[bool] = True

    function: Any


@dataclass(frozen=True, slots=True)
class KeyedOperator(Operator):
    """Sees all the records of a key together.

    Attributes:
        key_selector: a KeySelector, or anything that can be called with a record.
    """

    key_selector: Any


@dataclass(frozen=True, slots=True)
class Reduce(KeyedOperator):
    """One record for each key, of all its records two by two.

    Attributes:
        function: a ReduceFunction, or anything that can be called with two records.
    """

    default_name: ClassVar[str] = "Keyed Reduce"

    function: Any


@dataclass(frozen=True, slots=True)
class Aggregate(KeyedOperator):
    """The first record of each key, with one field replaced by the aggregate of all its values.

    Attributes:
        kind: which aggregate.
        field: which field: a position, or a name.
    """

    default_name: ClassVar[str] = "Keyed Aggregation"

    kind: AggregateKind
    field: int | str


@dataclass(frozen=True, slots=True)
class KeyedProcess(KeyedOperator):
    """Any number of records from each, with a state for each key.

    Attributes:
        function: a KeyedProcessFunction.
    """

    default_name: ClassVar[str] = "Keyed Process"
    has_side_outputs: ClassVar[bool] = True

    function: Any

"""Pass: a chain of operators that runs over the record batches of a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from holdfast.errors import InvalidStreamArgumentError
from holdfast.graph.stream.operators import (
    Aggregate,
    Filter,
    FlatMap,
    Identity,
    KeyedOperator,
    KeyedProcess,
    Map,
    Operator,
    Process,
    Reduce,
)
from holdfast.streaming.aggregates import FieldAggregate
from holdfast.streaming.batches import peeked
from holdfast.streaming.contexts import RecordContext, TaskContext
from holdfast.streaming.inputs import InputFormat, InputLostError, KeyedInput
from holdfast.streaming.keyed_operators import keyed_values, merged, processed_by_key
from holdfast.streaming.keyed_state import KeyedState
from holdfast.streaming.memory_gauge import DEFAULT_MEMORY_LIMIT, MemoryGauge
from holdfast.streaming.outputs import OutputFormat
from holdfast.streaming.record_operators import (
    filtered,
    flat_mapped,
    main_output,
    mapped,
    processed,
)
from holdfast.streaming.subtask import Subtask
from holdfast.streaming.user_functions import OpenedFunctions, call_of, own_copy
from holdfast.streaming.worker_heap import settle

__all__ = ["NamedOperator", "Pass"]


@dataclass(frozen=True)
class NamedOperator:
    """An operator with the name that it has for a person.

    Args:
        name: as shown in errors, and given by `RuntimeContext.get_task_name`.
        operator: what it does.
    """

    name: str
    operator: Operator


@dataclass(frozen=True)
class Pass:
    """A chain of operators between an input and an output.

    To be called with the record batches of a partition, as by `DataFrame.mapInArrow`. A person's
    functions are opened before the first record, and closed after the last one, or when one of them
    raises, or when nobody wants more.

    Args:
        input: makes records of record batches. With a `KeyedInput`, the first operator gets them by
            their keys.
        operators: what happens to the records, in order; none at all hands them on.
        output: makes record batches of records.
        name: of what comes out where there is no operator, such as a source or a cached stream.
        parallelism: how many subtasks there are.
        subtask_index: which of them this is, where the input doesn't tell; called in the task.
        memory_limit: how many bytes of memory the process should have at most before some of what
            is held by keys goes elsewhere.

    >>> from holdfast.streaming.inputs import SourceInput
    >>> from holdfast.streaming.outputs import BatchOutput
    >>> class Ranges:
    ...     def read(self, split):
    ...         return range(split)
    >>> doubled = NamedOperator("Doubled", Map(lambda number: 2 * number))
    >>> run = Pass(SourceInput("Ranges", Ranges(), (3,)), (doubled,), BatchOutput())
    >>> [frame.num_rows for frame in run([pa.RecordBatch.from_pydict({"id": [0]})])]
    [2]
    """

    input: InputFormat
    operators: tuple[NamedOperator, ...]
    output: OutputFormat
    name: str = "Stream"
    parallelism: int = 1
    subtask_index: Callable[[], int] | None = None
    memory_limit: int = DEFAULT_MEMORY_LIMIT

    @property
    def schema(self) -> pa.Schema:
        """The columns of what comes out."""
        return self.output.schema

    def __call__(self, frames: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs the chain.

        Args:
            frames: the record batches of one partition, taken one by one.

        Yields:
            record batches of `schema`, each as it is asked for.

        Raises:
            OperatorFailedError: when a person's function raises.
            RecordNotSerializableError: when a record can't be sent or kept.
            InvalidKeyError: when a key selector gives something that is no key.
            BatchSealBrokenError: when kept records aren't what was kept.
        """
        settle()
        try:
            first, rest = peeked(iter(frames))
            subtask = Subtask(self._index(first), self.parallelism)
            del first
            gauge = MemoryGauge(self.memory_limit)
            with OpenedFunctions() as functions:
                records = self._chained(self.input.read(rest), subtask, gauge, functions)
                self.output.open(functions, subtask)
                name = self.operators[-1].name if self.operators else self.name
                yield from self.output.write(records, name, subtask, gauge)
        except InputLostError as error:
            raise error.__cause__ or error from None

    def _index(self, first: pa.RecordBatch | None) -> int:
        index = None if first is None else self.input.subtask_index(first)
        if index is None:
            index = 0 if self.subtask_index is None else self.subtask_index()
        return index

    def _chained(
        self,
        records: Iterator[Any],
        subtask: Subtask,
        gauge: MemoryGauge,
        functions: OpenedFunctions,
    ) -> Iterator[Any]:
        by_key = isinstance(self.input, KeyedInput)
        last = len(self.operators) - 1
        taken: set[int] = set()
        for position, named in enumerate(self.operators):
            operator = _with_own_function(named.operator, taken)
            if isinstance(operator, KeyedOperator):
                if not by_key:
                    raise InvalidStreamArgumentError(
                        "Pass", named, "an operator by keys only where a KeyedInput comes in"
                    )
                records = _by_key(records, named.name, operator, subtask, gauge, functions)
            else:
                records = keyed_values(records) if by_key else records
                records = _one_by_one(records, named.name, operator, subtask, functions)
            by_key = False
            if operator.has_side_outputs and not (position == last and self.output.takes_tags):
                records = main_output(records)
        return keyed_values(records) if by_key else records


def _with_own_function(operator: Operator, taken: set[int]) -> Operator:
    # A person may give one object to several operators, each of which opens and closes its own.
    match operator:
        case Map(function) | FlatMap(function) | Filter(function) | Process(function):
            if id(function) in taken:
                return replace(operator, function=own_copy(function))
            taken.add(id(function))
    return operator


def _one_by_one(
    records: Iterator[Any],
    name: str,
    operator: Operator,
    subtask: Subtask,
    functions: OpenedFunctions,
) -> Iterator[Any]:
    context = TaskContext(name, subtask)
    match operator:
        case Identity():
            return records
        case Map(function):
            functions.open(name, function, context)
            return mapped(records, call_of(function, "map"), name)
        case FlatMap(function):
            functions.open(name, function, context)
            return flat_mapped(records, call_of(function, "flat_map"), name)
        case Filter(function):
            functions.open(name, function, context)
            return filtered(records, call_of(function, "filter"), name)
        case Process(function):
            functions.open(name, function, context)
            call = call_of(function, "process_element")
            return processed(records, call, RecordContext(), name)
        case _:
            raise InvalidStreamArgumentError("Pass", operator, "an operator that is known")


def _by_key(
    records: Iterator[Any],
    name: str,
    operator: KeyedOperator,
    subtask: Subtask,
    gauge: MemoryGauge,
    functions: OpenedFunctions,
) -> Iterator[Any]:
    match operator:
        case Reduce(_, function):
            functions.open(name, function, TaskContext(name, subtask))
            return merged(records, call_of(function, "reduce"), name, gauge)
        case Aggregate():
            return merged(records, FieldAggregate(operator).combine, name, gauge)
        case KeyedProcess(_, function):
            states = KeyedState()
            functions.open(name, function, TaskContext(name, subtask, states))
            call = call_of(function, "process_element")
            return processed_by_key(records, call, states, name, gauge)
        case _:
            raise InvalidStreamArgumentError("Pass", operator, "an operator that is known")

"""A stream that is partitioned by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.api.data_stream import DataStream
from holdfast.api.stream_arguments import check_field, check_function, check_process_function
from holdfast.functions.keyed_process_function import KeyedProcessFunction
from holdfast.functions.record_functions import KeySelector, ReduceFunction
from holdfast.functions.type_information import TypeInformation
from holdfast.graph.stream.operators import Aggregate, AggregateKind, KeyedProcess, Reduce
from holdfast.graph.stream.partitioner import HashByKey
from holdfast.graph.stream.transformations import PartitionTransformation

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.api.stream_context import StreamContext


class KeyedStream(DataStream):
    """A stream that is partitioned by key, as returned by :meth:`DataStream.key_by`.

    Streams are bounded: each key has one result, computed when all its records have arrived.

    Args:
        origin: The stream that is partitioned.
        key_selector: Returns a record's key.
        context: The environment that runs its jobs.

    Source: PyFlink, ``KeyedStream``; one result for each key as in its execution mode ``BATCH``.

    Example:
        >>> pairs = env.from_collection([("a", 1), ("b", 2), ("a", 3)])
        >>> sorted(pairs.key_by(lambda p: p[0]).sum(1).execute_and_collect())
        [('a', 4), ('b', 2)]
    """

    def __init__(self, origin: DataStream, key_selector: Any, context: StreamContext) -> None:
        partitioner = HashByKey(key_selector)
        super().__init__(PartitionTransformation(origin._transformation, partitioner), context)
        self._origin = origin
        self._key_selector = key_selector

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Combines all records of each key pairwise into one record.

        Args:
            func: Called with two records, returns one. It must be associative: the order of
                combination is not defined.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is not a callable for two records.

        Source: PyFlink, ``KeyedStream.reduce``.

        Example:
            >>> by_parity = env.from_collection(range(6)).key_by(lambda n: n % 2)
            >>> sorted(by_parity.reduce(max).execute_and_collect())
            [4, 5]
        """
        check_function("reduce()", func, ReduceFunction)
        return self._applied(Reduce(self._key_selector, func))

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Returns the first record of each key, with the sum of a field over all its records.

        Args:
            position_to_sum: A position from 0, or the name of a field or a dict's key.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is none of these.

        Source: PyFlink, ``KeyedStream.sum``.

        Example:
            >>> pairs = env.from_collection([("a", 1), ("a", 3)])
            >>> list(pairs.key_by(lambda p: p[0]).sum(1).execute_and_collect())
            [('a', 4)]
        """
        return self._aggregated("sum()", AggregateKind.SUM, position_to_sum)

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Returns the first record of each key, with the minimum of a field over all its records.

        Args:
            position_to_min: A position from 0, or the name of a field or a dict's key.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is none of these.

        Source: PyFlink, ``KeyedStream.min``.

        Example:
            >>> pairs = env.from_collection([("a", 2), ("a", 1)])
            >>> list(pairs.key_by(lambda p: p[0]).min(1).execute_and_collect())
            [('a', 1)]
        """
        return self._aggregated("min()", AggregateKind.MIN, position_to_min)

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Returns the first record of each key, with the maximum of a field over all its records.

        Args:
            position_to_max: A position from 0, or the name of a field or a dict's key.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is none of these.

        Source: PyFlink, ``KeyedStream.max``.

        Example:
            >>> pairs = env.from_collection([("a", 1), ("a", 2)])
            >>> list(pairs.key_by(lambda p: p[0]).max(1).execute_and_collect())
            [('a', 2)]
        """
        return self._aggregated("max()", AggregateKind.MAX, position_to_max)

    def process(  # type: ignore[override]
        self, func: KeyedProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Maps each record to any number of records, with keyed state.

        Args:
            func: Its ``process_element(value, ctx)`` yields a record for this stream, and
                ``tag, record`` for the side output of that tag. ``ctx.get_current_key()`` is the
                key of the current state.
            output_type: The type of the new records.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is not a KeyedProcessFunction.

        Source: PyFlink, ``KeyedStream.process``.

        Example:
            >>> class Numbered(KeyedProcessFunction):
            ...     def open(self, runtime_context):
            ...         self.seen = runtime_context.get_state(ValueStateDescriptor("seen"))
            ...     def process_element(self, value, ctx):
            ...         number = (self.seen.value() or 0) + 1
            ...         self.seen.update(number)
            ...         yield ctx.get_current_key(), number
            >>> letters = env.from_collection("aba").key_by(lambda letter: letter)
            >>> sorted(letters.process(Numbered()).execute_and_collect())
            [('a', 1), ('a', 2), ('b', 1)]
        """
        check_process_function("process()", func, KeyedProcessFunction)
        return self._applied(KeyedProcess(self._key_selector, func))

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Partitions the records by another key, see `DataStream.key_by`.

        Args:
            key_selector: Called with a record, returns its hashable key.
            key_type: The type of the keys.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is not a callable for a record.

        Source: PyFlink, ``KeyedStream.key_by``.
        """
        return self._origin.key_by(key_selector, key_type)

    def _aggregated(self, method: str, kind: AggregateKind, field: int | str) -> DataStream:
        check_field(method, field)
        return self._applied(Aggregate(self._key_selector, kind, field))

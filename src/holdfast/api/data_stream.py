"""Streams of records, and their transformations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from holdfast.api.data_stream_sink import DataStreamSink
from holdfast.api.stream_arguments import (
    check_count,
    check_function,
    check_process_function,
    check_same_environment,
    check_text,
)
from holdfast.errors import InvalidStreamArgumentError
from holdfast.functions.output_tag import OutputTag
from holdfast.functions.process_function import ProcessFunction
from holdfast.functions.record_functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
)
from holdfast.functions.sink import FileSink, PrintSink, Sink
from holdfast.functions.type_information import TypeInformation
from holdfast.graph.stream.operators import Filter, FlatMap, Map, Operator, Process
from holdfast.graph.stream.partitioner import Rebalance
from holdfast.graph.stream.transformations import (
    OneInputTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    SinkTransformation,
    Transformation,
    UnionTransformation,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from typing_extensions import Self

    from holdfast.api.cached_data_stream import CachedDataStream
    from holdfast.api.closeable_iterator import CloseableIterator
    from holdfast.api.environment import Environment
    from holdfast.api.keyed_stream import KeyedStream
    from holdfast.api.stream_context import StreamContext

T = TypeVar("T")


class DataStream:
    """A stream of records.

    Methods return another stream and run nothing. Records are any picklable objects. A function is
    a plain callable, or an instance of its interface with ``open`` and ``close``; it runs in
    Spark's Python workers. Type information is accepted wherever PyFlink takes it, and has no
    effect.

    Args:
        transformation: The transformation that produces the stream.
        context: The environment that runs its jobs.

    Source: FLIP-205; names and conventions are those of PyFlink's ``DataStream``.

    Example:
        >>> words = env.from_collection(["to be", "or not", "to be"]).flat_map(str.split)
        >>> counted = words.map(lambda w: (w, 1)).key_by(lambda p: p[0]).sum(1)
        >>> sorted(counted.execute_and_collect())
        [('be', 2), ('not', 1), ('or', 1), ('to', 2)]
    """

    def __init__(self, transformation: Transformation, context: StreamContext) -> None:
        self._transformation = transformation
        self._context = context

    # --- transformations: build a program, run nothing

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Maps each record to one record.

        Args:
            func: Called with a record, returns another.
            output_type: The type of the new records.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is not a callable for a record.

        Source: PyFlink, ``DataStream.map``.

        Example:
            >>> list(env.from_collection([1, 2]).map(lambda n: n * 10).execute_and_collect())
            [10, 20]
        """
        check_function("map()", func, MapFunction)
        return self._applied(Map(func))

    def flat_map(
        self,
        func: Callable[[Any], Any] | FlatMapFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Maps each record to any number of records.

        Args:
            func: Called with a record, returns an iterable. A generator runs only as far as its
                records are consumed.
            output_type: The type of the new records.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is not a callable for a record.

        Source: PyFlink, ``DataStream.flat_map``.

        Example:
            >>> list(env.from_collection([2, 3]).flat_map(range).execute_and_collect())
            [0, 1, 0, 1, 2]
        """
        check_function("flat_map()", func, FlatMapFunction)
        return self._applied(FlatMap(func))

    def filter(self, func: Callable[[Any], Any] | FilterFunction) -> DataStream:
        """Keeps only the records for which a function returns true.

        Args:
            func: Called with a record, returns whether to keep it.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is not a callable for a record.

        Source: PyFlink, ``DataStream.filter``.

        Example:
            >>> list(env.from_collection(range(5)).filter(lambda n: n % 2).execute_and_collect())
            [1, 3]
        """
        check_function("filter()", func, FilterFunction)
        return self._applied(Filter(func))

    def process(
        self, func: ProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Maps each record to any number of records, for this stream and for side outputs.

        Args:
            func: Its ``process_element(value, ctx)`` yields a record for this stream, and
                ``tag, record`` for the side output of that tag.
            output_type: The type of the new records.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is not a ProcessFunction.

        Source: PyFlink, ``DataStream.process``.

        Example:
            >>> class Twice(ProcessFunction):
            ...     def process_element(self, value, ctx):
            ...         yield value
            ...         yield value
            >>> list(env.from_collection("ab").process(Twice()).execute_and_collect())
            ['a', 'a', 'b', 'b']
        """
        check_process_function("process()", func, ProcessFunction)
        return self._applied(Process(func))

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Returns the side output of a tag.

        Args:
            output_tag: The tag that the function of this stream's ``process`` yields with.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is not an OutputTag.
            holdfast.errors.InvalidTransformationError: This stream was not returned by ``process``.

        Source: PyFlink, ``DataStream.get_side_output``.

        Example:
            >>> odd = OutputTag("odd")
            >>> class OddAside(ProcessFunction):
            ...     def process_element(self, value, ctx):
            ...         yield (odd, value) if value % 2 else value
            >>> numbers = env.from_collection(range(5)).process(OddAside())
            >>> list(numbers.get_side_output(odd).map(str).execute_and_collect())
            ['1', '3']
        """
        if not isinstance(output_tag, OutputTag):
            raise InvalidStreamArgumentError(
                "get_side_output()", output_tag, "an OutputTag, such as OutputTag('late')"
            )
        return self._derived(SideOutputTransformation(self._transformation, output_tag))

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Partitions the records by key.

        Args:
            key_selector: Called with a record, returns its hashable key.
            key_type: The type of the keys.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is not a callable for a record.

        Source: PyFlink, ``DataStream.key_by``.

        Example:
            >>> by_parity = env.from_collection(range(4)).key_by(lambda n: n % 2)
            >>> sorted(by_parity.reduce(lambda a, b: a + b).execute_and_collect())
            [2, 4]
        """
        check_function("key_by()", key_selector, KeySelector)
        return self._context.keyed(self, key_selector)

    def union(self, *streams: DataStream) -> DataStream:
        """Returns the union of several streams, including duplicates.

        Args:
            *streams: Other streams of the same environment, or this one again.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: One is not a stream, or belongs
                to another environment.

        Source: PyFlink, ``DataStream.union``.

        Example:
            >>> numbers = env.from_collection([1, 2])
            >>> sorted(numbers.union(numbers.map(lambda n: -n)).execute_and_collect())
            [-2, -1, 1, 2]
        """
        for stream in streams:
            if not isinstance(stream, DataStream):
                raise InvalidStreamArgumentError("union()", stream, "a DataStream")
            check_same_environment("union()", stream, stream._context, self._context)
        inputs = (self, *streams)
        return self._derived(UnionTransformation(tuple(s._transformation for s in inputs)))

    def rebalance(self) -> DataStream:
        """Distributes records evenly (round-robin) to the subtasks of the next operator.

        Source: PyFlink, ``DataStream.rebalance``.

        Example:
            >>> spread = env.from_collection(range(4)).rebalance().map(str)
        """
        return self._derived(PartitionTransformation(self._transformation, Rebalance()))

    # --- what it is called, and how wide it runs

    def name(self, name: str) -> Self:
        """Names the operator of this stream: in plans, results and error messages.

        Args:
            name: A non-empty string.

        Returns:
            This stream.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is empty or not a string.

        Source: PyFlink, ``DataStream.name``.

        Example:
            >>> env.from_collection([1]).map(str).name("as text").get_name()
            'as text'
        """
        self._transformation.name = check_text("name()", name)
        return self

    def get_name(self) -> str:
        """Returns the name of the operator of this stream.

        Source: PyFlink, ``DataStream.get_name``.

        Example:
            >>> env.from_collection([1]).map(str).get_name()
            'Map'
        """
        return self._transformation.name

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the parallelism of the operator of this stream.

        If it differs from its input's, the records are rebalanced in between.

        Args:
            parallelism: At least 1.

        Returns:
            This stream.

        Raises:
            holdfast.errors.InvalidTransformationError: It is not an integer >= 1, or the
                stream has no subtasks of its own: a union, a side output, a partitioning, a cache.

        Source: PyFlink, ``DataStream.set_parallelism``.

        Example:
            >>> one_by_one = env.from_collection(range(9)).map(str).set_parallelism(1)
        """
        self._transformation.parallelism = parallelism
        return self

    def get_execution_environment(self) -> Environment:
        """Returns the environment that this stream belongs to.

        Source: PyFlink, ``DataStream.get_execution_environment``.

        Example:
            >>> env.from_collection([1]).get_execution_environment() is env
            True
        """
        return self._context.environment

    # --- sinks: for the next env.execute()

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Adds a sink by which the next ``env.execute()`` prints the records in this process.

        Args:
            sink_identifier: Put before each line, as ``identifier> ``.

        Raises:
            holdfast.errors.EnvironmentClosedError: The environment has been closed.
            holdfast.errors.InvalidStreamArgumentError: The identifier is not a string.

        Source: PyFlink, ``DataStream.print``.

        Example:
            >>> _ = env.from_collection(["hello"]).print("greeting")
            >>> _ = env.execute()
            greeting> hello
        """
        prefix = "" if sink_identifier is None else check_text("print()", sink_identifier)
        return self._sunk(PrintSink(prefix), "Print to Std. Out")

    def sink_to(self, sink: FileSink | PrintSink | Sink) -> DataStreamSink:
        """Adds a sink to which the next ``env.execute()`` writes the records.

        Args:
            sink: The sink.

        Raises:
            holdfast.errors.EnvironmentClosedError: The environment has been closed.
            holdfast.errors.InvalidStreamArgumentError: It is not a sink.

        Source: PyFlink, ``DataStream.sink_to``.

        Example:
            >>> from holdfast import Encoder, FileSink
            >>> sink = FileSink.for_row_format(path, Encoder.simple_string_encoder()).build()
            >>> _ = env.from_collection([1, 2]).sink_to(sink)
            >>> _ = env.execute("write numbers")
        """
        if not isinstance(sink, FileSink | PrintSink | Sink):
            raise InvalidStreamArgumentError(
                "sink_to()", sink, "a sink: a FileSink, or an instance of a subclass of Sink"
            )
        return self._sunk(sink, type(sink).__name__)

    # --- reading

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator: ...

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, *, limit: int
    ) -> list[Any]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[Any]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Runs a job and returns the records of this stream.

        Sinks that were added wait for ``env.execute()``. Little more is computed than what is
        read, so an infinite stream can be read in part.

        Args:
            job_execution_name: The name of the job.
            limit: The maximum number of records, at least 1.

        Returns:
            An iterator that should be closed, whose job starts when the first record is
            requested; with a limit, a list.

        Raises:
            holdfast.errors.EnvironmentClosedError: The environment has been closed.
            holdfast.errors.InvalidStreamArgumentError: The limit is not an integer >= 1.

        Source: PyFlink, ``DataStream.execute_and_collect``.

        Example:
            >>> with env.from_collection("abc").execute_and_collect() as records:
            ...     list(records)
            ['a', 'b', 'c']
            >>> env.from_collection(range(1000)).execute_and_collect(limit=2)
            [0, 1]
        """
        if limit is not None:
            check_count("execute_and_collect()", limit)
        name = _EXECUTE_AND_COLLECT
        if job_execution_name is not None:
            name = check_text("execute_and_collect()", job_execution_name)
        records = self._context.collect(self, name)
        if limit is None:
            return records
        with records:
            return [record for record, _ in zip(records, range(limit), strict=False)]

    # --- keeping

    def cache(self, lifetime: timedelta | str | None = None) -> CachedDataStream:
        """Caches this stream's records, so that later jobs read them.

        Nothing runs now. The first job that contains this computation leaves its records behind;
        every later job that contains it reads them. They stay until they are invalidated or the
        environment closes. With a lifetime they stay for that long after their last use, and later
        programs of the same user that cache the same stream read them.

        Args:
            lifetime: A time such as ``"7 d"``; ``"application"`` for as long as the environment
                lives; None for what ``intermediate-result-storage.lifetime`` says.

        Returns:
            The cached stream, which is a stream like any other.

        Raises:
            holdfast.errors.ConfigurationError: The lifetime is none.
            holdfast.errors.EnvironmentClosedError: The environment has been closed.
            holdfast.errors.StreamNotShareableError: It has a lifetime of its own, and
                ``intermediate-result-storage.sharing`` lets other users read what is kept.

        Source: FLIP-205, "DataStream -> Stream Graph".

        Example:
            >>> squares = env.from_collection(range(4)).map(lambda n: n * n).cache()
            >>> list(squares.execute_and_collect())  # computes, and keeps
            [0, 1, 4, 9]
            >>> list(squares.filter(lambda n: n > 3).execute_and_collect())  # reads
            [4, 9]
        """
        return self._context.cache(self, lifetime)

    # --- how a stream shows itself

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transformation.name!r})"

    # --- for this package

    def _applied(self, operator: Operator) -> DataStream:
        return self._derived(OneInputTransformation(self._transformation, operator))

    def _derived(self, transformation: Transformation) -> DataStream:
        return DataStream(transformation, self._context)

    def _sunk(self, sink: object, name: str) -> DataStreamSink:
        transformation = SinkTransformation(self._transformation, sink, f"Sink: {name}")
        self._context.add_sink(transformation)
        return DataStreamSink(transformation)


_EXECUTE_AND_COLLECT = "execute_and_collect"

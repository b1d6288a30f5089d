"""The stream API of an Environment."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.api.data_stream import DataStream
from holdfast.api.job_execution_result import JobExecutionResult
from holdfast.api.stream_arguments import check_count, check_same_environment, check_text
from holdfast.api.stream_program import StreamProgram
from holdfast.errors import InvalidStreamArgumentError
from holdfast.functions.file_source import FileSource
from holdfast.functions.source import Source
from holdfast.functions.type_information import TypeInformation
from holdfast.functions.watermark_strategy import WatermarkStrategy
from holdfast.graph.stream.execution_plan import ExecutionPlan
from holdfast.graph.stream.transformations import SourceTransformation
from holdfast.lazy_module import LazyModule

if TYPE_CHECKING:
    from pyspark.sql.classic.dataframe import DataFrame
    from typing_extensions import Self

    from holdfast.api.table import Table
    from holdfast.spark.streams import stream_sources
else:
    stream_sources = LazyModule("holdfast.spark.streams.stream_sources")


class StreamEnvironment:
    """Creates and runs streams; a base class of `Environment`.

    Source: FLIP-205; names and conventions are those of PyFlink's ``StreamExecutionEnvironment``.
    """

    spark: SparkSession

    if TYPE_CHECKING:

        @property
        def _stream_program(self) -> StreamProgram: ...

        def plain(self, table: Table, *, fresh: bool = False) -> DataFrame: ...

    def from_collection(
        self, collection: Iterable[Any], type_info: TypeInformation | None = None
    ) -> DataStream:
        """Creates a stream of given records.

        Args:
            collection: Any picklable records. They are copied: later changes have no effect.
            type_info: Their type.

        Raises:
            EnvironmentClosedError: when the environment has been closed.
            InvalidStreamArgumentError: when it is not iterable.

        Source: PyFlink, `StreamExecutionEnvironment.from_collection`.

        Example:
            >>> list(env.from_collection([1, "two", None]).execute_and_collect())
            [1, 'two', None]
        """
        if not isinstance(collection, Iterable):
            raise InvalidStreamArgumentError(
                "from_collection()", collection, "records in a list or another iterable"
            )
        return self._stream_of(
            "from_collection()", stream_sources.CollectionSource(collection), "Collection"
        )

    def from_source(
        self,
        source: Source | FileSource,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str | None = None,
        type_info: TypeInformation | None = None,
    ) -> DataStream:
        """Creates a stream of the records that a source reads.

        Args:
            source: a NumberSequenceSource, a FileSource, or an instance of your own subclass of
                Source.
            watermark_strategy: accepted for compatibility with PyFlink; streams are bounded and
                need none.
            source_name: the name of the source; by default the name of its class.
            type_info: the type of its records.

        Raises:
            EnvironmentClosedError: when the environment has been closed.
            InvalidStreamArgumentError: when it is not a source.

        Source: PyFlink, `StreamExecutionEnvironment.from_source`.

        Example:
            >>> from holdfast import NumberSequenceSource
            >>> list(env.from_source(NumberSequenceSource(1, 3)).execute_and_collect())
            [1, 2, 3]
        """
        if not isinstance(source, Source | FileSource):
            raise InvalidStreamArgumentError(
                "from_source()",
                source,
                "a source: a NumberSequenceSource, a FileSource, or an instance of a subclass of "
                "Source",
            )
        if watermark_strategy is not None and not isinstance(watermark_strategy, WatermarkStrategy):
            raise InvalidStreamArgumentError(
                "from_source()", watermark_strategy, "WatermarkStrategy.no_watermarks() or nothing"
            )
        name = type(source).__name__
        if source_name is not None:
            name = check_text("from_source()", source_name)
        if isinstance(source, Source):
            return self._stream_of("from_source()", source, name)
        streams = [
            self._stream_of("from_source()", stream_sources.TextFileSource(path), name)
            for path in source.paths
        ]
        return reduce(DataStream.union, streams)

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream:
        """Creates a stream of the lines of text files, without line endings.

        Args:
            file_path: a file, a directory or a pattern of them, on any file system that Spark
                reads; compressed ones end in `.gz` and the like.
            charset_name: only UTF-8.

        Raises:
            EnvironmentClosedError: when the environment has been closed.
            InvalidStreamArgumentError: when it is not a path, or the charset is not UTF-8.
            pyspark.errors.AnalysisException: when there is no such file.

        Source: PyFlink, `StreamExecutionEnvironment.read_text_file`.

        Example:
            >>> with open(path, "w") as file:
            ...     _ = file.write("to be\\nor not\\n")
            >>> list(env.read_text_file(path).execute_and_collect())
            ['to be', 'or not']
        """
        path = check_text("read_text_file()", str(file_path))
        if str(charset_name).upper() not in ("UTF-8", "UTF8"):
            raise InvalidStreamArgumentError("read_text_file()", charset_name, "UTF-8")
        return self._stream_of("read_text_file()", stream_sources.TextFileSource(path), "Text File")

    def from_data_stream(self, data_stream: DataStream, schema: StructType | str) -> Table:
        """Creates a table of a stream's records.

        Args:
            data_stream: a stream of this environment. Its records are tuples or lists, by
                position; Rows, dicts or objects with fields, by name; or, for a single column,
                its values.
            schema: the columns, as Spark takes them: `"word string, n long"` or a StructType.

        Raises:
            EnvironmentClosedError: when the environment has been closed.
            InvalidStreamArgumentError: when it is not a stream of this environment or not a schema.
            pyspark.errors.ParseException: when Spark can't read the schema.

        Source: PyFlink, `StreamTableEnvironment.from_data_stream`.

        Example:
            >>> words = env.from_collection([("be", 2), ("or", 1)])
            >>> env.from_data_stream(words, "word string, n long").where("n > 1").collect()
            [Row(word='be', n=2)]
        """
        program = self._stream_program
        program.check_open("from_data_stream()")
        if not isinstance(data_stream, DataStream):
            raise InvalidStreamArgumentError("from_data_stream()", data_stream, "a DataStream")
        check_same_environment("from_data_stream()", data_stream, data_stream._context, program)
        if not isinstance(schema, str | StructType):
            raise InvalidStreamArgumentError(
                "from_data_stream()", schema, 'columns, such as "word string, n long"'
            )
        return program.to_table(data_stream, schema)

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Runs all the sinks that were added to streams, as one job.

        The sinks are removed afterwards, even if the job fails.

        Args:
            job_name: the name of the job.

        Returns:
            The result of the job, also available as `last_job_result`.

        Raises:
            EnvironmentClosedError: when the environment has been closed.
            NoSinksError: when no sinks were added since the last call.

        Source: PyFlink, `StreamExecutionEnvironment.execute`.

        Example:
            >>> _ = env.from_collection(["hello"]).print()
            >>> result = env.execute("greet")
            hello
            >>> result.name
            'greet'
        """
        name = "execute" if job_name is None else check_text("execute()", job_name)
        return self._stream_program.execute(name)

    def get_execution_plan(self) -> ExecutionPlan:
        """Returns the plan of the next `execute`, as text or, in a notebook, drawn. Runs nothing.

        Raises:
            EnvironmentClosedError: when the environment has been closed.
            NoSinksError: when no sinks were added since the last `execute`.

        Source: FLIP-205, "Translation Process".

        Example:
            >>> _ = env.from_collection([1]).map(str).print()
            >>> print(env.get_execution_plan())
            Transformations
            ...
            JobGraph
            [1] Source: Collection -> Map -> Sink: Print to Std. Out (parallelism 2)
        """
        return self._stream_program.execution_plan()

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the default parallelism of streams.

        Args:
            parallelism: at least 1; if never set, Spark's default parallelism.

        Returns:
            This environment.

        Raises:
            InvalidStreamArgumentError: when it is not an integer >= 1.

        Source: PyFlink, `StreamExecutionEnvironment.set_parallelism`.

        Example:
            >>> env.set_parallelism(2).get_parallelism()
            2
        """
        check_count("set_parallelism()", parallelism)
        self._stream_program.parallelism = parallelism
        return self

    def get_parallelism(self) -> int:
        """The default parallelism of streams.

        Source: PyFlink, `StreamExecutionEnvironment.get_parallelism`.

        Example:
            >>> env.get_parallelism() >= 1
            True
        """
        return self._stream_program.parallelism

    # -- the side that tables see, see holdfast.api.context.TableContext --------------------------

    def to_data_stream(self, table: Table) -> DataStream:
        """The rows of a table as a stream, see `Table.to_data_stream`."""
        return self._stream_of(
            "to_data_stream()", stream_sources.TableSource(self.plain(table)), "Table"
        )

    def _stream_of(self, method: str, source: object, name: str) -> DataStream:
        self._stream_program.check_open(method)
        return DataStream(SourceTransformation(source, f"Source: {name}"), self._stream_program)

"""Compiles the job graph of streams to DataFrames: each vertex a pass, shuffles by Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from holdfast.functions.output_tag import OutputTag
from holdfast.graph.stream.operators import Aggregate, Operator, Reduce
from holdfast.graph.stream.partitioner import Forward, HashByKey
from holdfast.graph.stream.stream_graph import CacheNode, CacheReaderSource, SourceRead
from holdfast.graph.stream.stream_job_graph import StreamJobEdge, StreamJobGraph, StreamJobVertex
from holdfast.graph.stream.transformations import CacheTransformation
from holdfast.spark.streams.placement import placed
from holdfast.spark.streams.sealed_formats import SharedInput
from holdfast.spark.streams.sink_formats import task_index
from holdfast.spark.streams.stream_sources import frame_of, is_read_cheaply
from holdfast.streaming.batches import MAIN_CHANNEL
from holdfast.streaming.chain import NamedOperator, Pass
from holdfast.streaming.inputs import BatchInput, InputFormat, KeyedInput, SealedInput
from holdfast.streaming.outputs import BatchOutput, KeyedOutput, OutputFormat, RebalancedOutput
from holdfast.streaming.sealing import Seal

__all__ = ["BATCH_COLUMNS", "Flow", "KeptRead", "SealedFrame", "StreamCompiler"]

# Not as text, which Spark would have to parse for each pass.
BATCH_COLUMNS = StructType(
    [
        StructField("channel", IntegerType()),
        StructField("target", IntegerType()),
        StructField("records", IntegerType()),
        StructField("batch", BinaryType()),
    ]
)
"""The columns of `holdfast.streaming.batches.BATCH_SCHEMA`, as Spark calls them."""

_TARGET = "target"


@dataclass(frozen=True, eq=False)
class SealedFrame:
    """A DataFrame of sealed batches.

    Attributes:
        frame: the batches.
        seal: what they are sealed with.
    """

    frame: DataFrame
    seal: Seal


@dataclass(frozen=True, eq=False)
class Flow:
    """A pass that has everything but an output.

    Attributes:
        frame: what it reads.
        input: makes records of it.
        operators: what happens to them.
        name: of what comes in, where nothing happens to it.
        parallelism: in how many subtasks.
    """

    frame: DataFrame
    input: InputFormat
    operators: tuple[NamedOperator, ...]
    name: str
    parallelism: int

    def run(self, output: OutputFormat) -> Pass:
        """The pass.

        Args:
            output: what becomes of the records.
        """
        return Pass(self.input, self.operators, output, self.name, self.parallelism, task_index)

    def to(self, output: OutputFormat, columns: StructType) -> DataFrame:
        """The DataFrame that comes out of the pass.

        Args:
            output: what becomes of the records.
            columns: its columns.
        """
        return _classic(self.frame.mapInArrow(self.run(output), columns))


@dataclass(frozen=True, eq=False)
class KeptRead:
    """A pass that reads all of a kept stream, whatever is taken of the job's result.

    Attributes:
        frame: the sealed batches.
        run: reads them, and makes batches that Spark shuffles.
    """

    frame: DataFrame
    run: Pass


class StreamCompiler:
    """Compiles one job graph.

    Args:
        spark: the session.
        graph: the job.
        kept: the sealed batches of a cached stream.
        share: makes one DataFrame of a flow that several read, for the length of the job; given
            the flow and the side outputs that are read.

    Attributes:
        kept_reads: the passes from kept streams to shuffles; it fills as flows are compiled.
    """

    def __init__(
        self,
        spark: SparkSession,
        graph: StreamJobGraph,
        kept: Callable[[CacheTransformation], SealedFrame],
        share: Callable[[Flow, tuple[OutputTag, ...]], SealedFrame],
        *,
        blocking: bool = False,
    ) -> None:
        self._spark = spark
        self._graph = graph
        self._kept = kept
        self._share = share
        self._blocking = blocking
        self.kept_reads: list[KeptRead] = []
        self._shared: dict[int, tuple[SealedFrame, tuple[OutputTag, ...]]] = {}
        self._needed = self._needed_edges()

    def flow(self, vertex: StreamJobVertex) -> Flow:
        """The pass of a vertex: what it reads, and all that its operators do.

        Args:
            vertex: one of the graph's.

        Raises:
            InvalidStreamArgumentError: when a source is none.
            pyspark.errors.AnalysisException: when a source is not there.
        """
        frame, input = self._incoming(vertex)
        operators = tuple(
            NamedOperator(node.name, node.what)
            for node in vertex.nodes
            if isinstance(node.what, Operator)
        )
        return Flow(frame, input, operators, vertex.head.name, vertex.parallelism)

    def _needed_edges(self) -> dict[int, list[StreamJobEdge]]:
        """For each vertex the edges along which somebody gets records in this job."""
        needed: dict[int, list[StreamJobEdge]] = {}
        fed: set[int] = set()
        for vertex in reversed(self._graph.vertices):
            edges = [edge for edge in self._graph.out_edges(vertex.id) if edge.target in fed]
            needed[vertex.id] = edges
            # What is before a cache is the cache's own matter.
            is_wanted = bool(edges) or not self._graph.out_edges(vertex.id)
            if is_wanted and not isinstance(vertex.head.what, CacheNode):
                fed.add(vertex.id)
        return needed

    def _incoming(self, vertex: StreamJobVertex) -> tuple[DataFrame, InputFormat]:
        match vertex.head.what:
            case SourceRead(source):
                read = frame_of(self._spark, source, vertex.head.name, vertex.parallelism)
                return read.frame, read.input
            case CacheNode(transformation) | CacheReaderSource(transformation, _):
                kept = self._kept(transformation)
                return kept.frame, SealedInput(kept.seal)
        edges = self._graph.in_edges(vertex.id)
        if len(edges) == 1 and isinstance(edges[0].partitioner, Forward):
            return self._staying(edges[0])
        moving = [edge for edge in edges if not isinstance(edge.partitioner, Forward)]
        staying = [edge for edge in edges if isinstance(edge.partitioner, Forward)]
        frames: list[DataFrame] = []
        if moving:
            united = _union([self._split(edge, vertex) for edge in moving])
            frames.append(_classic(placed(united, vertex.parallelism, _TARGET)))
        frames += [self._batches(edge) for edge in staying]
        by_key = any(isinstance(edge.partitioner, HashByKey) for edge in moving)
        return _union(frames), KeyedInput() if by_key else BatchInput()

    def _batches(self, edge: StreamJobEdge) -> DataFrame:
        """Batches of the main channel, whichever output they are of."""
        flow = self._outgoing(edge)
        if edge.tag is None or not flow.operators:
            return flow.to(BatchOutput(), BATCH_COLUMNS)
        frame = flow.to(BatchOutput((edge.tag,), main=False), BATCH_COLUMNS)
        main = F.lit(MAIN_CHANNEL).cast("int").alias("channel")
        return _classic(frame.select(main, _TARGET, "records", "batch"))

    def _staying(self, edge: StreamJobEdge) -> tuple[DataFrame, InputFormat]:
        """Records that stay in their subtask, but come from a vertex of its own."""
        flow = self._outgoing(edge)
        if not flow.operators:
            return flow.frame, flow.input
        tags = () if edge.tag is None else (edge.tag,)
        output = BatchOutput(tags, main=edge.tag is None)
        return flow.to(output, BATCH_COLUMNS), BatchInput(MAIN_CHANNEL + len(tags))

    def _split(self, edge: StreamJobEdge, target: StreamJobVertex) -> DataFrame:
        """Batches that each have one target."""
        flow = self._outgoing(edge)
        if flow.operators and edge.tag is not None:
            frame, input = self._staying(edge)
            flow = Flow(frame, input, (), flow.name, flow.parallelism)
        output: OutputFormat = RebalancedOutput(target.parallelism)
        if isinstance(edge.partitioner, HashByKey):
            combine = target.head.what
            output = KeyedOutput(
                target.head.name,
                edge.partitioner.key_selector,
                target.parallelism,
                combine if isinstance(combine, Reduce | Aggregate) else None,
            )
        if isinstance(flow.input, SealedInput):
            self.kept_reads.append(KeptRead(flow.frame, flow.run(output)))
        return flow.to(output, BATCH_COLUMNS)

    def _outgoing(self, edge: StreamJobEdge) -> Flow:
        """What comes along an edge: a flow of its own, or one that only reads what others share."""
        source = self._graph.vertex(edge.source)
        needed = self._needed[source.id]
        if not _is_work(source) or not (len(needed) > 1 or self._blocks(needed)):
            return self.flow(source)
        if source.id not in self._shared:
            tags = tuple(
                dict.fromkeys(each.tag for each in self._needed[source.id] if each.tag is not None)
            )
            self._shared[source.id] = self._share(self.flow(source), tags), tags
        shared, tags = self._shared[source.id]
        channel = MAIN_CHANNEL if edge.tag is None else tags.index(edge.tag) + 1
        input = SharedInput(shared.seal, channel)
        return Flow(shared.frame, input, (), source.tail.name, source.parallelism)

    def _blocks(self, edges: list[StreamJobEdge]) -> bool:
        """Whether somebody waits for all records of a vertex before any is read."""
        return self._blocking and any(not isinstance(edge.partitioner, Forward) for edge in edges)


def _is_work(vertex: StreamJobVertex) -> bool:
    """Whether it takes more than reading a kept stream, or a cheap source, to get its records."""
    if len(vertex.nodes) > 1:
        return True
    match vertex.head.what:
        case CacheNode() | CacheReaderSource():
            return False
        case SourceRead(source):
            return not is_read_cheaply(source)
    return True


def _union(frames: list[DataFrame]) -> DataFrame:
    united = frames[0]
    for frame in frames[1:]:
        united = _classic(united.unionAll(frame))
    return united


def _classic(frame: Any) -> DataFrame:
    assert isinstance(frame, DataFrame)
    return frame

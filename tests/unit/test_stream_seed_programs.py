"""FLIP-205's own two programs, "Create Cache" and "Use Cache", stage by stage."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent

import pytest

from holdfast.graph.diagram.diagram_text import diagram_text
from holdfast.graph.job_graph import ResultPartitionType
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.operators import Map, Reduce
from holdfast.graph.stream.partitioner import Forward, HashByKey
from holdfast.graph.stream.stream_graph import (
    CacheNode,
    CacheReaderSource,
    ChainingStrategy,
    SinkWrite,
    SourceRead,
    StreamGraph,
)
from holdfast.graph.stream.stream_graph_generator import StreamGraphGenerator
from holdfast.graph.stream.stream_job_graph import StreamJobGraph
from holdfast.graph.stream.stream_job_graph_generator import StreamJobGraphGenerator
from holdfast.graph.stream.transformations import (
    CacheTransformation,
    OneInputTransformation,
    PartitionTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
)
from holdfast.graph.stream.transformations_diagram import transformations_diagram
from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.partitions import ResultPartitionDescriptor

SOURCE_ID = IntermediateDataSetID("5a" * 32)
MAP_ID = IntermediateDataSetID("3b" * 32)
BLOCKING, PIPELINED = ResultPartitionType.BLOCKING_PERSISTENT, ResultPartitionType.PIPELINED
HEAD, ALWAYS = ChainingStrategy.HEAD, ChainingStrategy.ALWAYS


def get_key(record: tuple[int, int]) -> int:
    return record[0]


def add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0], one[1] + other[1]


def descriptor(
    dataset_id: IntermediateDataSetID, parallelism: int
) -> IntermediateDataSetDescriptor:
    return IntermediateDataSetDescriptor(
        dataset_id,
        parallelism,
        tuple(
            ResultPartitionDescriptor(dataset_id, index, f"/kept/{index}", 100, 10)
            for index in range(parallelism)
        ),
    )


def reduced(stream: Transformation) -> SinkTransformation:
    """`stream.key_by(...).reduce(...).print()`"""
    keyed = PartitionTransformation(stream, HashByKey(get_key))
    return SinkTransformation(
        OneInputTransformation(keyed, Reduce(get_key, add)), print, "Sink: Print"
    )


@dataclass
class Program:
    cached_src: CacheTransformation = field(
        default_factory=lambda: CacheTransformation(SourceTransformation(range(9), "Source: any"))
    )
    cached_map: CacheTransformation = field(init=False)

    def __post_init__(self) -> None:
        self.cached_map = CacheTransformation(OneInputTransformation(self.cached_src, Map(str)))

    def create_cache(self) -> list[SinkTransformation]:
        return [reduced(self.cached_map)]

    def use_cache(self) -> list[SinkTransformation]:
        return [SinkTransformation(self.cached_src, print, "Sink: Print"), reduced(self.cached_map)]


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.fixture
def created(program: Program) -> Program:
    """After the first job, which ran with another parallelism than what comes now."""
    program.cached_src.descriptor = descriptor(SOURCE_ID, 3)
    program.cached_map.descriptor = descriptor(MAP_ID, 3)
    return program


def stream_graph(sinks: list[SinkTransformation], parallelism: int = 2) -> StreamGraph:
    return StreamGraphGenerator(parallelism, sinks).generate()


def job_graph(sinks: list[SinkTransformation], parallelism: int = 2) -> StreamJobGraph:
    return StreamJobGraphGenerator(stream_graph(sinks, parallelism)).generate()


def names(graph: StreamJobGraph) -> list[str]:
    return [vertex.name for vertex in graph.vertices]


class TestCreateCache:
    def test_transformations(self, program: Program) -> None:
        assert program.cached_map.descriptor is None
        assert diagram_text(transformations_diagram(program.create_cache())) == dedent(
            """\
            Transformations
            [1] Source: any (SourceTransformation)
            [2] Cache: any (CacheTransformation, not created)
                <- [1]
            [3] Map (OneInputTransformation)
                <- [2]
            [4] Cache: Map (CacheTransformation, not created)
                <- [3]
            [5] Partition (PartitionTransformation, HASH)
                <- [4]
            [6] Keyed Reduce (OneInputTransformation)
                <- [5]
            [7] Sink: Print (SinkTransformation)
                <- [6]"""
        )

    def test_stream_graph(self, program: Program) -> None:
        graph = stream_graph(program.create_cache())
        assert graph.text == dedent(
            """\
            StreamGraph
            [1] Source: any (parallelism 2, HEAD)
            [2] Cache: any (cache to create, parallelism 2, HEAD)
                <- [1] FORWARD
            [3] Map (parallelism 2, ALWAYS)
                <- [2] FORWARD
            [4] Cache: Map (cache to create, parallelism 2, HEAD)
                <- [3] FORWARD
            [5] Keyed Reduce (parallelism 2, ALWAYS)
                <- [4] HASH
            [6] Sink: Print (parallelism 2, ALWAYS)
                <- [5] FORWARD"""
        )
        source, cache_of_source, mapped, cache_of_map, reducing, sink = graph.nodes
        assert source.what == SourceRead(range(9))
        assert cache_of_source.what == CacheNode(program.cached_src)
        assert mapped.what == Map(str)
        assert cache_of_map.what == CacheNode(program.cached_map)
        assert reducing.what == Reduce(get_key, add)
        assert sink.what == SinkWrite(print)
        assert [node.chaining_strategy for node in graph.nodes] == [
            *(HEAD, HEAD, ALWAYS, HEAD, ALWAYS, ALWAYS)
        ]
        assert [edge.partitioner for edge in graph.edges] == [
            *(Forward(), Forward(), Forward(), HashByKey(get_key), Forward())
        ]

    def test_job_graph(self, program: Program) -> None:
        program.cached_src.dataset_id = SOURCE_ID
        graph = job_graph(program.create_cache())
        assert graph.text == dedent(
            """\
            JobGraph
            [1] Source: any (parallelism 2)
            [2] Cache: any -> Map (parallelism 2)
                <- [1] FORWARD, BLOCKING_PERSISTENT, dataset 5a5a5a5a5a5a
            [3] Cache: Map (parallelism 2)
                <- [2] FORWARD, BLOCKING_PERSISTENT
            [4] Keyed Reduce -> Sink: Print (parallelism 2)
                <- [3] HASH, PIPELINED"""
        )
        assert [edge.result_type for edge in graph.edges] == [BLOCKING, BLOCKING, PIPELINED]
        assert [edge.dataset_id for edge in graph.edges] == [SOURCE_ID, None, None]
        assert [vertex.descriptor for vertex in graph.vertices] == [None] * 4

    def test_a_cache_node_has_its_input_s_parallelism(self, program: Program) -> None:
        (mapped,) = program.cached_map.inputs
        mapped.parallelism = 5
        graph = stream_graph(program.create_cache())
        assert [node.parallelism for node in graph.nodes] == [2, 2, 5, 5, 2, 2]


class TestUseCache:
    def test_transformations(self, created: Program) -> None:
        created.cached_map.dataset_id = MAP_ID
        text = diagram_text(transformations_diagram(created.use_cache()))
        assert "Cache: any (CacheTransformation, created)" in text
        assert "Cache: Map (CacheTransformation, created, dataset 3b3b3b3b3b3b)" in text

    def test_stream_graph(self, created: Program) -> None:
        graph = stream_graph(created.use_cache())
        assert graph.text == dedent(
            """\
            StreamGraph
            [1] Cache: any (reads dataset 5a5a5a5a5a5a, parallelism 3, HEAD)
            [2] Sink: Print (parallelism 2, ALWAYS)
                <- [1] REBALANCE
            [3] Cache: Map (reads dataset 3b3b3b3b3b3b, parallelism 3, HEAD)
            [4] Keyed Reduce (parallelism 2, ALWAYS)
                <- [3] HASH
            [5] Sink: Print (parallelism 2, ALWAYS)
                <- [4] FORWARD"""
        )
        readers = [node.what for node in graph.nodes if isinstance(node.what, CacheReaderSource)]
        assert readers == [
            CacheReaderSource(created.cached_src, descriptor(SOURCE_ID, 3)),
            CacheReaderSource(created.cached_map, descriptor(MAP_ID, 3)),
        ]

    def test_job_graph(self, created: Program) -> None:
        graph = job_graph(created.use_cache())
        assert graph.text == dedent(
            """\
            JobGraph
            [1] Cache: any (reads dataset 5a5a5a5a5a5a, parallelism 3)
            [2] Sink: Print (parallelism 2)
                <- [1] REBALANCE, PIPELINED
            [3] Cache: Map (reads dataset 3b3b3b3b3b3b, parallelism 3)
            [4] Keyed Reduce -> Sink: Print (parallelism 2)
                <- [3] HASH, PIPELINED"""
        )
        assert [vertex.descriptor for vertex in graph.vertices] == [
            *(descriptor(SOURCE_ID, 3), None, descriptor(MAP_ID, 3), None)
        ]

    def test_a_consumer_of_the_same_parallelism_is_chained_to_the_reader(
        self, created: Program
    ) -> None:
        assert names(job_graph(created.use_cache(), parallelism=3)) == [
            *("Cache: any -> Sink: Print", "Cache: Map", "Keyed Reduce -> Sink: Print")
        ]

    def test_only_the_later_cache_is_needed(self, created: Program) -> None:
        assert names(job_graph(created.create_cache())) == [
            *("Cache: Map", "Keyed Reduce -> Sink: Print")
        ]

    def test_the_earlier_cache_is_gone_but_not_needed(self, created: Program) -> None:
        created.cached_src.descriptor = None
        assert names(job_graph(created.create_cache())) == [
            *("Cache: Map", "Keyed Reduce -> Sink: Print")
        ]

    def test_the_earlier_cache_is_gone_and_needed_by_another_path(self, created: Program) -> None:
        created.cached_src.descriptor = None
        graph = job_graph(created.use_cache())
        assert names(graph) == [
            "Source: any",
            "Cache: any -> Sink: Print",
            "Cache: Map",
            "Keyed Reduce -> Sink: Print",
        ]
        assert [edge.result_type for edge in graph.edges] == [BLOCKING, PIPELINED]

    def test_the_later_cache_is_gone_and_created_from_the_earlier(self, created: Program) -> None:
        created.cached_map.descriptor = None
        graph = job_graph(created.create_cache(), parallelism=3)
        assert names(graph) == ["Cache: any -> Map", "Cache: Map", "Keyed Reduce -> Sink: Print"]
        assert graph.vertices[0].descriptor == descriptor(SOURCE_ID, 3)
        assert [edge.result_type for edge in graph.edges] == [BLOCKING, PIPELINED]

    def test_both_are_gone(self, created: Program) -> None:
        created.cached_src.descriptor = created.cached_map.descriptor = None
        assert job_graph(created.use_cache()).text == job_graph(Program().use_cache()).text

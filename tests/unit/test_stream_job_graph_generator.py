"""Operators are chained into vertices."""

from __future__ import annotations

from typing import Any

from holdfast.functions.output_tag import OutputTag
from holdfast.graph.job_graph import ResultPartitionType
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.operators import Map, Process, Reduce
from holdfast.graph.stream.partitioner import HashByKey, Rebalance
from holdfast.graph.stream.stream_graph_generator import StreamGraphGenerator
from holdfast.graph.stream.stream_job_graph import StreamJobGraph
from holdfast.graph.stream.stream_job_graph_generator import StreamJobGraphGenerator
from holdfast.graph.stream.transformations import (
    CacheTransformation,
    OneInputTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
    UnionTransformation,
)
from holdfast.ids import IntermediateDataSetID

TAG = OutputTag("late")


def key(record: Any) -> Any:
    return record


def source(name: str = "source") -> SourceTransformation:
    return SourceTransformation(range(3), name)


def mapped(
    input: Transformation, name: str = "map", parallelism: int | None = None
) -> OneInputTransformation:
    return OneInputTransformation(input, Map(str), name, parallelism)


def process(input: Transformation) -> OneInputTransformation:
    return OneInputTransformation(input, Process(print), "process")


def sink(input: Transformation, name: str = "sink") -> SinkTransformation:
    return SinkTransformation(input, print, name)


def generate(*roots: Transformation) -> StreamJobGraph:
    return StreamJobGraphGenerator(StreamGraphGenerator(2, roots).generate()).generate()


def names(graph: StreamJobGraph) -> list[str]:
    return [vertex.name for vertex in graph.vertices]


def kept(graph: StreamJobGraph) -> list[tuple[str, str]]:
    return [
        (graph.vertex(edge.source).name, graph.vertex(edge.target).name)
        for edge in graph.edges
        if edge.result_type is ResultPartitionType.BLOCKING_PERSISTENT
    ]


def test_what_nothing_moves_between_is_one_vertex() -> None:
    graph = generate(sink(mapped(mapped(source(), "a"), "b")))
    assert names(graph) == ["source -> a -> b -> sink"]
    assert graph.edges == ()
    assert graph.vertices[0].head.name == "source"
    assert graph.vertices[0].tail.name == "sink"


def test_another_parallelism_begins_a_vertex() -> None:
    graph = generate(sink(mapped(mapped(source(), "a"), "b", 3)))
    assert names(graph) == ["source -> a", "b", "sink"]
    assert [vertex.parallelism for vertex in graph.vertices] == [2, 3, 2]


def test_a_key_or_a_rebalance_begins_a_vertex_at_any_parallelism() -> None:
    for parallelism in [1, 2]:
        for partitioner in [HashByKey(key), Rebalance()]:
            start = SourceTransformation(range(3), "source", parallelism)
            after = mapped(PartitionTransformation(start, partitioner), "after", parallelism)
            assert names(generate(after)) == ["source", "after"]


def test_a_union_begins_a_vertex() -> None:
    union = UnionTransformation((mapped(source("a")), source("b")))
    graph = generate(sink(mapped(union, "after")))
    assert names(graph) == ["a -> map", "b", "after -> sink"]
    assert [edge.source for edge in graph.in_edges(3)] == [1, 2]


def test_a_union_with_itself_has_two_edges() -> None:
    numbers = source()
    graph = generate(sink(UnionTransformation((numbers, numbers))))
    assert names(graph) == ["source", "sink"]
    assert len(graph.edges) == 2


def test_a_union_of_one_is_no_union() -> None:
    assert names(generate(sink(UnionTransformation((source(),))))) == ["source -> sink"]


def test_several_consumers_end_a_vertex() -> None:
    top = mapped(source(), "top")
    graph = generate(sink(mapped(top, "left"), "a"), sink(top, "b"))
    assert names(graph) == ["source -> top", "left -> a", "b"]
    assert [(edge.source, edge.target) for edge in graph.out_edges(1)] == [(1, 2), (1, 3)]


def test_a_diamond() -> None:
    top = mapped(source(), "top")
    union = UnionTransformation((mapped(top, "left"), mapped(top, "right")))
    graph = generate(sink(union))
    assert names(graph) == ["source -> top", "left", "right", "sink"]


def test_a_side_output_begins_a_vertex() -> None:
    main = process(source())
    side = SideOutputTransformation(main, TAG)
    graph = generate(sink(side, "only side"))
    assert names(graph) == ["source -> process", "only side"]
    assert graph.edges[0].tag == TAG
    assert names(generate(sink(main, "main"), sink(side, "side"))) == [
        *("source -> process", "main", "side")
    ]


def test_a_cached_side_output_is_kept_along_its_edge() -> None:
    main = process(source())
    cached = CacheTransformation(SideOutputTransformation(main, TAG), "cache")
    graph = generate(sink(main, "main"), sink(cached))
    assert names(graph) == ["source -> process", "main", "cache -> sink"]
    assert kept(graph) == [("source -> process", "cache -> sink")]
    assert graph.in_edges(3)[0].tag == TAG


def test_consumers_of_a_cache_read_what_is_kept() -> None:
    cached = CacheTransformation(mapped(source()), "cache")
    cached.dataset_id = IntermediateDataSetID("ab" * 32)
    by_key = OneInputTransformation(
        PartitionTransformation(cached, HashByKey(key)), Reduce(key, max), "by key"
    )
    graph = generate(sink(by_key, "a"), sink(cached, "b"))
    assert names(graph) == ["source -> map", "cache", "by key -> a", "b"]
    assert kept(graph) == [("source -> map", "cache")]
    assert graph.edges[0].dataset_id == cached.dataset_id
    assert all(edge.dataset_id is None for edge in graph.edges[1:])


def test_the_producer_s_other_consumers_don_t_chain() -> None:
    producer = mapped(source())
    graph = generate(
        sink(producer, "direct"), sink(CacheTransformation(producer, "cache"), "later")
    )
    assert names(graph) == ["source -> map", "direct", "cache -> later"]
    assert kept(graph) == [("source -> map", "cache -> later")]


def test_nested_caches_are_kept_one_after_the_other() -> None:
    inner = CacheTransformation(source(), "inner")
    middle = CacheTransformation(mapped(inner, "m"), "middle")
    outer = CacheTransformation(mapped(middle, "o"), "outer")
    assert kept(generate(sink(outer))) == [
        ("source", "inner -> m"),
        ("inner -> m", "middle -> o"),
        ("middle -> o", "outer -> sink"),
    ]


def test_a_reader_hands_its_descriptor_to_its_vertex() -> None:
    cached = CacheTransformation(source(), "cache")
    cached.descriptor = IntermediateDataSetDescriptor(IntermediateDataSetID("ab" * 32), 2, ())
    graph = generate(sink(mapped(cached)))
    assert names(graph) == ["cache -> map -> sink"]
    assert graph.vertices[0].descriptor is cached.descriptor

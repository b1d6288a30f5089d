"""Transformations become nodes and edges."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import InvalidTransformationError, NoSinksError
from holdfast.functions.output_tag import OutputTag
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.operators import Map, Process, Reduce
from holdfast.graph.stream.partitioner import Forward, HashByKey, Rebalance
from holdfast.graph.stream.stream_graph import CacheNode, ChainingStrategy, StreamGraph
from holdfast.graph.stream.stream_graph_generator import StreamGraphGenerator
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


def source(name: str = "source", parallelism: int | None = None) -> SourceTransformation:
    return SourceTransformation(range(3), name, parallelism)


def mapped(
    input: Transformation, name: str = "map", parallelism: int | None = None
) -> OneInputTransformation:
    return OneInputTransformation(input, Map(str), name, parallelism)


def process(input: Transformation) -> OneInputTransformation:
    return OneInputTransformation(input, Process(print), "process")


def sink(input: Transformation, name: str = "sink") -> SinkTransformation:
    return SinkTransformation(input, print, name)


def created(
    input: Transformation, parallelism: int = 2, name: str | None = None
) -> CacheTransformation:
    cached = CacheTransformation(input, name)
    cached.descriptor = IntermediateDataSetDescriptor(
        IntermediateDataSetID.random(), parallelism, ()
    )
    return cached


def generate(*roots: Transformation) -> StreamGraph:
    return StreamGraphGenerator(2, roots).generate()


def lines(graph: StreamGraph) -> list[str]:
    """Each edge by the names of its ends, and each node that no edge has."""
    name = {node.id: node.name for node in graph.nodes}
    found = [
        f"{name[edge.source]} -{edge.partitioner.label}-> {name[edge.target]}"
        + (f" [{edge.tag.tag_id}]" if edge.tag else "")
        for edge in graph.edges
    ]
    ends = {end for edge in graph.edges for end in (edge.source, edge.target)}
    return [*found, *(node.name for node in graph.nodes if node.id not in ends)]


def test_a_union_s_consumer_takes_from_all_inputs() -> None:
    left, right = source("left"), mapped(source("right"))
    union = UnionTransformation((left, right))
    assert lines(generate(sink(union, "a"), sink(union, "b"))) == [
        "right -FORWARD-> map",
        "left -FORWARD-> a",
        "map -FORWARD-> a",
        "left -FORWARD-> b",
        "map -FORWARD-> b",
    ]


def test_a_union_with_itself_has_every_record_twice() -> None:
    numbers = source()
    assert lines(generate(sink(UnionTransformation((numbers, numbers))))) == [
        *("source -FORWARD-> sink", "source -FORWARD-> sink")
    ]


def test_unions_of_unions() -> None:
    a, b, c = source("a"), source("b"), source("c")
    union = UnionTransformation((UnionTransformation((a, b)), c, UnionTransformation((b,))))
    assert lines(generate(sink(union))) == [
        *("a -FORWARD-> sink", "b -FORWARD-> sink", "c -FORWARD-> sink", "b -FORWARD-> sink")
    ]


def test_partitions_and_side_outputs_go_through_unions() -> None:
    main = process(source())
    side = SideOutputTransformation(main, TAG)
    union = UnionTransformation((main, PartitionTransformation(side, Rebalance())))
    keyed = PartitionTransformation(union, HashByKey(key))
    reduced = OneInputTransformation(keyed, Reduce(key, max), "reduce")
    assert lines(generate(sink(union, "all"), sink(reduced))) == [
        "source -FORWARD-> process",
        "process -FORWARD-> all",
        "process -REBALANCE-> all [late]",
        "process -HASH-> reduce",
        "process -HASH-> reduce [late]",
        "reduce -FORWARD-> sink",
    ]


def test_the_last_partitioning_counts() -> None:
    hashed = PartitionTransformation(source(), HashByKey(key))
    rebalanced = PartitionTransformation(hashed, Rebalance())
    assert lines(generate(sink(rebalanced))) == ["source -REBALANCE-> sink"]


def test_another_parallelism_rebalances() -> None:
    graph = generate(sink(mapped(mapped(source(parallelism=3), "a", 3), "b", 4)))
    assert [node.parallelism for node in graph.nodes] == [3, 3, 4, 2]
    assert lines(graph) == [*("source -FORWARD-> a", "a -REBALANCE-> b", "b -REBALANCE-> sink")]


def test_a_partitioning_that_was_asked_for_stays() -> None:
    for partitioner in [Rebalance(), HashByKey(key)]:
        for parallelism in [2, 3]:
            partitioned = PartitionTransformation(source(parallelism=parallelism), partitioner)
            assert generate(sink(partitioned)).edges[0].partitioner == partitioner


def test_forwarding_needs_the_same_parallelism() -> None:
    forwarded = PartitionTransformation(source(parallelism=3), Forward())
    with pytest.raises(InvalidTransformationError, match="has parallelism 2.*which has 3"):
        generate(sink(forwarded))
    assert generate(mapped(forwarded, parallelism=3)).edges[0].partitioner == Forward()


def test_forwarding_from_a_cache_of_another_parallelism_doesn_t_fail_the_job() -> None:
    forwarded = PartitionTransformation(created(source(), 3), Forward())
    assert generate(sink(forwarded)).edges[0].partitioner == Rebalance()


def test_a_diamond_has_its_top_once() -> None:
    top = mapped(source(), "top")
    union = UnionTransformation((mapped(top, "left"), mapped(top, "right")))
    assert lines(generate(sink(union))) == [
        "source -FORWARD-> top",
        "top -FORWARD-> left",
        "top -FORWARD-> right",
        "left -FORWARD-> sink",
        "right -FORWARD-> sink",
    ]


def test_nobody_runs_what_no_sink_needs() -> None:
    numbers = source()
    mapped(numbers)
    CacheTransformation(numbers)
    assert lines(generate(sink(numbers))) == ["source -FORWARD-> sink"]


def test_a_cache_that_is_asked_for_by_itself_is_created() -> None:
    graph = generate(CacheTransformation(source()))
    assert lines(graph) == ["source -FORWARD-> Cache: source"]


def test_a_cached_side_output() -> None:
    main = process(source(parallelism=3))
    main.parallelism = 3
    cached = CacheTransformation(SideOutputTransformation(main, TAG), "cache")
    graph = generate(sink(main, "main"), sink(cached))
    assert lines(graph) == [
        "source -FORWARD-> process",
        "process -REBALANCE-> main",
        "process -FORWARD-> cache [late]",
        "cache -REBALANCE-> sink",
    ]
    cache = graph.node(4)
    assert cache.what == CacheNode(cached)
    assert cache.parallelism == 3
    assert cache.chaining_strategy is ChainingStrategy.HEAD


def test_main_and_side_output_are_cached_each_by_itself() -> None:
    main = process(source())
    side = SideOutputTransformation(main, TAG)
    assert lines(
        generate(
            sink(CacheTransformation(main, "m"), "a"), sink(CacheTransformation(side, "s"), "b")
        )
    ) == [
        "source -FORWARD-> process",
        "process -FORWARD-> m",
        "m -FORWARD-> a",
        "process -FORWARD-> s [late]",
        "s -FORWARD-> b",
    ]


def test_a_side_output_whose_cache_exists_is_read_while_the_main_output_is_computed() -> None:
    main = process(source())
    side = created(SideOutputTransformation(main, TAG), name="s")
    assert lines(generate(sink(side, "a"))) == ["s -FORWARD-> a"]
    assert lines(generate(sink(main, "m"), sink(side, "a"))) == [
        *("source -FORWARD-> process", "process -FORWARD-> m", "s -FORWARD-> a")
    ]


def test_a_cached_union_has_a_physical_input_of_its_own() -> None:
    union = UnionTransformation((source("a", 3), source("b", 3)), "both")
    graph = generate(sink(CacheTransformation(union, "cache")))
    assert lines(graph) == [
        "a -FORWARD-> both",
        "b -FORWARD-> both",
        "both -FORWARD-> cache",
        "cache -REBALANCE-> sink",
    ]
    assert [node.parallelism for node in graph.nodes] == [3, 3, 3, 3, 2]


def test_a_cached_union_of_different_parallelisms_has_the_default_one() -> None:
    union = UnionTransformation((source("a", 3), source("b", 4)), "both")
    graph = generate(CacheTransformation(union))
    assert [node.parallelism for node in graph.nodes] == [3, 4, 2, 2]


def test_a_cached_partitioning_is_done_before_it_is_kept() -> None:
    partitioned = PartitionTransformation(source(), Rebalance(), "spread")
    assert lines(generate(sink(CacheTransformation(partitioned, "cache")))) == [
        *("source -REBALANCE-> spread", "spread -FORWARD-> cache", "cache -FORWARD-> sink")
    ]


def test_a_cache_of_a_cache_is_kept_once() -> None:
    inner = CacheTransformation(source(), "inner")
    outer = CacheTransformation(inner, "outer")
    assert lines(generate(sink(outer))) == [*("source -FORWARD-> inner", "inner -FORWARD-> sink")]
    inner.descriptor = created(source()).descriptor
    assert lines(generate(sink(outer))) == ["inner -FORWARD-> sink"]
    outer.descriptor = created(source()).descriptor
    assert lines(generate(sink(outer))) == ["outer -FORWARD-> sink"]


def test_one_cached_stream_with_two_partitionings() -> None:
    cached = created(source(), 4, "cache")
    by_key = OneInputTransformation(
        PartitionTransformation(cached, HashByKey(key)), Reduce(key, max), "by key"
    )
    by_text = OneInputTransformation(
        PartitionTransformation(cached, HashByKey(str)), Reduce(str, max), "by text"
    )
    graph = generate(sink(by_key, "a"), sink(by_text, "b"))
    assert lines(graph) == [
        "cache -HASH-> by key",
        "by key -FORWARD-> a",
        "cache -HASH-> by text",
        "by text -FORWARD-> b",
    ]
    assert graph.node(1).parallelism == 4


def test_what_was_computed_before_a_reader_is_gone_but_for_other_paths() -> None:
    numbers = source()
    cached = created(mapped(numbers, "before"), name="cache")
    assert lines(generate(sink(cached))) == ["cache -FORWARD-> sink"]
    assert lines(generate(sink(cached), sink(numbers, "other"))) == [
        *("cache -FORWARD-> sink", "source -FORWARD-> other")
    ]


def test_a_descriptor_that_comes_or_goes_meanwhile_makes_no_difference() -> None:
    cached = created(source(), name="cache")
    generator = StreamGraphGenerator(2, [sink(cached)])
    first = generator.generate()
    cached.descriptor = None
    assert lines(first) == ["cache -FORWARD-> sink"]
    assert lines(generator.generate()) == ["source -FORWARD-> cache", "cache -FORWARD-> sink"]


def test_a_long_program_is_not_too_deep() -> None:
    stream: Transformation = source()
    for index in range(3000):
        stream = mapped(stream) if index % 2 else UnionTransformation((stream,))
    graph = generate(sink(stream))
    assert len(graph.nodes) == 1502


def test_a_job_needs_sinks() -> None:
    with pytest.raises(NoSinksError, match="at least one sink"):
        StreamGraphGenerator(2, [])


@pytest.mark.parametrize("parallelism", [0, -1, True, "2", None, 2.0])
def test_the_default_parallelism_is_a_number_from_1(parallelism: Any) -> None:
    with pytest.raises(InvalidTransformationError, match="default parallelism.*integer >= 1"):
        StreamGraphGenerator(parallelism, [sink(source())])


def test_a_type_without_a_translator_is_named() -> None:
    class Iteration(Transformation):
        pass

    with pytest.raises(InvalidTransformationError, match="no translator for Iteration"):
        generate(sink(Iteration("again", (source(),))))


def test_a_node_that_is_not_there() -> None:
    graph = generate(sink(source()))
    assert graph.in_edges(1) == graph.out_edges(2) == ()
    with pytest.raises(KeyError):
        graph.node(3)

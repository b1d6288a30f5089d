"""Random programs of streams keep what every stage of their translation promises."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from holdfast.functions.output_tag import OutputTag
from holdfast.graph.job_graph import ResultPartitionType
from holdfast.graph.stream.execution_plan import ExecutionPlan
from holdfast.graph.stream.partitioner import Forward, Partitioner, Rebalance
from holdfast.graph.stream.stream_graph import (
    CacheNode,
    CacheReaderSource,
    ChainingStrategy,
    StreamGraph,
    StreamNode,
)
from holdfast.graph.stream.stream_graph_generator import StreamGraphGenerator
from holdfast.graph.stream.stream_job_graph import StreamJobGraph
from holdfast.graph.stream.stream_job_graph_generator import StreamJobGraphGenerator
from holdfast.graph.stream.transformations import (
    CacheTransformation,
    OneInputTransformation,
    PartitionTransformation,
    PhysicalTransformation,
    SideOutputTransformation,
    SinkTransformation,
    Transformation,
)
from tests.unit.stream_programs import cached, mapped, process, reduced, side, sink, source, union

DEFAULT_PARALLELISM = 2
STEPS = ["source", "map", "process", "side", "union", "rebalance", "reduce", "cache", "created"]

Recipe = list[tuple[str, list[int], int | None]]

recipes = st.lists(
    st.tuples(
        st.sampled_from(STEPS),
        st.lists(st.integers(0, 30), min_size=1, max_size=3),
        st.sampled_from([None, None, 2, 3]),
    ),
    min_size=1,
    max_size=25,
)


def build(recipe: Recipe) -> list[SinkTransformation]:
    """The program of a recipe: each step takes from steps before it."""
    streams: list[Transformation] = [source("0")]
    for number, (step, chosen, parallelism) in enumerate(recipe, 1):
        inputs = [streams[each % len(streams)] for each in chosen]
        streams.append(build_step(step, str(number), inputs, parallelism))
    taken = {input for stream in streams for input in stream.inputs}
    last = [
        stream for number, stream in enumerate(streams) if stream not in taken or not number % 5
    ]
    return [sink(stream, f"sink {stream.name}") for stream in last]


def build_step(
    step: str, name: str, inputs: list[Transformation], parallelism: int | None
) -> Transformation:
    first = inputs[0]
    match step:
        case "source":
            return source(name, parallelism)
        case "map":
            return mapped(first, name, parallelism)
        case "process":
            processed = process(first, parallelism)
            processed.name = name
            return processed
        case "side":
            has_side = isinstance(first, OneInputTransformation) and first.operator.has_side_outputs
            return side(first, name) if has_side else union(first, name=name)
        case "union":
            return union(*inputs, name=name)
        case "rebalance":
            return PartitionTransformation(first, Rebalance(), name)
        case "reduce":
            return reduced(first, name, parallelism=parallelism)
    return cached(first, name, (parallelism or 5) if step == "created" else None)


def needed(transformations: list[Any]) -> list[Transformation]:
    """All that has to be looked at, given the caches that exist."""
    found: dict[Transformation, None] = {}
    while transformations:
        each = transformations.pop()
        if each not in found:
            found[each] = None
            if not (isinstance(each, CacheTransformation) and each.descriptor):
                transformations.extend(each.inputs)
    return list(found)


def origins(
    transformation: Transformation, partitioner: Partitioner | None, tag: OutputTag | None
) -> list[tuple[str, Partitioner | None, OutputTag | None]]:
    """Where a consumer's records come from, by the book."""
    if isinstance(transformation, PhysicalTransformation):
        return [(transformation.name, partitioner, tag)]
    if isinstance(transformation, CacheTransformation) and (
        transformation.descriptor or not isinstance(transformation.input, CacheTransformation)
    ):
        return [(transformation.name, partitioner, tag)]
    if isinstance(transformation, PartitionTransformation):
        partitioner = partitioner or transformation.partitioner
    if isinstance(transformation, SideOutputTransformation):
        tag = tag or transformation.tag
    return [
        origin for input in transformation.inputs for origin in origins(input, partitioner, tag)
    ]


def stream_graph(recipe: Recipe) -> tuple[list[SinkTransformation], StreamGraph]:
    sinks = build(recipe)
    return sinks, StreamGraphGenerator(DEFAULT_PARALLELISM, sinks).generate()


def job_graph(recipe: Recipe) -> tuple[StreamGraph, StreamJobGraph]:
    _, graph = stream_graph(recipe)
    return graph, StreamJobGraphGenerator(graph).generate()


@given(recipes)
def test_the_stream_graph_has_what_is_needed_once_and_nothing_else(recipe: Recipe) -> None:
    sinks, graph = stream_graph(recipe)
    event(f"readers: {sum(isinstance(node.what, CacheReaderSource) for node in graph.nodes)}")
    expected = []
    for each in needed(list(sinks)):
        if isinstance(each, PhysicalTransformation):
            expected.append((each.name, "runs"))
        elif isinstance(each, CacheTransformation) and each.descriptor:
            expected.append((each.name, "reads"))
        elif isinstance(each, CacheTransformation) and not isinstance(
            each.input, CacheTransformation
        ):
            expected.append((each.name, "keeps"))
    assert Counter(map(role, graph.nodes)) == Counter(expected)
    assert [node.id for node in graph.nodes] == list(range(1, len(graph.nodes) + 1))


def role(node: StreamNode) -> tuple[str, str]:
    if isinstance(node.what, CacheReaderSource):
        assert node.parallelism == node.what.descriptor.parallelism
        return node.name, "reads"
    return node.name, "keeps" if isinstance(node.what, CacheNode) else "runs"


@given(recipes)
def test_edges_lead_from_where_records_come_from(recipe: Recipe) -> None:
    sinks, graph = stream_graph(recipe)
    assert all(edge.source < edge.target for edge in graph.edges)
    # A cache may have the name of the identity before it.
    by_role = {role(node): node for node in graph.nodes}
    for each in needed(list(sinks)):
        if not isinstance(each, OneInputTransformation | SinkTransformation):
            continue
        target = by_role[each.name, "runs"]
        found = graph.in_edges(target.id)
        expected = origins(each.input, None, None)
        assert [graph.node(edge.source).name for edge in found] == [name for name, *_ in expected]
        for edge, (_, partitioner, tag) in zip(found, expected, strict=True):
            assert edge.tag == tag
            same = graph.node(edge.source).parallelism == target.parallelism
            assert edge.partitioner == (partitioner or (Forward() if same else Rebalance()))


@given(recipes)
def test_a_cache_node_has_one_input_of_the_same_parallelism(recipe: Recipe) -> None:
    _, graph = stream_graph(recipe)
    for node in graph.nodes:
        entering = graph.in_edges(node.id)
        if isinstance(node.what, CacheNode):
            assert node.chaining_strategy is ChainingStrategy.HEAD
            (edge,) = entering
            assert edge.partitioner == Forward()
            producer = graph.node(edge.source)
            assert producer.parallelism == node.parallelism
            assert not isinstance(producer.what, CacheNode | CacheReaderSource)


@given(recipes)
def test_chains_are_as_long_as_they_may_be_and_no_longer(recipe: Recipe) -> None:
    graph, jobs = job_graph(recipe)
    chained = {
        (upper.id, lower.id)
        for vertex in jobs.vertices
        for upper, lower in zip(vertex.nodes, vertex.nodes[1:], strict=False)
    }
    assert sorted(node.id for vertex in jobs.vertices for node in vertex.nodes) == [
        node.id for node in graph.nodes
    ]
    for edge in graph.edges:
        lower = graph.node(edge.target)
        chainable = (
            edge.partitioner == Forward()
            and edge.tag is None
            and lower.chaining_strategy is ChainingStrategy.ALWAYS
            and graph.in_edges(edge.target) == (edge,)
            and graph.out_edges(edge.source) == (edge,)
        )
        assert ((edge.source, edge.target) in chained) == chainable
    assert len(jobs.edges) == len(graph.edges) - len(chained)
    for vertex in jobs.vertices:
        assert {node.parallelism for node in vertex.nodes} == {vertex.parallelism}


@given(recipes)
def test_the_job_graph_s_edges_are_those_between_its_chains(recipe: Recipe) -> None:
    graph, jobs = job_graph(recipe)
    assert [vertex.id for vertex in jobs.vertices] == list(range(1, len(jobs.vertices) + 1))
    between = Counter((edge.source, edge.target, edge.tag) for edge in graph.edges)
    for edge in jobs.edges:
        assert edge.source < edge.target
        ends = jobs.vertex(edge.source).tail.id, jobs.vertex(edge.target).head.id
        between[(*ends, edge.tag)] -= 1
        is_kept = isinstance(jobs.vertex(edge.target).head.what, CacheNode)
        assert (edge.result_type is ResultPartitionType.BLOCKING_PERSISTENT) == is_kept
    assert all(count >= 0 for count in between.values())


@given(recipes)
def test_the_same_program_looks_the_same(recipe: Recipe) -> None:
    first, second = (ExecutionPlan.of(DEFAULT_PARALLELISM, build(recipe)) for _ in range(2))
    assert (str(first), first.mermaid) == (str(second), second.mermaid)
    assert not re.search(r"0x[0-9a-f]{6}", str(first))
    for vertex in first.job_graph.vertices:
        assert f"\n{vertex.id}[" in first.mermaid
        is_reader = isinstance(vertex.head.what, CacheReaderSource)
        assert (vertex.descriptor is not None) == is_reader
        assert not is_reader or first.job_graph.in_edges(vertex.id) == ()

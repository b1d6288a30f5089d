"""A plan is cut into vertices at the nodes that somebody cached."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.graph.job_graph import JobGraph, ResultPartitionType
from holdfast.graph.job_graph_generator import JobGraphGenerator
from holdfast.graph.transformation import TableCacheTransformation
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.hashing import hash_parts

JOB = JobID("ab" * 16)


def node(
    name: str,
    *children: CanonicalNode,
    subqueries: tuple[CanonicalNode, ...] = (),
    reach: int = 0,
) -> CanonicalNode:
    """An operator whose digest is that of its name and its inputs."""
    digest = hash_parts(name, tuple(each.digest for each in (*children, *subqueries)))
    return CanonicalNode(name, digest, children, subqueries, 0, (), False, reach, False)


def dataset(plan: CanonicalNode) -> IntermediateDataSetID:
    return IntermediateDataSetID.from_digest(plan.digest)


def generate(
    plan: CanonicalNode,
    cached: Iterable[CanonicalNode] = (),
    kept: Iterable[CanonicalNode] = (),
) -> JobGraph:
    transformations = {
        each.digest: TableCacheTransformation(dataset(each), each, f"keep {each.operator}")
        for each in cached
    }
    there = {dataset(each) for each in kept}
    generator = JobGraphGenerator(
        lambda each: transformations.get(each.digest), lambda each: each in there
    )
    return generator.generate(JOB, "count", plan)


def test_the_same_job_has_the_same_graph() -> None:
    assert generate(TOTAL, [FILTER, JOIN]) == generate(TOTAL, [FILTER, JOIN])


def produced(graph: JobGraph) -> list[str]:
    return [vertex.plan.operator for vertex, _ in graph.producers()]


def edges(graph: JobGraph) -> set[tuple[str, str]]:
    names = {vertex.vertex_id: vertex.plan.operator for vertex in graph.vertices}
    return {(names[edge.source], names[edge.target]) for edge in graph.edges}


SOURCE = node("source")
FILTER = node("filter", SOURCE)
JOIN = node("join", FILTER, node("other"))
TOTAL = node("total", JOIN)


def test_a_plan_without_caches_is_one_vertex_that_answers() -> None:
    graph = generate(TOTAL)
    (vertex,) = graph.vertices
    assert vertex is graph.vertices[-1]
    assert (vertex.plan, vertex.name, vertex.produces) == (TOTAL, "count", None)
    assert vertex.result_type is ResultPartitionType.PIPELINED
    assert (graph.job_id, graph.name, graph.edges, graph.reads) == (JOB, "count", (), ())


def test_a_cached_node_is_produced_by_a_vertex_of_its_own() -> None:
    graph = generate(TOTAL, cached=[JOIN])
    producing, answering = graph.vertices
    assert producing.plan is JOIN
    assert producing.name == "keep join"
    assert producing.produces == dataset(JOIN)
    assert producing.result_type is ResultPartitionType.BLOCKING_PERSISTENT
    assert answering.plan is TOTAL
    assert edges(graph) == {("join", "total")}


def test_a_cached_root_is_produced_and_then_read() -> None:
    graph = generate(JOIN, cached=[JOIN])
    assert produced(graph) == ["join"]
    assert [vertex.plan for vertex in graph.vertices] == [JOIN, JOIN]
    assert len(graph.edges) == 1


def test_what_is_kept_is_read_and_nothing_below_it_produced() -> None:
    graph = generate(TOTAL, cached=[JOIN, FILTER], kept=[JOIN])
    assert produced(graph) == []
    assert graph.reads == (dataset(JOIN),)
    assert graph.edges == ()


def test_nested_caches_are_produced_from_the_inside_out() -> None:
    graph = generate(TOTAL, cached=[TOTAL, FILTER, JOIN])
    assert produced(graph) == ["filter", "join", "total"]
    assert edges(graph) == {("filter", "join"), ("join", "total"), ("total", "total")}


def test_a_kept_node_inside_one_to_be_produced_is_read_by_its_vertex() -> None:
    graph = generate(TOTAL, cached=[JOIN, FILTER], kept=[FILTER])
    assert produced(graph) == ["join"]
    assert graph.reads == (dataset(FILTER),)


def test_a_node_that_is_needed_twice_is_produced_once() -> None:
    left, right = node("left", JOIN), node("right", JOIN)
    graph = generate(node("self-join", left, right, JOIN), cached=[JOIN])
    assert produced(graph) == ["join"]
    assert len(graph.edges) == 1


def test_an_input_that_two_produced_nodes_share_is_produced_once_before_both() -> None:
    left, right = node("left", FILTER), node("right", FILTER)
    graph = generate(node("union", left, right), cached=[left, right, FILTER])
    assert produced(graph) == ["filter", "left", "right"]
    assert edges(graph) == {
        ("filter", "left"),
        ("filter", "right"),
        ("left", "union"),
        ("right", "union"),
    }


def test_a_node_that_is_both_an_input_and_inside_another_input_is_produced_once() -> None:
    outer = node("outer", JOIN)
    for plan in (node("union", outer, JOIN), node("union", JOIN, outer)):
        graph = generate(plan, cached=[outer, JOIN])
        assert produced(graph) == ["join", "outer"]
        assert edges(graph) == {("join", "outer"), ("outer", "union"), ("join", "union")}


def test_a_cached_subquery_is_produced() -> None:
    plan = node("filter by", SOURCE, subqueries=(JOIN,))
    graph = generate(plan, cached=[JOIN])
    assert produced(graph) == ["join"]
    assert edges(graph) == {("join", "filter by")}


def test_a_node_that_refers_to_the_enclosing_plan_is_left_alone() -> None:
    correlated = node("correlated", SOURCE, reach=1)
    plan = node("filter by", FILTER, subqueries=(correlated,))
    assert produced(generate(plan, cached=[correlated])) == []
    # What is below it may well stand alone.
    assert produced(generate(plan, cached=[correlated, SOURCE])) == ["source"]


def test_ids_of_vertices_are_unique() -> None:
    graph = generate(TOTAL, cached=[TOTAL, FILTER, JOIN])
    assert len({vertex.vertex_id for vertex in graph.vertices}) == len(graph.vertices) == 4


@st.composite
def plans(draw: st.DrawFn) -> list[CanonicalNode]:
    """Nodes in an order in which inputs come first; the last one is the root."""
    nodes = [node("leaf 0")]
    for number in range(1, draw(st.integers(1, 9))):
        inputs = draw(st.lists(st.sampled_from(nodes), max_size=3))
        below = draw(st.lists(st.sampled_from(nodes), max_size=1))
        nodes.append(node(f"node {number}", *inputs, subqueries=tuple(below)))
    return nodes


@given(nodes=plans(), data=st.data())
def test_every_dataset_is_there_before_anybody_reads_it(
    nodes: list[CanonicalNode], data: st.DataObject
) -> None:
    cached = data.draw(st.lists(st.sampled_from(nodes), unique_by=lambda each: each.digest))
    kept = data.draw(st.lists(st.sampled_from(cached), unique=True)) if cached else []
    graph = generate(nodes[-1], cached, kept)
    there = set(graph.reads)
    assert there <= {dataset(each) for each in kept}
    made = {vertex.vertex_id: vertex.produces for vertex in graph.vertices}
    for vertex in graph.vertices:
        incoming = {edge.dataset_id for edge in graph.edges if edge.target == vertex.vertex_id}
        assert incoming <= there
        # Everything cached at the top of its plan arrives by an edge or lies there already.
        for each in _topmost(vertex.plan, {each.digest for each in cached}, vertex.produces):
            assert dataset(each) in there
            assert dataset(each) in incoming or dataset(each) in graph.reads
        if vertex.produces is not None:
            assert vertex.produces not in there
            there.add(vertex.produces)
    assert all(made[edge.source] == edge.dataset_id for edge in graph.edges)
    assert len(set(graph.edges)) == len(graph.edges)


def _topmost(
    plan: CanonicalNode, cached: set[str], own: IntermediateDataSetID | None
) -> list[CanonicalNode]:
    if plan.digest in cached and dataset(plan) != own:
        return [plan]
    inputs = (*plan.children, *plan.subqueries)
    return [found for each in inputs for found in _topmost(each, cached, own)]


@pytest.mark.parametrize("kept", [True, False])
def test_the_same_plan_gives_the_same_order(kept: bool) -> None:
    wide = node("union", *[node(f"branch {i}", SOURCE) for i in range(20)])
    branches = list(wide.children)
    graph = generate(wide, branches, branches if kept else [])
    if kept:
        assert graph.reads == tuple(dataset(each) for each in branches)
    else:
        assert produced(graph) == [each.operator for each in branches]

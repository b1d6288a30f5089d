"""A plan is cut into vertices at the nodes that somebody cached."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

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


def produced(graph: JobGraph) -> str:
    return " ".join(vertex.plan.operator for vertex, _ in graph.producers())


def edges(graph: JobGraph) -> list[str]:
    names = {vertex.vertex_id: vertex.plan.operator for vertex in graph.vertices}
    made = {vertex.vertex_id: vertex.produces for vertex in graph.vertices}
    assert all(made[edge.source] == edge.dataset_id for edge in graph.edges)
    return sorted(f"{names[edge.source]}->{names[edge.target]}" for edge in graph.edges)


SOURCE = node("source")
FILTER = node("filter", SOURCE)
JOIN = node("join", FILTER, node("other"))
TOTAL = node("total", JOIN)


def test_a_cached_node_is_produced_by_a_vertex_of_its_own() -> None:
    (alone,) = generate(TOTAL).vertices
    producing, answering = generate(TOTAL, cached=[JOIN]).vertices
    for vertex in (alone, answering):
        assert (vertex.plan, vertex.name, vertex.produces) == (TOTAL, "count", None)
        assert vertex.result_type is ResultPartitionType.PIPELINED
    assert (producing.plan, producing.name) == (JOIN, "keep join")
    assert producing.produces == dataset(JOIN)
    assert producing.result_type is ResultPartitionType.BLOCKING_PERSISTENT
    assert answering.vertex_id != producing.vertex_id


LEFT, RIGHT = node("left", JOIN), node("right", JOIN)
ONE, TWO = node("one", FILTER), node("two", FILTER)
CORRELATED = node("correlated", SOURCE, reach=1)
SUBQUERY = node("by", FILTER, subqueries=(CORRELATED,))
BRANCHES = [node(f"branch-{number}", SOURCE) for number in range(20)]
NAMES = [each.operator for each in BRANCHES]
INNER = "join->left join->union left->union"
# The plan, what is cached, what is kept; what is produced, in which order, and read.
CUTS: dict[str, tuple[CanonicalNode, list[CanonicalNode], list[CanonicalNode], str, str]] = {
    "nothing": (TOTAL, [], [], "", ""),
    "a root": (JOIN, [JOIN], [], "join", "join->join"),
    "nested": (
        *(TOTAL, [TOTAL, FILTER, JOIN], []),
        *("filter join total", "filter->join join->total total->total"),
    ),
    "nothing below what is kept": (TOTAL, [JOIN, FILTER], [JOIN], "", ""),
    "a kept one inside": (TOTAL, [JOIN, FILTER], [FILTER], "join", "join->total"),
    "needed twice": (node("self-join", LEFT, RIGHT, JOIN), [JOIN], [], "join", "join->self-join"),
    "shared by two": (
        *(node("union", ONE, TWO), [ONE, TWO, FILTER], []),
        *("filter one two", "filter->one filter->two one->union two->union"),
    ),
    "an input of an input": (node("union", LEFT, JOIN), [LEFT, JOIN], [], "join left", INNER),
    "the other way": (node("union", JOIN, LEFT), [LEFT, JOIN], [], "join left", INNER),
    "a subquery": (node("by", SOURCE, subqueries=(JOIN,)), [JOIN], [], "join", "join->by"),
    "one that refers to the enclosing plan": (SUBQUERY, [CORRELATED], [], "", ""),
    "below one that does": (SUBQUERY, [CORRELATED, SOURCE], [], "source", "source->by"),
    "inputs in their order": (
        *(node("union", *BRANCHES), BRANCHES, []),
        *(" ".join(NAMES), " ".join(sorted(f"{name}->union" for name in NAMES))),
    ),
    "kept inputs in their order": (node("union", *BRANCHES), BRANCHES, BRANCHES, "", ""),
}


@pytest.mark.parametrize("what", CUTS)
def test_where_a_plan_is_cut(what: str) -> None:
    plan, cached, kept, made, between = CUTS[what]
    graph = generate(plan, cached, kept)
    assert (produced(graph), edges(graph)) == (made, between.split())
    assert graph.reads == tuple(map(dataset, kept))
    assert generate(plan, cached, kept) == graph

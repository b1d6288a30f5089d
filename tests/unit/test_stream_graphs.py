"""Programs of streams become nodes and edges, and those vertices: stage by stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import InvalidTransformationError
from holdfast.functions.output_tag import OutputTag
from holdfast.graph.job_graph import ResultPartitionType
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.operators import Map, Process, Reduce
from holdfast.graph.stream.partitioner import Forward, HashByKey, Rebalance
from holdfast.graph.stream.stream_graph import StreamGraph
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

Program = tuple[Transformation, ...]
TAG = OutputTag("late")
DATASET = IntermediateDataSetID("ab" * 32)


def key(record: Any) -> Any:
    return record


def source(name: str = "source", parallelism: int | None = None) -> SourceTransformation:
    return SourceTransformation(range(3), name, parallelism)


def mapped(
    input: Transformation, name: str = "map", parallelism: int | None = None
) -> OneInputTransformation:
    return OneInputTransformation(input, Map(str), name, parallelism)


def process(input: Transformation, parallelism: int | None = None) -> OneInputTransformation:
    return OneInputTransformation(input, Process(print), "process", parallelism)


def side(input: Transformation) -> SideOutputTransformation:
    return SideOutputTransformation(input, TAG)


def union(*inputs: Transformation, name: str = "union") -> UnionTransformation:
    return UnionTransformation(inputs, name)


def reduced(
    input: Transformation, name: str = "reduce", key: Callable[[Any], Any] = key
) -> OneInputTransformation:
    keyed = PartitionTransformation(input, HashByKey(key), f"key {name}")
    return OneInputTransformation(keyed, Reduce(key, max), name)


def sink(input: Transformation, name: str = "sink") -> SinkTransformation:
    return SinkTransformation(input, print, name)


def cached(
    input: Transformation, name: str = "cache", created: int | None = None
) -> CacheTransformation:
    """A cached stream, and the parallelism of what is kept of it, if anything is."""
    cache = CacheTransformation(input, name)
    if created is not None:
        cache.descriptor = IntermediateDataSetDescriptor(DATASET, created, ())
    return cache


def stream_graph(*roots: Transformation) -> StreamGraph:
    return StreamGraphGenerator(2, roots).generate()


def job_graph(*roots: Transformation) -> StreamJobGraph:
    return StreamJobGraphGenerator(stream_graph(*roots)).generate()


def edges(graph: StreamGraph) -> list[str]:
    """Each edge by the names of its ends, and each node that no edge has."""
    name = {node.id: node.name for node in graph.nodes}
    found = [
        f"{name[edge.source]} -{edge.partitioner.label}-> {name[edge.target]}"
        + (f" [{edge.tag.tag_id}]" if edge.tag else "")
        for edge in graph.edges
    ]
    ends = {end for edge in graph.edges for end in (edge.source, edge.target)}
    return [*found, *(node.name for node in graph.nodes if node.id not in ends)]


def vertices(graph: StreamJobGraph) -> list[str]:
    """The vertices, each with an asterisk after it that keeps what it gives."""
    kept = {
        edge.source
        for edge in graph.edges
        if edge.result_type is ResultPartitionType.BLOCKING_PERSISTENT
    }
    return [f"{each.name}{'*' if each.id in kept else ''}" for each in graph.vertices]


def through_unions() -> Program:
    main = process(source())
    both = union(main, PartitionTransformation(side(main), Rebalance()))
    return sink(both, "all"), sink(reduced(both))


# The program, the edges of its nodes, and its vertices.
PROGRAMS: dict[str, tuple[Callable[[], Program], list[str], list[str]]] = {
    "a chain": (
        lambda: (sink(mapped(source())),),
        ["source -FORWARD-> map", "map -FORWARD-> sink"],
        ["source -> map -> sink"],
    ),
    "partitions and side outputs through unions": (
        through_unions,
        [
            *("source -FORWARD-> process", "process -FORWARD-> all"),
            *("process -REBALANCE-> all [late]", "process -HASH-> reduce"),
            *("process -HASH-> reduce [late]", "reduce -FORWARD-> sink"),
        ],
        ["source -> process", "all", "reduce -> sink"],
    ),
    "another parallelism": (
        lambda: (sink(mapped(mapped(source(parallelism=3), "a", 3), "b", 4)),),
        ["source -FORWARD-> a", "a -REBALANCE-> b", "b -REBALANCE-> sink"],
        ["source -> a", "b", "sink"],
    ),
    "a cached union": (
        lambda: (sink(cached(union(source("a", 3), source("b", 3), name="both"))),),
        [
            *("a -FORWARD-> both", "b -FORWARD-> both"),
            *("both -FORWARD-> cache", "cache -REBALANCE-> sink"),
        ],
        ["a", "b", "both*", "cache", "sink"],
    ),
    "a kept cache of a cache": (
        lambda: (sink(cached(cached(source(), "inner"), "outer", created=2)),),
        ["outer -FORWARD-> sink"],
        ["outer -> sink"],
    ),
    "what is kept in another parallelism": (
        lambda: (sink(PartitionTransformation(cached(source(), created=3), Forward())),),
        ["cache -REBALANCE-> sink"],
        ["cache", "sink"],
    ),
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_what_a_program_becomes(what: str) -> None:
    make, nodes, chains = PROGRAMS[what]
    assert edges(stream_graph(*make())) == nodes
    assert vertices(job_graph(*make())) == chains


def test_a_keyed_operator_takes_what_is_partitioned_by_its_key() -> None:
    other = PartitionTransformation(source(), HashByKey(str))
    for input in (source(), PartitionTransformation(source(), Rebalance()), other):
        with pytest.raises(InvalidTransformationError, match=r"expected a stream from key_by\(\)"):
            OneInputTransformation(input, Reduce(key, max))
    # A forward joins equal parallelisms.
    forwarded = PartitionTransformation(source(parallelism=3), Forward())
    with pytest.raises(InvalidTransformationError, match="has parallelism 2.*which has 3"):
        stream_graph(sink(forwarded))

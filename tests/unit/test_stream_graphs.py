"""Programs of streams become nodes and edges, and those vertices: stage by stage."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

from holdfast.errors import InvalidTransformationError, NoSinksError
from holdfast.graph.diagram.diagram_text import diagram_text
from holdfast.graph.job_graph import ResultPartitionType
from holdfast.graph.stream.execution_plan import ExecutionPlan
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.operators import Reduce
from holdfast.graph.stream.partitioner import Forward, HashByKey, Rebalance
from holdfast.graph.stream.stream_graph import StreamGraph
from holdfast.graph.stream.stream_graph_generator import StreamGraphGenerator
from holdfast.graph.stream.stream_job_graph import StreamJobGraph
from holdfast.graph.stream.stream_job_graph_generator import StreamJobGraphGenerator
from holdfast.graph.stream.transformations import (
    CacheTransformation,
    OneInputTransformation,
    PartitionTransformation,
    Transformation,
)
from holdfast.graph.stream.transformations_diagram import transformations_diagram
from holdfast.ids import IntermediateDataSetID
from tests.unit.stream_programs import (
    cached,
    key,
    mapped,
    process,
    reduced,
    side,
    sink,
    source,
    union,
)

Program = tuple[Transformation, ...]


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


def diamond() -> Program:
    top = mapped(source(), "top")
    return (sink(union(mapped(top, "left"), mapped(top, "right"))),)


def twice() -> Program:
    numbers = source()
    return (sink(union(numbers, numbers)),)


def through_unions() -> Program:
    main = process(source())
    both = union(main, PartitionTransformation(side(main), Rebalance()))
    return sink(both, "all"), sink(reduced(both))


def cached_outputs() -> Program:
    main = process(source())
    return sink(cached(main, "m"), "a"), sink(cached(side(main), "s"), "b")


def half_created_outputs() -> Program:
    main = process(source())
    return sink(main, "m"), sink(cached(side(main), "s", created=2), "a")


def two_partitionings() -> Program:
    hot = cached(source(), created=4)
    return sink(reduced(hot, "by key"), "a"), sink(reduced(hot, "by text", str), "b")


def around_a_cache() -> Program:
    producer = mapped(source())
    return sink(producer, "direct"), sink(cached(producer), "later")


def cache_of_a_cache(inner: int | None = None, outer: int | None = None) -> Program:
    return (sink(cached(cached(source(), "inner", inner), "outer", outer)),)


# The program, the edges of its nodes, and its vertices.
PROGRAMS: dict[str, tuple[Callable[[], Program], list[str], list[str]]] = {
    "a chain": (
        lambda: (sink(mapped(source())),),
        ["source -FORWARD-> map", "map -FORWARD-> sink"],
        ["source -> map -> sink"],
    ),
    "a union with itself": (twice, ["source -FORWARD-> sink"] * 2, ["source", "sink"]),
    "a union of one": (
        lambda: (sink(union(source())),),
        ["source -FORWARD-> sink"],
        ["source -> sink"],
    ),
    "unions of unions": (
        lambda: (sink(union(union(source("a"), b := source("b")), union(b))),),
        ["a -FORWARD-> sink", "b -FORWARD-> sink", "b -FORWARD-> sink"],
        ["a", "b", "sink"],
    ),
    "partitions and side outputs through unions": (
        through_unions,
        [
            "source -FORWARD-> process",
            "process -FORWARD-> all",
            "process -REBALANCE-> all [late]",
            "process -HASH-> reduce",
            "process -HASH-> reduce [late]",
            "reduce -FORWARD-> sink",
        ],
        ["source -> process", "all", "reduce -> sink"],
    ),
    "a diamond": (
        diamond,
        [
            *("source -FORWARD-> top", "top -FORWARD-> left", "top -FORWARD-> right"),
            *("left -FORWARD-> sink", "right -FORWARD-> sink"),
        ],
        ["source -> top", "left", "right", "sink"],
    ),
    "another parallelism": (
        lambda: (sink(mapped(mapped(source(parallelism=3), "a", 3), "b", 4)),),
        ["source -FORWARD-> a", "a -REBALANCE-> b", "b -REBALANCE-> sink"],
        ["source -> a", "b", "sink"],
    ),
    "the last partitioning": (
        lambda: (
            sink(
                PartitionTransformation(
                    PartitionTransformation(source(), HashByKey(key)), Rebalance()
                )
            ),
        ),
        ["source -REBALANCE-> sink"],
        ["source", "sink"],
    ),
    "a side output": (
        lambda: (sink(side(process(source()))),),
        ["source -FORWARD-> process", "process -FORWARD-> sink [late]"],
        ["source -> process", "sink"],
    ),
    "a cache that is asked for": (
        lambda: (cached(source()),),
        ["source -FORWARD-> cache"],
        ["source*", "cache"],
    ),
    "main and side output, each cached": (
        cached_outputs,
        [
            *("source -FORWARD-> process", "process -FORWARD-> m", "m -FORWARD-> a"),
            *("process -FORWARD-> s [late]", "s -FORWARD-> b"),
        ],
        ["source -> process*", "m -> a", "s -> b"],
    ),
    "a side output that is kept": (
        half_created_outputs,
        ["source -FORWARD-> process", "process -FORWARD-> m", "s -FORWARD-> a"],
        ["source -> process -> m", "s -> a"],
    ),
    "a cached union": (
        lambda: (sink(cached(union(source("a", 3), source("b", 3), name="both"))),),
        [
            *("a -FORWARD-> both", "b -FORWARD-> both"),
            *("both -FORWARD-> cache", "cache -REBALANCE-> sink"),
        ],
        ["a", "b", "both*", "cache", "sink"],
    ),
    "a cached partitioning": (
        lambda: (sink(cached(PartitionTransformation(source(), Rebalance(), "spread"))),),
        ["source -REBALANCE-> spread", "spread -FORWARD-> cache", "cache -FORWARD-> sink"],
        ["source", "spread*", "cache -> sink"],
    ),
    "a cache of a cache": (
        cache_of_a_cache,
        ["source -FORWARD-> inner", "inner -FORWARD-> sink"],
        ["source*", "inner -> sink"],
    ),
    "one whose inner one is kept": (
        lambda: cache_of_a_cache(inner=2),
        ["inner -FORWARD-> sink"],
        ["inner -> sink"],
    ),
    "one whose outer one is kept": (
        lambda: cache_of_a_cache(outer=2),
        ["outer -FORWARD-> sink"],
        ["outer -> sink"],
    ),
    "two partitionings of what is kept": (
        two_partitionings,
        [
            *("cache -HASH-> by key", "by key -FORWARD-> a"),
            *("cache -HASH-> by text", "by text -FORWARD-> b"),
        ],
        ["cache", "by key -> a", "by text -> b"],
    ),
    "what is kept beside what was below it": (
        lambda: (
            sink(cached(mapped(numbers := source(), "before"), created=2)),
            sink(numbers, "other"),
        ),
        ["cache -FORWARD-> sink", "source -FORWARD-> other"],
        ["cache -> sink", "source -> other"],
    ),
    "consumers around a cache": (
        around_a_cache,
        [
            *("source -FORWARD-> map", "map -FORWARD-> direct"),
            *("map -FORWARD-> cache", "cache -FORWARD-> later"),
        ],
        ["source -> map*", "direct", "cache -> later"],
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


@pytest.mark.parametrize("what", PROGRAMS)
def test_the_same_program_looks_the_same(what: str) -> None:
    first, second = (ExecutionPlan.of(2, PROGRAMS[what][0]()) for _ in range(2))
    assert (str(first), first.mermaid) == (str(second), second.mermaid)
    assert not re.search(r"0x[0-9a-f]{6}", str(first))


def test_a_keyed_operator_takes_what_is_partitioned_by_its_key() -> None:
    other = PartitionTransformation(source(), HashByKey(str))
    for input in (source(), PartitionTransformation(source(), Rebalance()), other):
        with pytest.raises(InvalidTransformationError, match=r"expected a stream from key_by\(\)"):
            OneInputTransformation(input, Reduce(key, max))
    with pytest.raises(InvalidTransformationError, match="'sink' is a sink"):
        mapped(sink(source()))
    with pytest.raises(InvalidTransformationError, match="at least one stream"):
        union()


def test_a_cache_has_its_input_s_parallelism_and_readers_that_of_what_is_kept() -> None:
    hot = cached(side(process(source(parallelism=3), 3)))
    assert [node.parallelism for node in stream_graph(sink(hot)).nodes] == [3, 3, 3, 2]
    # Of inputs that differ, the default one.
    both = cached(union(source("a", 3), source("b", 4)))
    assert [node.parallelism for node in stream_graph(both).nodes] == [3, 4, 2, 2]
    (vertex, _) = job_graph(sink(cached(source(), created=4))).vertices
    assert vertex.parallelism == 4 and vertex.descriptor is not None


@pytest.mark.parametrize("partitioner", [Rebalance(), HashByKey(key)])
@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_partitioning_that_was_asked_for_stays(partitioner: Any, parallelism: int) -> None:
    partitioned = PartitionTransformation(source(parallelism=parallelism), partitioner)
    assert stream_graph(sink(partitioned)).edges[0].partitioner == partitioner


def test_a_descriptor_that_comes_or_goes_meanwhile_makes_no_difference() -> None:
    hot = cached(source(), created=2)
    generator = StreamGraphGenerator(2, [sink(hot)])
    first = generator.generate()
    hot.descriptor = None
    assert edges(first) == ["cache -FORWARD-> sink"]
    assert edges(generator.generate()) == ["source -FORWARD-> cache", "cache -FORWARD-> sink"]


def test_a_long_program_is_not_too_deep() -> None:
    stream: Transformation = source()
    for index in range(3000):
        stream = mapped(stream) if index % 2 else union(stream)
    assert len(stream_graph(sink(stream)).nodes) == 1502


def test_what_is_refused() -> None:
    with pytest.raises(NoSinksError, match="at least one sink"):
        StreamGraphGenerator(2, [])
    for parallelism in (0, -1, True, "2", None, 2.0):
        with pytest.raises(InvalidTransformationError, match="default parallelism.*integer >= 1"):
            StreamGraphGenerator(parallelism, [sink(source())])  # type: ignore[arg-type]
    forwarded = PartitionTransformation(source(parallelism=3), Forward())
    with pytest.raises(InvalidTransformationError, match="has parallelism 2.*which has 3"):
        stream_graph(sink(forwarded))

    class Iteration(Transformation):
        pass

    with pytest.raises(InvalidTransformationError, match="no translator for Iteration"):
        stream_graph(sink(Iteration("again", (source(),))))


# -- FLIP-205's own two programs, "Create Cache" and "Use Cache" -----------------------------------

SOURCE_ID, MAP_ID = (IntermediateDataSetID(digits * 32) for digits in ("5a", "3b"))
BLOCKING, PIPELINED = ResultPartitionType.BLOCKING_PERSISTENT, ResultPartitionType.PIPELINED


class Seed:
    """Its streams, of which some are kept."""

    def __init__(self, *kept: str) -> None:
        self.source = CacheTransformation(source("Source: any"))
        self.map = CacheTransformation(mapped(self.source, "Map"))
        for name, cache, dataset in (("source", self.source, SOURCE_ID), ("map", self.map, MAP_ID)):
            if name in kept:
                # After the first job, which ran with another parallelism.
                cache.descriptor = IntermediateDataSetDescriptor(dataset, 3, ())

    def create_cache(self) -> Program:
        return (sink(reduced(self.map, "Keyed Reduce"), "Sink: Print"),)

    def use_cache(self) -> Program:
        return (sink(self.source, "Sink: Print"), *self.create_cache())


def test_create_cache_is_shown_stage_by_stage() -> None:
    program = Seed()
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
        [5] key Keyed Reduce (PartitionTransformation, HASH)
            <- [4]
        [6] Keyed Reduce (OneInputTransformation)
            <- [5]
        [7] Sink: Print (SinkTransformation)
            <- [6]"""
    )
    assert stream_graph(*program.create_cache()).text == dedent(
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
    program.source.dataset_id = SOURCE_ID
    assert job_graph(*program.create_cache()).text == dedent(
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


def test_use_cache_reads_what_create_cache_has_kept() -> None:
    program = Seed("source", "map")
    program.map.dataset_id = MAP_ID
    text = diagram_text(transformations_diagram(program.use_cache()))
    assert "Cache: any (CacheTransformation, created)" in text
    assert "Cache: Map (CacheTransformation, created, dataset 3b3b3b3b3b3b)" in text
    graph = job_graph(*program.use_cache())
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
    descriptors = [vertex.descriptor for vertex in graph.vertices]
    assert descriptors == [program.source.descriptor, None, program.map.descriptor, None]


REDUCE = "Keyed Reduce -> Sink: Print"


@pytest.mark.parametrize(
    ("kept", "use", "expected"),
    [
        pytest.param(["source", "map"], False, ["Cache: Map", REDUCE], id="the later is enough"),
        pytest.param(["map"], False, ["Cache: Map", REDUCE], id="the earlier is not needed"),
        pytest.param(
            ["map"],
            True,
            ["Source: any*", "Cache: any -> Sink: Print", "Cache: Map", REDUCE],
            id="the earlier is needed by another path",
        ),
        pytest.param(
            ["source"],
            False,
            ["Cache: any", "Map*", "Cache: Map", REDUCE],
            id="the later is created from the earlier",
        ),
    ],
)
def test_what_is_gone_is_created_where_it_is_needed(
    kept: list[str], use: bool, expected: list[str]
) -> None:
    program = Seed(*kept)
    assert (
        vertices(job_graph(*(program.use_cache() if use else program.create_cache()))) == expected
    )

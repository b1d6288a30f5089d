"""Transformations hold together what fits together, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import InvalidTransformationError
from holdfast.functions.output_tag import OutputTag
from holdfast.graph.stream.operators import (
    Aggregate,
    AggregateKind,
    Filter,
    FlatMap,
    Identity,
    KeyedProcess,
    Map,
    Process,
    Reduce,
)
from holdfast.graph.stream.partitioner import HashByKey, Rebalance
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

TAG = OutputTag("late")


def key(record: Any) -> Any:
    return record


@pytest.fixture
def source() -> SourceTransformation:
    return SourceTransformation(range(3), "Source: numbers")


@pytest.fixture
def process(source: SourceTransformation) -> OneInputTransformation:
    return OneInputTransformation(source, Process(print))


def keyed(input: Transformation) -> PartitionTransformation:
    return PartitionTransformation(input, HashByKey(key))


def test_each_has_a_number_and_is_equal_to_itself_only(source: SourceTransformation) -> None:
    same = [OneInputTransformation(source, Map(str)) for _ in range(3)]
    assert len({each.id for each in [source, *same]}) == 4
    assert len({source, *same}) == 4


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        (Map(str), "Map"),
        (FlatMap(str), "Flat Map"),
        (Filter(str), "Filter"),
        (Process(str), "Process"),
        (Identity(), "Identity"),
        (Reduce(key, max), "Keyed Reduce"),
        (Aggregate(key, AggregateKind.SUM, 1), "Keyed Aggregation"),
        (KeyedProcess(key, str), "Keyed Process"),
    ],
)
def test_a_name_tells_what_is_done(source: SourceTransformation, operator: Any, name: str) -> None:
    assert OneInputTransformation(keyed(source), operator).name == name
    assert OneInputTransformation(keyed(source), operator, "my own").name == "my own"


@pytest.mark.parametrize("parallelism", [0, -1, 1.5, True, "2"])
def test_a_parallelism_is_a_number_from_1(source: SourceTransformation, parallelism: Any) -> None:
    with pytest.raises(InvalidTransformationError, match="'Source: numbers'.*an integer >= 1"):
        source.parallelism = parallelism
    for make in MAKE_WITH_PARALLELISM:
        with pytest.raises(InvalidTransformationError, match="an integer >= 1"):
            make(source, parallelism)
    assert source.parallelism is None


MAKE_WITH_PARALLELISM: list[Callable[[Transformation, Any], Transformation]] = [
    lambda _, parallelism: SourceTransformation(range(3), "Source", parallelism),
    lambda input, parallelism: OneInputTransformation(input, Map(str), None, parallelism),
    lambda input, parallelism: SinkTransformation(input, print, "Sink", parallelism),
]


def test_a_parallelism_is_changed_and_taken_back(source: SourceTransformation) -> None:
    source.parallelism = 7
    assert source.parallelism == 7
    source.parallelism = None
    assert source.parallelism is None


@pytest.mark.parametrize(
    "make",
    [
        CacheTransformation,
        keyed,
        lambda process: UnionTransformation((process,)),
        lambda process: SideOutputTransformation(process, TAG),
    ],
)
def test_what_has_no_subtasks_takes_no_parallelism(
    process: OneInputTransformation, make: Callable[[Transformation], Transformation]
) -> None:
    virtual = make(process)
    assert virtual.parallelism is None
    with pytest.raises(InvalidTransformationError, match="runs in its input's subtasks"):
        virtual.parallelism = 2


@pytest.mark.parametrize(
    "make",
    [
        CacheTransformation,
        keyed,
        lambda sink: UnionTransformation((sink,)),
        lambda sink: SideOutputTransformation(sink, TAG),
        lambda sink: SinkTransformation(sink, print),
        lambda sink: OneInputTransformation(sink, Map(str)),
    ],
)
def test_nothing_comes_out_of_a_sink(
    source: SourceTransformation, make: Callable[[Transformation], Transformation]
) -> None:
    with pytest.raises(InvalidTransformationError, match="'Sink: Print' is a sink"):
        make(SinkTransformation(source, print, "Sink: Print"))


def test_a_union_is_of_something() -> None:
    with pytest.raises(InvalidTransformationError, match="at least one stream"):
        UnionTransformation(())


@pytest.mark.parametrize(
    "operator",
    [Reduce(key, max), Aggregate(key, AggregateKind.MIN, "n"), KeyedProcess(key, print)],
)
def test_a_keyed_operator_takes_what_is_partitioned_by_its_key(
    source: SourceTransformation, operator: Any
) -> None:
    OneInputTransformation(keyed(source), operator)
    for input in [
        source,
        PartitionTransformation(source, Rebalance()),
        PartitionTransformation(source, HashByKey(str)),
        PartitionTransformation(keyed(source), Rebalance()),
        UnionTransformation((keyed(source), keyed(source))),
        CacheTransformation(keyed(source)),
    ]:
        with pytest.raises(InvalidTransformationError, match=r"expected a stream from key_by\(\)"):
            OneInputTransformation(input, operator)


def test_only_processing_has_side_outputs(
    source: SourceTransformation, process: OneInputTransformation
) -> None:
    assert SideOutputTransformation(process, TAG).input is process
    counted = OneInputTransformation(keyed(source), KeyedProcess(key, print))
    assert SideOutputTransformation(counted, TAG).tag == OutputTag("late")
    for input in [
        source,
        OneInputTransformation(source, Map(str)),
        SideOutputTransformation(process, TAG),
        CacheTransformation(process),
        UnionTransformation((process,)),
        PartitionTransformation(process, Rebalance()),
    ]:
        with pytest.raises(InvalidTransformationError, match=r"the stream returned by process\(\)"):
            SideOutputTransformation(input, TAG)


def test_a_cache_has_one_physical_input(
    source: SourceTransformation, process: OneInputTransformation
) -> None:
    for physical in [source, process]:
        cached = CacheTransformation(physical)
        assert cached.inputs == (physical,)
        assert cached.physical_input is physical
    side = SideOutputTransformation(process, TAG)
    cached = CacheTransformation(side)
    assert cached.inputs == (side,)
    assert cached.physical_input is process
    assert CacheTransformation(cached).physical_input is process


def test_a_cache_of_what_is_no_output_gets_a_physical_input_of_its_own(
    source: SourceTransformation, process: OneInputTransformation
) -> None:
    for virtual in [UnionTransformation((source, process), "both"), keyed(source)]:
        cached = CacheTransformation(virtual)
        physical = cached.physical_input
        assert cached.input is physical
        assert isinstance(physical, OneInputTransformation)
        assert physical.operator == Identity()
        assert physical.input is virtual
        assert physical.name == virtual.name


def test_a_cache_is_named_for_what_it_keeps(
    source: SourceTransformation, process: OneInputTransformation
) -> None:
    assert CacheTransformation(source).name == "Cache: numbers"
    assert CacheTransformation(CacheTransformation(source)).name == "Cache: numbers"
    assert CacheTransformation(process).name == "Cache: Process"
    assert CacheTransformation(SideOutputTransformation(process, TAG)).name == (
        "Cache: Process, late"
    )
    assert CacheTransformation(process, "hot").name == "hot"


def test_a_transformation_shows_what_it_is(source: SourceTransformation) -> None:
    assert repr(source) == f"SourceTransformation(id={source.id}, name='Source: numbers')"

"""Transformations hold together what fits together, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import InvalidTransformationError
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
    SinkTransformation,
    SourceTransformation,
    Transformation,
    UnionTransformation,
)
from tests.unit.stream_programs import key, mapped, process, side, sink, source, union

Make = Callable[[Transformation], Transformation]


def keyed(input: Transformation) -> PartitionTransformation:
    return PartitionTransformation(input, HashByKey(key))


NAMED = SourceTransformation(range(3), "Source: numbers")
PROCESSED = OneInputTransformation(NAMED, Process(print))
VIRTUAL: dict[str, Make] = {
    "cache": CacheTransformation,
    "partition": keyed,
    "union": union,
    "side output": side,
}
CONSUMERS: dict[str, Make] = VIRTUAL | {"sink": sink, "operator": mapped}


def test_each_is_equal_to_itself_only() -> None:
    same = [mapped(NAMED) for _ in range(3)]
    assert len({each.id for each in same}) == len(set(same)) == 3
    assert repr(NAMED) == f"SourceTransformation(id={NAMED.id}, name='Source: numbers')"


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
def test_a_name_says_what_is_done(operator: Any, name: str) -> None:
    assert OneInputTransformation(keyed(NAMED), operator).name == name
    assert OneInputTransformation(keyed(NAMED), operator, "my own").name == "my own"


@pytest.mark.parametrize("parallelism", [0, -1, 1.5, True, "2"])
def test_a_parallelism_is_a_number_from_1(parallelism: Any) -> None:
    for make in (
        lambda: source(parallelism=parallelism),
        lambda: mapped(NAMED, parallelism=parallelism),
        lambda: SinkTransformation(NAMED, print, "Sink", parallelism),
        lambda: setattr(NAMED, "parallelism", parallelism),
    ):
        with pytest.raises(InvalidTransformationError, match="an integer >= 1"):
            make()
    assert NAMED.parallelism is None


@pytest.mark.parametrize("what", VIRTUAL)
def test_what_has_no_subtasks_takes_no_parallelism(what: str) -> None:
    virtual = VIRTUAL[what](PROCESSED)
    with pytest.raises(InvalidTransformationError, match="runs in its input's subtasks"):
        virtual.parallelism = 2
    assert virtual.parallelism is None


@pytest.mark.parametrize("what", CONSUMERS)
def test_nothing_comes_out_of_a_sink(what: str) -> None:
    with pytest.raises(InvalidTransformationError, match="'Sink: Print' is a sink"):
        CONSUMERS[what](sink(NAMED, "Sink: Print"))


def test_a_union_is_of_something() -> None:
    with pytest.raises(InvalidTransformationError, match="at least one stream"):
        UnionTransformation(())


@pytest.mark.parametrize(
    "operator",
    [Reduce(key, max), Aggregate(key, AggregateKind.MIN, "n"), KeyedProcess(key, print)],
    ids=lambda each: type(each).__name__,
)
def test_a_keyed_operator_takes_what_is_partitioned_by_its_key(operator: Any) -> None:
    OneInputTransformation(keyed(NAMED), operator)
    for input in (
        NAMED,
        PartitionTransformation(NAMED, Rebalance()),
        PartitionTransformation(NAMED, HashByKey(str)),
        PartitionTransformation(keyed(NAMED), Rebalance()),
        union(keyed(NAMED), keyed(NAMED)),
        CacheTransformation(keyed(NAMED)),
    ):
        with pytest.raises(InvalidTransformationError, match=r"expected a stream from key_by\(\)"):
            OneInputTransformation(input, operator)


def test_only_processing_has_side_outputs() -> None:
    for input in (PROCESSED, OneInputTransformation(keyed(NAMED), KeyedProcess(key, print))):
        assert side(input).input is input
    for other in (NAMED, mapped(NAMED), *(make(PROCESSED) for make in VIRTUAL.values())):
        with pytest.raises(InvalidTransformationError, match=r"the stream returned by process\(\)"):
            side(other)


def test_a_cache_has_one_physical_input() -> None:
    late = side(PROCESSED)
    for input, physical in ((NAMED, NAMED), (PROCESSED, PROCESSED), (late, PROCESSED)):
        cached = CacheTransformation(input)
        assert (cached.inputs, cached.physical_input) == ((input,), physical)
        assert CacheTransformation(cached).physical_input is physical
    for virtual in (union(NAMED, PROCESSED), keyed(NAMED)):
        own = CacheTransformation(virtual).physical_input
        assert isinstance(own, OneInputTransformation)
        assert (own.operator, own.input, own.name) == (Identity(), virtual, virtual.name)


def test_a_cache_is_named_for_what_it_keeps() -> None:
    cache = CacheTransformation(NAMED)
    assert cache.name == CacheTransformation(cache).name == "Cache: numbers"
    assert CacheTransformation(process(NAMED)).name == "Cache: process"
    assert CacheTransformation(side(PROCESSED)).name == "Cache: Process, late"
    assert CacheTransformation(PROCESSED, "hot").name == "hot"

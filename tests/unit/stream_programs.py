"""What the tests of streams' graphs make their programs of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.functions.output_tag import OutputTag
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.operators import Map, Process, Reduce
from holdfast.graph.stream.partitioner import HashByKey
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


def side(input: Transformation, name: str | None = None) -> SideOutputTransformation:
    return SideOutputTransformation(input, TAG, *([] if name is None else [name]))


def union(*inputs: Transformation, name: str = "union") -> UnionTransformation:
    return UnionTransformation(inputs, name)


def reduced(
    input: Transformation,
    name: str = "reduce",
    key: Callable[[Any], Any] = key,
    parallelism: int | None = None,
) -> OneInputTransformation:
    keyed = PartitionTransformation(input, HashByKey(key), f"key {name}")
    return OneInputTransformation(keyed, Reduce(key, max), name, parallelism)


def sink(input: Transformation, name: str = "sink") -> SinkTransformation:
    return SinkTransformation(input, print, name)


def cached(
    input: Transformation, name: str = "cache", created: int | None = None
) -> CacheTransformation:
    """A cached stream.

    Args:
        input: what is cached.
        name: its own.
        created: the parallelism of what is kept; None: nothing is.
    """
    cache = CacheTransformation(input, name)
    if created is not None:
        cache.descriptor = IntermediateDataSetDescriptor(DATASET, created, ())
    return cache

"""What a person has asked of streams, to be printed or drawn."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.graph.diagram.diagram import Arrow, Box, Diagram, Part, PartKind
from holdfast.graph.stream.topological_order import topological_order
from holdfast.graph.stream.transformations import (
    CacheTransformation,
    OneInputTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
)

_KINDS = {
    SourceTransformation: PartKind.SOURCE,
    OneInputTransformation: PartKind.OPERATOR,
    SinkTransformation: PartKind.SINK,
    CacheTransformation: PartKind.CACHE,
}


def transformations_diagram(roots: Iterable[Transformation]) -> Diagram:
    """All transformations that something is made from.

    Args:
        roots: the last ones, as a rule sinks.
    """
    ordered = topological_order(roots, lambda each: each.inputs)
    numbers = {each: number for number, each in enumerate(ordered, 1)}
    boxes = tuple(
        Box(number, (Part(each.name, _kind(each)),), _facts(each))
        for each, number in numbers.items()
    )
    arrows = tuple(
        Arrow(numbers[input], number) for each, number in numbers.items() for input in each.inputs
    )
    return Diagram("Transformations", boxes, arrows)


def _kind(transformation: Transformation) -> PartKind:
    if isinstance(transformation, CacheTransformation) and transformation.descriptor is not None:
        return PartKind.CACHE_READER
    return _KINDS.get(type(transformation), PartKind.VIRTUAL)


def _facts(transformation: Transformation) -> tuple[str, ...]:
    facts = [type(transformation).__name__]
    if isinstance(transformation, PartitionTransformation):
        facts.append(transformation.partitioner.label)
    if isinstance(transformation, SideOutputTransformation):
        facts.append(f"tag {transformation.tag.tag_id!r}")
    if isinstance(transformation, CacheTransformation):
        facts.append("not created" if transformation.descriptor is None else "created")
        if transformation.dataset_id is not None:
            facts.append(f"dataset {transformation.dataset_id}")
    if transformation.parallelism is not None:
        facts.append(f"parallelism {transformation.parallelism}")
    return tuple(facts)

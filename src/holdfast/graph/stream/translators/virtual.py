"""Unions, partitions and side outputs: none becomes a node, each marks edges."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.graph.stream.transformations import (
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from holdfast.graph.stream.translators.translation import Outlet, Translation


class UnionTransformationTranslator:
    """A union's consumer takes its records from all the inputs."""

    def needs(self, transformation: UnionTransformation) -> tuple[Transformation, ...]:
        """Its inputs."""
        return transformation.inputs

    def translate(
        self, transformation: UnionTransformation, translation: Translation
    ) -> Iterable[Outlet]:
        """Adds nothing.

        Args:
            transformation: the union.
            translation: the graph in the making.
        """
        for each in transformation.inputs:
            yield from translation.outlets(each)


class PartitionTransformationTranslator:
    """A partition says how records travel to its consumers."""

    def needs(self, transformation: PartitionTransformation) -> tuple[Transformation, ...]:
        """Its input."""
        return transformation.inputs

    def translate(
        self, transformation: PartitionTransformation, translation: Translation
    ) -> Iterable[Outlet]:
        """Adds nothing.

        Args:
            transformation: the partition.
            translation: the graph in the making.
        """
        for outlet in translation.outlets(transformation.input):
            yield Outlet(outlet.node, transformation.partitioner, outlet.tag)


class SideOutputTransformationTranslator:
    """A side output says which records of its input travel to its consumers."""

    def needs(self, transformation: SideOutputTransformation) -> tuple[Transformation, ...]:
        """The operator that it is an output of."""
        return transformation.inputs

    def translate(
        self, transformation: SideOutputTransformation, translation: Translation
    ) -> Iterable[Outlet]:
        """Adds nothing.

        Args:
            transformation: the side output.
            translation: the graph in the making.
        """
        for outlet in translation.outlets(transformation.input):
            yield Outlet(outlet.node, outlet.partitioner, transformation.tag)

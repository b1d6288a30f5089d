"""Sources, operators and sinks: each becomes a node."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.graph.stream.operators import Identity
from holdfast.graph.stream.stream_graph import ChainingStrategy, SinkWrite, SourceRead
from holdfast.graph.stream.transformations import (
    OneInputTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
)
from holdfast.graph.stream.translators.translation import Outlet, Translation


class SourceTransformationTranslator:
    """A source begins a chain."""

    def needs(self, transformation: SourceTransformation) -> tuple[Transformation, ...]:
        """Nothing."""
        return ()

    def translate(
        self, transformation: SourceTransformation, translation: Translation
    ) -> Iterable[Outlet]:
        """Adds a node.

        Args:
            transformation: the source.
            translation: the graph in the making.
        """
        node = translation.add_node(
            transformation.name,
            transformation.parallelism or translation.default_parallelism,
            ChainingStrategy.HEAD,
            SourceRead(transformation.source),
        )
        return (Outlet(node),)


class OneInputTransformationTranslator:
    """An operator is chained to its input where that is possible."""

    def needs(self, transformation: OneInputTransformation) -> tuple[Transformation, ...]:
        """Its input."""
        return transformation.inputs

    def translate(
        self, transformation: OneInputTransformation, translation: Translation
    ) -> Iterable[Outlet]:
        """Adds a node.

        Args:
            transformation: the operator.
            translation: the graph in the making.
        """
        inputs = translation.outlets(transformation.input)
        parallelism = transformation.parallelism or translation.default_parallelism
        found = {outlet.node.parallelism for outlet in inputs}
        # Nobody has asked for this node: where it can, it moves nothing.
        if isinstance(transformation.operator, Identity) and len(found) == 1:
            (parallelism,) = found
        node = translation.add_node(
            transformation.name,
            parallelism,
            ChainingStrategy.ALWAYS,
            transformation.operator,
            inputs,
        )
        return (Outlet(node),)


class SinkTransformationTranslator:
    """A sink is chained to its input where that is possible."""

    def needs(self, transformation: SinkTransformation) -> tuple[Transformation, ...]:
        """Its input."""
        return transformation.inputs

    def translate(
        self, transformation: SinkTransformation, translation: Translation
    ) -> Iterable[Outlet]:
        """Adds a node, which nothing comes out of.

        Args:
            transformation: the sink.
            translation: the graph in the making.
        """
        translation.add_node(
            transformation.name,
            transformation.parallelism or translation.default_parallelism,
            ChainingStrategy.ALWAYS,
            SinkWrite(transformation.sink),
            translation.outlets(transformation.input),
        )
        return ()

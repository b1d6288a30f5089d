"""A cache: a node where it is to be created, a source where it has been."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.stream_graph import CacheNode, CacheReaderSource, ChainingStrategy
from holdfast.graph.stream.transformations import CacheTransformation, Transformation
from holdfast.graph.stream.translators.translation import Outlet, Translation


class CacheTransformationTranslator:
    """Creates or reads a cache. For one graph: what it saw of a cache stays so for that graph.

    Source: FLIP-205, "DataStream -> Stream Graph".
    """

    def __init__(self) -> None:
        self._seen: dict[CacheTransformation, IntermediateDataSetDescriptor | None] = {}

    def needs(self, transformation: CacheTransformation) -> tuple[Transformation, ...]:
        """Its input, where the cache has not been created; otherwise nothing.

        Args:
            transformation: the cache.
        """
        return transformation.inputs if self._descriptor(transformation) is None else ()

    def translate(
        self, transformation: CacheTransformation, translation: Translation
    ) -> Iterable[Outlet]:
        """Adds a CacheNode of its input's parallelism, or a CacheReaderSource of its producer's.

        Args:
            transformation: the cache.
            translation: the graph in the making.
        """
        descriptor = self._descriptor(transformation)
        if descriptor is not None:
            reader = translation.add_node(
                transformation.name,
                descriptor.parallelism,
                ChainingStrategy.HEAD,
                CacheReaderSource(transformation, descriptor),
            )
            return (Outlet(reader),)
        inputs = translation.outlets(transformation.input)
        if isinstance(transformation.input, CacheTransformation):
            # It is cached already, under that transformation.
            return inputs
        (produced,) = inputs
        node = translation.add_node(
            transformation.name,
            produced.node.parallelism,
            ChainingStrategy.HEAD,
            CacheNode(transformation),
            inputs,
        )
        return (Outlet(node),)

    def _descriptor(
        self, transformation: CacheTransformation
    ) -> IntermediateDataSetDescriptor | None:
        # Another thread may populate or invalidate it at any time.
        return self._seen.setdefault(transformation, transformation.descriptor)

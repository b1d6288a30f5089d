"""Makes a stream graph of transformations: a translator for each type of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.errors import InvalidTransformationError, NoSinksError
from holdfast.graph.stream.stream_graph import StreamGraph
from holdfast.graph.stream.topological_order import topological_order
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
from holdfast.graph.stream.translators.cache import CacheTransformationTranslator
from holdfast.graph.stream.translators.physical import (
    OneInputTransformationTranslator,
    SinkTransformationTranslator,
    SourceTransformationTranslator,
)
from holdfast.graph.stream.translators.translation import TransformationTranslator, Translation
from holdfast.graph.stream.translators.virtual import (
    PartitionTransformationTranslator,
    SideOutputTransformationTranslator,
    UnionTransformationTranslator,
)


class StreamGraphGenerator:
    """Makes stream graphs. Pure: what is cached is told by the transformations' descriptors.

    Source: FLIP-205, "DataStream -> Stream Graph".

    Args:
        default_parallelism: of the transformations whose parallelism nobody has set; from 1.
        transformations: what the job is for, as a rule its sinks; a cache among them is created.
            All that they are made from comes along.

    Raises:
        InvalidTransformationError: when the default parallelism is not a number from 1.
        NoSinksError: when there is no transformation.

    >>> from holdfast.graph.stream.operators import Map
    >>> source = SourceTransformation(range(3), "Source: numbers")
    >>> sink = SinkTransformation(OneInputTransformation(source, Map(str)), print, "Print")
    >>> print(StreamGraphGenerator(2, [sink]).generate().text)
    StreamGraph
    [1] Source: numbers (parallelism 2, HEAD)
    [2] Map (parallelism 2, ALWAYS)
        <- [1] FORWARD
    [3] Print (parallelism 2, ALWAYS)
        <- [2] FORWARD
    """

    def __init__(self, default_parallelism: int, transformations: Iterable[Transformation]) -> None:
        self._default_parallelism = default_parallelism
        self._transformations = tuple(transformations)
        if not self._transformations:
            raise NoSinksError()
        if type(default_parallelism) is not int or default_parallelism < 1:
            raise InvalidTransformationError(
                self._transformations[-1].name,
                f"the default parallelism is {default_parallelism!r}: expected an integer >= 1",
            )

    def generate(self) -> StreamGraph:
        """The graph of the transformations, by the descriptors that they have at this time.

        Raises:
            InvalidTransformationError: when transformations don't fit each other, or one is of a
                type that nobody has written a translator for.
        """
        translation = Translation(self._default_parallelism)
        translators = _Translators()
        for each in topological_order(
            self._transformations, lambda each: translators.of(each).needs(each)
        ):
            translation.finish(each, translators.of(each).translate(each, translation))
        return translation.graph


class _Translators:
    def __init__(self) -> None:
        self._by_type: Mapping[type[Transformation], TransformationTranslator[Any]] = {
            SourceTransformation: SourceTransformationTranslator(),
            OneInputTransformation: OneInputTransformationTranslator(),
            SinkTransformation: SinkTransformationTranslator(),
            UnionTransformation: UnionTransformationTranslator(),
            PartitionTransformation: PartitionTransformationTranslator(),
            SideOutputTransformation: SideOutputTransformationTranslator(),
            CacheTransformation: CacheTransformationTranslator(),
        }

    def of(self, transformation: Transformation) -> TransformationTranslator[Any]:
        found = self._by_type.get(type(transformation))
        if found is None:
            known = ", ".join(each.__name__ for each in self._by_type)
            raise InvalidTransformationError(
                transformation.name,
                f"no translator for {type(transformation).__name__}: expected one of {known}",
            )
        return found

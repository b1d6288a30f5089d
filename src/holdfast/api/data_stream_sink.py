"""A sink that was added to a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.api.stream_arguments import check_text
from holdfast.graph.stream.transformations import SinkTransformation

if TYPE_CHECKING:
    from typing_extensions import Self


class DataStreamSink:
    """A sink that the next ``env.execute()`` runs; returned by ``print`` and ``sink_to``.

    Args:
        transformation: The sink.

    Source: PyFlink, ``DataStreamSink``.

    Example:
        >>> env.from_collection([1]).print().name("numbers").set_parallelism(1)
        DataStreamSink('numbers')
    """

    def __init__(self, transformation: SinkTransformation) -> None:
        self._transformation = transformation

    def name(self, name: str) -> Self:
        """Names the sink: in plans, results and error messages.

        Args:
            name: A non-empty string.

        Raises:
            holdfast.errors.InvalidStreamArgumentError: It is empty or not a string.

        Source: PyFlink, ``DataStreamSink.name``.

        Example:
            >>> sink = env.from_collection([1]).print().name("numbers")
        """
        self._transformation.name = check_text("name()", name)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the parallelism of the sink.

        Args:
            parallelism: At least 1.

        Raises:
            holdfast.errors.InvalidTransformationError: It is not an integer >= 1.

        Source: PyFlink, ``DataStreamSink.set_parallelism``.

        Example:
            >>> sink = env.from_collection([1]).print().set_parallelism(1)
        """
        self._transformation.parallelism = parallelism
        return self

    def __repr__(self) -> str:
        return f"DataStreamSink({self._transformation.name!r})"

"""A stream whose records are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.api.data_stream import DataStream
from holdfast.errors import InvalidTransformationError
from holdfast.graph.stream.transformations import CacheTransformation

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from typing_extensions import Never, Self

    from holdfast.api.stream_context import StreamContext


class CachedDataStream(DataStream):
    """A stream whose records are kept, as returned by :meth:`DataStream.cache`.

    It is a stream in every respect. The first job that contains its computation leaves the records
    behind; every later job reads them. Lost records are recomputed automatically. As a
    context manager it is kept until the end of the block.

    Args:
        transformation: The cache transformation.
        context: The environment that runs its jobs.

    Source: FLIP-205; PyFlink's ``CachedDataStream``.

    Example:
        >>> with env.from_collection(range(3)).map(str).cache() as hot:
        ...     list(hot.execute_and_collect())
        ['0', '1', '2']
    """

    _transformation: CacheTransformation

    def __init__(self, transformation: CacheTransformation, context: StreamContext) -> None:
        super().__init__(transformation, context)

    def cache(self, lifetime: timedelta | str | None = None) -> CachedDataStream:
        """Returns this stream, which is already cached.

        Args:
            lifetime: For how long, as in :meth:`DataStream.cache`; the longer one counts.

        Source: FLIP-205, "DataStream -> Stream Graph".

        Example:
            >>> hot = env.from_collection(range(3)).cache()
            >>> hot.cache() is hot
            True
        """
        return self._context.cache(self, lifetime)

    def invalidate(self) -> None:
        """Drops what is kept of this stream; the next job that needs it recomputes it.

        It then lists its sources again. Does nothing if nothing is kept.

        Source: FLIP-205; PyFlink, ``CachedDataStream.invalidate``.

        Example:
            >>> hot = env.from_collection(range(3)).cache()
            >>> hot.invalidate()
        """
        self._context.invalidate(self)

    def name(self, name: str) -> Never:
        """Not supported: a cached stream has the name of the stream that `cache` was called on.

        Raises:
            holdfast.errors.InvalidTransformationError: Always.

        Source: PyFlink, ``CachedDataStream.name``.
        """
        raise InvalidTransformationError(
            self._transformation.name,
            "a cached stream has its producer's name: expected name() before cache()",
        )

    def set_parallelism(self, parallelism: int) -> Never:
        """Not supported: the parallelism is that of the stream that `cache` was called on.

        Raises:
            holdfast.errors.InvalidTransformationError: Always.

        Source: PyFlink, ``CachedDataStream.set_parallelism``.
        """
        raise InvalidTransformationError(
            self._transformation.name,
            "a cached stream has its producer's parallelism: expected set_parallelism() before "
            "cache()",
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._context.forget(self)

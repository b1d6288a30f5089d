"""The interface of an environment to its streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from datetime import timedelta

    from holdfast.api.cached_data_stream import CachedDataStream
    from holdfast.api.closeable_iterator import CloseableIterator
    from holdfast.api.data_stream import DataStream
    from holdfast.api.environment import Environment
    from holdfast.api.keyed_stream import KeyedStream
    from holdfast.graph.stream.transformations import SinkTransformation


class StreamContext(Protocol):
    """The interface of an environment to its streams.

    Every stream belongs to one context. Combining streams needs it only to create streams of
    another class; whatever runs Spark uses one of the other methods.

    Source: FLIP-205, "DataStream -> Stream Graph".
    """

    @property
    def environment(self) -> Environment:
        """The environment."""

    def keyed(self, stream: DataStream, key_selector: Any) -> KeyedStream:
        """Returns a stream that is partitioned by key.

        Args:
            stream: The stream to partition.
            key_selector: A KeySelector, or a callable for a record.
        """

    def cache(self, stream: DataStream, lifetime: timedelta | str | None) -> CachedDataStream:
        """Marks a stream to be kept by the first job that needs it. Runs nothing.

        Args:
            stream: The stream to keep; of one that is cached already the longer lifetime counts.
            lifetime: For how long; None for what is configured.

        Raises:
            holdfast.errors.ConfigurationError: The lifetime is none.
            holdfast.errors.EnvironmentClosedError: The environment has been closed.
            holdfast.errors.StreamNotShareableError: Other users read what has a lifetime.
        """

    def invalidate(self, stream: CachedDataStream) -> None:
        """Drops what is kept of a stream; the next job that needs it recomputes it.

        Args:
            stream: The stream, which remains cached.
        """

    def forget(self, stream: CachedDataStream) -> None:
        """Drops what is kept of a stream, which is no longer cached.

        Args:
            stream: The stream.
        """

    def add_sink(self, sink: SinkTransformation) -> None:
        """Adds a sink for the next `execute` to run.

        Args:
            sink: The sink, on a stream of this context.

        Raises:
            holdfast.errors.EnvironmentClosedError: The environment has been closed.
        """

    def collect(self, stream: DataStream, job_name: str) -> CloseableIterator:
        """Returns the records of a stream one by one, as one job that starts with the first.

        Args:
            stream: The stream to read.
            job_name: The name of the job.

        Raises:
            holdfast.errors.EnvironmentClosedError: The environment has been closed.
        """

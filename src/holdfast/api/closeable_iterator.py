"""An iterator over the records of a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class _Records(Protocol):
    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def close(self) -> None: ...


class CloseableIterator(Iterator[Any]):
    """The records of a stream, one by one; closing it cancels the job that computes them.

    The job starts when the first record is requested, and computes little more than what is
    read. At its end, the iterator closes itself.

    Args:
        records: The underlying iterator.

    Source: PyFlink, ``CloseableIterator``.

    Example:
        >>> with env.from_collection(range(1000)).execute_and_collect() as records:
        ...     next(records)
        0
    """

    def __init__(self, records: _Records) -> None:
        self._records = records

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._records)

    def next(self) -> Any:
        """Returns the next record, as ``next(records)`` does.

        Raises:
            StopIteration: There is none left, or the iterator has been closed.
        """
        return next(self)

    def close(self) -> None:
        """Cancels the job if it is running. No more records follow."""
        self._records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

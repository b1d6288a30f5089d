"""The records of a stream, one by one, until somebody has had enough of them."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

__all__ = ["CollectedRecords"]


class CollectedRecords(Iterator[Any]):
    """An iterator that can be closed before its end, which ends the job behind it.

    Args:
        records: a generator, whose end releases all that it holds.
    """

    def __init__(self, records: Iterator[Any]) -> None:
        self._records: Any = records

    def __next__(self) -> Any:
        return next(self._records)

    def close(self) -> None:
        """Ends the job, if it runs. Does nothing the second time."""
        self._records.close()

    def __enter__(self) -> CollectedRecords:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

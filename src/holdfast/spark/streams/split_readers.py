"""What reads the splits of sources, in the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.functions.source import Source
from holdfast.streaming.record_pickling import unpickled

__all__ = ["CollectionReader", "CollectionSplits", "SourceReader"]


@dataclass(frozen=True)
class SourceReader:
    """Reads several splits of a source one after the other.

    Args:
        source: the source.
        version: of what it reads.
    """

    source: Source
    version: Any

    def read(self, splits: tuple[Any, ...]) -> Iterator[Any]:
        """The records of splits.

        Args:
            splits: some of the source's.
        """
        for split in splits:
            yield from self.source.read(split)


class CollectionSplits:
    """The pickled records of a collection, divided among subtasks. It counts as its content.

    Args:
        content: what stands for it in digests.
        splits: for each subtask payloads; or a broadcast variable with these.
    """

    def __init__(self, content: object, splits: Any) -> None:
        self._content = content
        self._splits = splits

    def __holdfast_digest__(self) -> object:
        """What stands for the content."""
        return self._content

    def of(self, subtask: int) -> tuple[bytes, ...]:
        """The payloads of a subtask.

        Args:
            subtask: its index.
        """
        payloads: tuple[bytes, ...] = getattr(self._splits, "value", self._splits)[subtask]
        return payloads


@dataclass(frozen=True)
class CollectionReader:
    """Reads a collection.

    Args:
        splits: its records.
    """

    splits: CollectionSplits

    def read(self, subtask: int) -> Iterator[Any]:
        """The records of a subtask.

        Args:
            subtask: its index.
        """
        for payload in self.splits.of(subtask):
            yield from unpickled(payload)

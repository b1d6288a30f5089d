"""Source: reads the records of a stream."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["NumberSequenceSource", "Source"]


class Source(ABC):
    """Reads records in splits, each of which one task reads.

    A source is identified by its class's code, its attributes and its `version()`: streams from
    sources that agree in all of them are the same computation, and share kept results.

    Source: FLIP-27, "Separating Split Enumerator from Readers", for bounded data.

    >>> class Lines(Source):
    ...     def __init__(self, text):
    ...         self.text = text
    ...     def enumerate_splits(self, parallelism):
    ...         return self.text.split("\\n")
    ...     def read(self, split):
    ...         yield split
    >>> lines = Lines("to be\\nor not")
    >>> [list(lines.read(split)) for split in lines.enumerate_splits(2)]
    [['to be'], ['or not']]
    """

    @abstractmethod
    def enumerate_splits(self, parallelism: int) -> Sequence[Any]:
        """Returns the splits to read. Called in the driver.

        Args:
            parallelism: the number of reading subtasks.

        Returns:
            picklable splits, in the order of the records. A subtask gets adjacent ones.
        """

    @abstractmethod
    def read(self, split: Any) -> Iterator[Any]:
        """Reads a split. Called in a task, on a copy of this source.

        Args:
            split: one of `enumerate_splits`.

        Returns:
            its records. A generator runs only as far as its records are taken.
        """

    def version(self) -> Any:
        """Returns the version of the content.

        Called in the driver, each time that the stream is recomputed.

        Returns:
            for example a modification time or a snapshot id. None: the content never changes.
        """
        return None


class NumberSequenceSource(Source):
    """The integers from one to another.

    Args:
        start: the first.
        end: the last.

    Raises:
        ValueError: when one isn't an integer.

    Source: PyFlink, `pyflink.datastream.connectors.number_seq.NumberSequenceSource`.

    >>> numbers = NumberSequenceSource(1, 5)
    >>> [list(numbers.read(split)) for split in numbers.enumerate_splits(2)]
    [[1, 2], [3, 4, 5]]
    """

    def __init__(self, start: int, end: int) -> None:
        for number in (start, end):
            if type(number) is not int:
                raise ValueError(
                    f"NumberSequenceSource({start!r}, {end!r}): expected the first and the last "
                    "integer"
                )
        self.start = start
        self.end = end

    def enumerate_splits(self, parallelism: int) -> Sequence[Any]:
        """A range of about equal length for each subtask.

        Args:
            parallelism: the number of reading subtasks.
        """
        count = max(0, self.end - self.start + 1)
        bounds = [self.start + count * index // parallelism for index in range(parallelism + 1)]
        return [range(first, after) for first, after in itertools.pairwise(bounds)]

    def read(self, split: Any) -> Iterator[Any]:
        """The numbers of a range.

        Args:
            split: the range.
        """
        return iter(split)

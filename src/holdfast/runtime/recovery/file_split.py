"""A part of a file that a subtask reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class FileSplit:
    """A part of a version of a file.

    Attributes:
        path: of the file, as the engine calls it.
        start: where the part starts, in bytes.
        length: of the part, in bytes.
        modified: the file's modification time, in ms since 1970.

    Raises:
        ValueError: when the start or the length is negative.
    """

    path: str
    start: int
    length: int
    modified: int

    def __post_init__(self) -> None:
        if self.start < 0 or self.length < 0:
            raise ValueError(
                f"expected a start and a length of a split of {self.path}, "
                f"got {self.start} and {self.length}"
            )

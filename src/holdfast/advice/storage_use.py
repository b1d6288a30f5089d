"""What reading kept rows took, and writing them: the measure of what was estimated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StorageUse:
    """One time that a query read a part's rows of what is kept, or wrote them to be kept.

    Attributes:
        key: of the part, see `PlanPart`.
        is_write: it wrote them, beside computing them.
        bytes: of the columns that the query uses, as estimated.
        seconds: of tasks, that it took.
        computing: seconds of tasks that it takes to compute the part.
    """

    key: str
    is_write: bool
    bytes: int
    seconds: float
    computing: float

    @property
    def is_wrong(self) -> bool:
        """Whether computing the rows would have taken less than reading them.

        >>> StorageUse("join", False, 2**20, seconds=3.0, computing=2.0).is_wrong
        True
        """
        return not self.is_write and self.seconds > self.computing

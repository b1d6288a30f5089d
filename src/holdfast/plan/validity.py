"""Where a digest stands for the same rows."""

from __future__ import annotations

from enum import Enum


class Validity(Enum):
    """Where a digest stands for the same rows, from everywhere to nowhere."""

    ANYWHERE = "in any program"
    USER = "in programs of this user alone"
    """The rows are the same anywhere, but others may not see what they were made from."""
    SESSION = "in this session alone"
    """What is read is known to nobody else, such as the rows of an RDD."""
    NODE = "in this very plan"
    """The rows are not determined by what is known of the plan: it has been given a salt."""
    NOWHERE = "nowhere"
    """There are no rows: they are not kept."""

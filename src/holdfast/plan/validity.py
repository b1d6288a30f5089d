"""Where a digest stands for the same rows."""

from __future__ import annotations

from enum import Enum


class Validity(Enum):
    """Where a digest stands for the same rows, from everywhere to hardly anywhere."""

    ANYWHERE = "in any program"
    SESSION = "in this session alone"
    """What is read is known to nobody else, such as the rows of an RDD."""
    NODE = "in this very plan"
    """The rows are not determined by what is known of the plan: it has been given a salt."""

"""What a write does with what its target holds already."""

from __future__ import annotations

from enum import Enum

__all__ = ["SinkMode"]


class SinkMode(Enum):
    """A save mode, by Spark's names.

    >>> SinkMode("ErrorIfExists")
    <SinkMode.ERROR: 'ErrorIfExists'>
    """

    APPEND = "Append"
    OVERWRITE = "Overwrite"
    ERROR = "ErrorIfExists"
    IGNORE = "Ignore"

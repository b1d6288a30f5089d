"""A place between two events of a log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place between two events of a log.

    Attributes:
        events: how many events are before it.
        checksum: of the record before it, into which all before that have gone. What is written
            from here on fits no log with another past.

    >>> START
    LogPosition(events=0, checksum=0)
    """

    events: int
    checksum: int


START = LogPosition(0, 0)
"""Before the first event."""

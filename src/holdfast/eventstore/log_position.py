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
        epoch: that wrote this record; 0 at the start of a log.

    >>> START
    LogPosition(events=0, checksum=0, epoch=0)
    """

    events: int
    checksum: int
    epoch: int


START = LogPosition(0, 0, 0)
"""Before the first event."""

"""Which of the target's subtasks a record goes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar


class Partitioner:
    """The base of all partitioners.

    Attributes:
        label: how an edge is marked that records travel along in this way.
    """

    __slots__ = ()

    label: ClassVar[str]


@dataclass(frozen=True, slots=True)
class Forward(Partitioner):
    """To the subtask of the same index: nothing moves."""

    label: ClassVar[str] = "FORWARD"


@dataclass(frozen=True, slots=True)
class Rebalance(Partitioner):
    """To all subtasks in turn."""

    label: ClassVar[str] = "REBALANCE"


@dataclass(frozen=True, slots=True)
class HashByKey(Partitioner):
    """To the subtask that all records of the same key go to.

    Attributes:
        key_selector: a KeySelector, or anything that can be called with a record.
    """

    label: ClassVar[str] = "HASH"

    key_selector: Any

"""Subtask: which of an operator's parallel subtasks a task is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Subtask"]


@dataclass(frozen=True, slots=True)
class Subtask:
    """One of the parallel subtasks of a pass.

    Attributes:
        index: which one, from 0.
        parallelism: how many there are.
    """

    index: int
    parallelism: int

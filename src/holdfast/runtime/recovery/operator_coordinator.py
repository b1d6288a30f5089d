"""Who hands out the work of a vertex's subtasks, and knows what of it is done."""

from __future__ import annotations

from typing import Protocol


class OperatorCoordinator(Protocol):
    """Hands out the work of a vertex's subtasks; its state outlives the driver in snapshots.

    What a subtask was given it is given at each start, so that one that has finished stays so
    whether or not a snapshot was taken since.

    Source: FLIP-383; Flink's interface of the same name.
    """

    def snapshot(self) -> bytes | None:
        """The state, as `restore` takes it.

        Returns:
            that; None when this coordinator can't take snapshots, so that after a crash all of its
            vertex runs again, or nothing.
        """

    def restore(self, snapshot: bytes) -> None:
        """Goes back to a state. Comes before anything is asked; what has finished is told next.

        Args:
            snapshot: what `snapshot` gave, perhaps in another process.

        Raises:
            ValueError: when it is none of this coordinator's.
        """

    def subtask_finished(self, subtask: int) -> None:
        """A subtask has done all of its work.

        Args:
            subtask: which one, from zero.
        """

    def subtask_reset(self, subtask: int) -> None:
        """A subtask starts again: what it was given is to be done once more.

        Args:
            subtask: which one, from zero.
        """

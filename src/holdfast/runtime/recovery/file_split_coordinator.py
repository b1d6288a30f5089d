"""Which parts of which files each subtask of a source reads: listed once, and kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.runtime.recovery.file_split import FileSplit

Assignment = tuple[tuple[FileSplit, ...], ...]
"""By subtask what it reads, in the order in which it does."""


class _Snapshot(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Annotated[int, Field(ge=1, le=1)] = 1
    subtasks: tuple[tuple[tuple[str, int, int, int], ...], ...]
    finished: tuple[int, ...]


class FileSplitCoordinator:
    """Coordinates a source of files: lists the splits once, and knows which subtasks are done.

    What was listed stays, over any number of starts: a directory that gains files between a crash
    and the next start doesn't change what the subtasks read.

    Args:
        enumerate_splits: lists what each subtask reads. Called at most once, and not at all where
            a snapshot is restored.

    Source: FLIP-383; Flink's SourceCoordinator.

    >>> listed = [[FileSplit("a", 0, 10, 1)], [FileSplit("a", 10, 5, 1), FileSplit("b", 0, 3, 1)]]
    >>> coordinator = FileSplitCoordinator(lambda: listed)
    >>> coordinator.subtask_finished(1)
    >>> restarted = FileSplitCoordinator(lambda: [])
    >>> restarted.restore(coordinator.snapshot())
    >>> restarted.unfinished, restarted.split == coordinator.split
    ((0,), True)
    """

    def __init__(self, enumerate_splits: Callable[[], Sequence[Sequence[FileSplit]]]) -> None:
        self._enumerate = enumerate_splits
        self._listed: Assignment | None = None
        self._finished: set[int] = set()

    @property
    def parallelism(self) -> int:
        """How many subtasks there are."""
        return len(self._assignment)

    @property
    def split(self) -> str:
        """A text that is the same for the same splits in the same order, and for no others."""
        text = json.dumps([[_fields(each) for each in splits] for splits in self._assignment])
        return f"files:{self.parallelism}:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def unfinished(self) -> tuple[int, ...]:
        """The subtasks that are not done, in their order."""
        return tuple(each for each in range(self.parallelism) if each not in self._finished)

    def snapshot(self) -> bytes:
        """The splits, and who is done with them, as JSON."""
        subtasks = tuple(tuple(_fields(each) for each in splits) for splits in self._assignment)
        record = _Snapshot(subtasks=subtasks, finished=tuple(sorted(self._finished)))
        return record.model_dump_json().encode()

    def restore(self, snapshot: bytes) -> None:
        """Goes back to a state.

        Args:
            snapshot: what `snapshot` gave.

        Raises:
            ValueError: when it is no snapshot of files' splits. Nothing has been changed then.
        """
        try:
            record = _Snapshot.model_validate_json(snapshot)
        except ValidationError as error:
            raise ValueError(f"not a snapshot of file splits: {error}") from error
        if any(not 0 <= subtask < len(record.subtasks) for subtask in record.finished):
            raise ValueError(f"{record.finished} are not all among {len(record.subtasks)} subtasks")
        self._listed = tuple(
            tuple(FileSplit(*fields) for fields in splits) for splits in record.subtasks
        )
        self._finished = set(record.finished)

    def subtask_finished(self, subtask: int) -> None:
        """A subtask has read its splits.

        Raises:
            ValueError: when there is no such subtask.
        """
        self._finished.add(self._checked(subtask))

    def subtask_reset(self, subtask: int) -> None:
        """A subtask reads its splits again, the same ones.

        Raises:
            ValueError: when there is no such subtask.
        """
        self._finished.discard(self._checked(subtask))

    @property
    def _assignment(self) -> Assignment:
        if self._listed is None:
            self._listed = tuple(tuple(splits) for splits in self._enumerate())
        return self._listed

    def _checked(self, subtask: int) -> int:
        if not 0 <= subtask < self.parallelism:
            raise ValueError(f"expected one of {self.parallelism} subtasks, got {subtask}")
        return subtask


def _fields(split: FileSplit) -> tuple[str, int, int, int]:
    return split.path, split.start, split.length, split.modified

"""Which parts of which files each subtask of a source reads: dealt once, and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.runtime.recovery.file_split import FileSplit

Assignment = tuple[tuple[FileSplit, ...], ...]
"""By subtask what it reads, in the order in which it does."""


class _Snapshot(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Annotated[int, Field(ge=2, le=2)] = 2
    settings: Mapping[str, str]
    subtasks: tuple[tuple[tuple[str, int, int, int], ...], ...]
    finished: tuple[int, ...]


class FileSplitCoordinator:
    """Coordinates a source of files: knows what each subtask reads, and which subtasks are done.

    What was dealt stays over any number of starts: one that is restored reads under the settings
    of the first, so that its files are dealt to its subtasks as they were, whatever the settings
    and the number of cores have become.

    Source: FLIP-383; Flink's SourceCoordinator.

    >>> coordinator = FileSplitCoordinator()
    >>> coordinator.deal({"spark.sql.files.maxPartitionBytes": "10"}, [[FileSplit("a", 0, 10, 1)]])
    >>> restarted = FileSplitCoordinator()
    >>> restarted.restore(coordinator.snapshot())
    >>> restarted.settings, restarted.unfinished
    ({'spark.sql.files.maxPartitionBytes': '10'}, (0,))
    """

    def __init__(self) -> None:
        self._settings: Mapping[str, str] = {}
        self._assignment: Assignment = ()
        self._finished: set[int] = set()

    @property
    def settings(self) -> Mapping[str, str]:
        """The settings of Spark under which the files were dealt; none before they were."""
        return dict(self._settings)

    @property
    def unfinished(self) -> tuple[int, ...]:
        """The subtasks that are not done, in their order."""
        return tuple(each for each in range(len(self._assignment)) if each not in self._finished)

    def deal(self, settings: Mapping[str, str], assignment: Sequence[Sequence[FileSplit]]) -> None:
        """Spark has dealt the files. Where they aren't dealt as they were, nothing is done yet.

        Args:
            settings: of Spark, that decide how it deals files.
            assignment: by subtask what it reads, in the order in which it does.
        """
        dealt = tuple(map(tuple, assignment))
        if dealt != self._assignment:
            self._finished.clear()
        self._settings, self._assignment = dict(settings), dealt

    def snapshot(self) -> bytes | None:
        """The splits, and who is done with them, as JSON; None before they were dealt."""
        if not self._assignment:
            return None
        subtasks = tuple(tuple(map(_fields, splits)) for splits in self._assignment)
        record = _Snapshot(
            settings=self._settings, subtasks=subtasks, finished=tuple(sorted(self._finished))
        )
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
        assignment = tuple(
            tuple(FileSplit(*fields) for fields in splits) for splits in record.subtasks
        )
        self._settings, self._assignment = record.settings, assignment
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

    def _checked(self, subtask: int) -> int:
        number = len(self._assignment)
        if not 0 <= subtask < number:
            raise ValueError(f"expected one of {number} subtasks, got {subtask}")
        return subtask


def _fields(split: FileSplit) -> tuple[str, int, int, int]:
    return split.path, split.start, split.length, split.modified

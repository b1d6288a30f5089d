"""Which partitions the tasks of an output make: all of a dataset, or what is missing of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdfast.files.regular_file import text_of
from holdfast.taskexecutor.partitions.partition_info import PARTITIONS_LIMIT, OutputID

if TYPE_CHECKING:
    from typing_extensions import Self

OUTPUT_PART_NAME = "_part.json"


class OutputPart(BaseModel):
    """What an output is, noted beside its partitions before the first of them is written.

    A directory without this note was made by tasks alone, after the output had been given up.

    Attributes:
        version: of this record's form.
        whole: the name of the output that it makes a part of; its own where it stands alone.
        originals: for each task, by its place, the partition of the whole that it makes. None:
            the i-th task makes partition i.
        number_of_partitions: of the whole; None where that isn't known yet.

    Source: FLIP-383: of a vertex that is half done, only what is not finished runs again.

    >>> whole = OutputID.parse("00ff" * 16 + "-0badcafe")
    >>> OutputPart.missing_of(whole, [1, 4], 5).original(1)
    4
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    whole: str
    originals: tuple[int, ...] | None = None
    number_of_partitions: int | None = Field(default=None, ge=1, le=PARTITIONS_LIMIT)

    @classmethod
    def alone(cls, output: OutputID) -> Self:
        """An output whose tasks make all partitions."""
        return cls(whole=output.name)

    @classmethod
    def missing_of(
        cls, whole: OutputID, originals: Sequence[int], number_of_partitions: int
    ) -> Self:
        """An output whose tasks make some partitions of another one.

        Args:
            whole: the other one.
            originals: for each task the partition that it makes.
            number_of_partitions: of the other one.

        Raises:
            ValueError: when there are none, one is named twice, or is beyond their number.
        """
        return cls(
            whole=whole.name,
            originals=tuple(originals),
            number_of_partitions=number_of_partitions,
        )

    @field_validator("whole")
    @classmethod
    def _is_an_outputs_name(cls, name: str) -> str:
        return OutputID.parse(name).name

    @model_validator(mode="after")
    def _originals_are_partitions(self) -> Self:
        originals, number = self.originals, self.number_of_partitions
        if originals is None:
            return self
        if number is None or not originals or len(set(originals)) != len(originals):
            raise ValueError("expected at least one partition, each once, and their number")
        if not all(0 <= index < number for index in originals):
            raise ValueError(f"expected partitions from 0 below {number}")
        return self

    @property
    def of(self) -> OutputID:
        """The output that it makes a part of."""
        return OutputID.parse(self.whole)

    def original(self, task: int) -> int | None:
        """Which partition a task makes; None when there is no such task."""
        if self.originals is None:
            return task
        return self.originals[task] if task < len(self.originals) else None

    def write(self, directory: Path) -> None:
        """Notes it in an output's directory, before a task writes anything there.

        Raises:
            OSError: when the disk doesn't take it.
        """
        with (directory / OUTPUT_PART_NAME).open("x", encoding="utf-8") as file:
            file.write(self.model_dump_json(exclude_none=True))

    @classmethod
    def read(cls, directory: Path) -> OutputPart | None:
        """What is noted in an output's directory; None when there is no valid note."""
        try:
            return cls.model_validate_json(text_of(directory / OUTPUT_PART_NAME))
        except (OSError, UnicodeDecodeError, ValidationError):
            return None

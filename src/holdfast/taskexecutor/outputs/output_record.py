"""What a task executor lays beside a published output, for its own next start."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.files.regular_file import text_of
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.partitions.partition_info import PARTITIONS_LIMIT

OUTPUT_RECORD_NAME = "_output.json"


class OutputRecord(BaseModel):
    """What the manifest, which speaks of this machine alone, does not say.

    Attributes:
        version: of this record's form.
        number_of_partitions: of the whole dataset, on all executors.
        publication: which publishing it is a part of, for outputs that a later start may find.
        catalog: the identity of the catalog that it is held for, for outputs that one holds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    number_of_partitions: int = Field(ge=1, le=PARTITIONS_LIMIT)
    publication: Publication | None = None
    catalog: str | None = None

    def write(self, directory: Path) -> None:
        """Writes it to an output's directory, over an older one in one step.

        Raises:
            OSError: when the disk doesn't take it.
        """
        making = directory / f".{OUTPUT_RECORD_NAME}"
        making.write_text(self.model_dump_json(exclude_none=True), encoding="utf-8")
        making.replace(directory / OUTPUT_RECORD_NAME)

    @classmethod
    def read(cls, directory: Path) -> OutputRecord | None:
        """The record in an output's directory; None without a valid one."""
        try:
            return cls.model_validate_json(text_of(directory / OUTPUT_RECORD_NAME))
        except (OSError, UnicodeDecodeError, ValidationError):
            return None

"""One publishing of a dataset, on all task executors and in all outputs that it is made of."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from holdfast.taskexecutor.partitions.partition_info import PARTITIONS_LIMIT

if TYPE_CHECKING:
    from typing_extensions import Self


class Publication(BaseModel):
    """By which whoever finds the parts of a dataset knows when they are all there.

    Spark leaves no file of a task without rows, so the number of partitions doesn't tell.

    Attributes:
        token: tells it from every other publishing.
        files: how many partitions have a file, over all executors and outputs.
        number_of_partitions: of the dataset, those without a file included.

    >>> Publication.of(3, 8).files
    3
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: str = Field(pattern=r"^[0-9a-f]{32}$")
    files: int = Field(ge=1, le=PARTITIONS_LIMIT)
    number_of_partitions: int = Field(ge=1, le=PARTITIONS_LIMIT)

    @classmethod
    def of(cls, files: int, number_of_partitions: int) -> Self:
        """A new one."""
        return cls(token=uuid.uuid4().hex, files=files, number_of_partitions=number_of_partitions)

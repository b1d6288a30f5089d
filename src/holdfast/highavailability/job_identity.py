"""What a job is known by when its program is started again."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from holdfast.files.directory_identity import directory_identity
from holdfast.ids import JobID

if TYPE_CHECKING:
    from typing_extensions import Self

_DIGEST = re.compile(r"[0-9a-f]{64}")
_JOB_ID_DIGITS = 32


class JobIdentity(BaseModel):
    """What tells a job from all others, and is the same at each start of its program.

    Attributes:
        digest: 64 hexadecimal digits of the job graph, without the versions of files; None where
            the plan can't be told for sure, and the name has to do.
        name: what the person calls the job, so that it is found after its program has changed.
        occurrence: how many jobs of this name, or digest, with this action and sink the program has
            run before, from zero.
        action: what is done with the result, such as `collect` or `save`.
        sink: what the result is written to; None where it goes back to the program.
        vertices: the ids of the datasets that the job is cut into, in hexadecimal digits; a job
            that has changed is known by these.

    Raises:
        ValueError: when the digest or a vertex is none, or both digest and name are None.

    Source: FLIP-383 has none, since Flink's jobs keep the id that they were submitted with.

    >>> nightly = JobIdentity(digest=None, name="nightly", action="save", sink="file:/out")
    >>> nightly.job_id == nightly.model_copy(update={"digest": "00ff" * 16}).job_id
    True
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str | None
    name: str | None = None
    occurrence: int = Field(default=0, ge=0)
    action: str
    sink: str | None = None
    vertices: tuple[str, ...] = ()

    @field_validator("digest")
    @classmethod
    def _is_digest(cls, digest: str | None) -> str | None:
        if digest is not None and not _DIGEST.fullmatch(digest):
            raise ValueError(f"expected 64 hexadecimal digits in lower case, got {digest!r}")
        return digest

    @field_validator("vertices")
    @classmethod
    def _are_datasets(cls, vertices: tuple[str, ...]) -> tuple[str, ...]:
        for vertex in vertices:
            if not _DIGEST.fullmatch(vertex):
                raise ValueError(f"expected 64 hexadecimal digits in lower case, got {vertex!r}")
        return vertices

    @model_validator(mode="after")
    def _is_known_by_something(self) -> Self:
        if self.digest is None and self.name is None:
            raise ValueError("expected a digest, a name, or both")
        return self

    @property
    def job_id(self) -> JobID:
        """The id of the job: from its name where it has one, else from its digest."""
        known_by = ["digest", self.digest] if self.name is None else ["name", self.name]
        # As JSON, so that no two lists are the same text.
        text = json.dumps([*known_by, self.action, self.sink, self.occurrence])
        return _job_id(text)


def next_job_id(job_id: JobID) -> JobID:
    """The id that a job has where another one has its own id: the same at each start of it.

    >>> next_job_id(JobID("00ff")) == next_job_id(JobID("00ff")) != JobID("00ff")
    True
    """
    return _job_id(job_id.hex)


def _job_id(text: str) -> JobID:
    return JobID(hashlib.sha256(text.encode()).hexdigest()[:_JOB_ID_DIGITS])


def job_in_storage(root: Path, job_id: JobID) -> JobID:
    """What a job is called where jobs of several storage directories meet.

    Args:
        root: the storage directory in which its epochs are taken.
        job_id: what it is called there.

    Raises:
        OSError: when the directory's identity can't be told.
    """
    text = f"{directory_identity(root)}:{job_id.hex}"
    return JobID(hashlib.sha256(text.encode()).hexdigest()[:32])

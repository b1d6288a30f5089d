"""The names of things, each of a type of its own so that none is taken for another."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic_core import CoreSchema, core_schema

if TYPE_CHECKING:
    from typing_extensions import Self

_HEX = re.compile(r"[0-9a-f]+")
_LONGEST = 200

T = TypeVar("T")


def text_schema(kind: type[T], parse: Callable[[str], T], text: Callable[[T], str]) -> CoreSchema:
    """Has pydantic take a type as what it is, or as a text, and write it as that.

    Args:
        kind: the type.
        parse: makes one of a text; ValueError where it is none.
        text: gives the text.
    """

    def take(value: Any) -> T:
        if isinstance(value, kind):
            return value
        if not isinstance(value, str) or len(value) > _LONGEST:
            raise ValueError(f"expected a string of at most {_LONGEST} characters")
        return parse(value)

    return core_schema.no_info_plain_validator_function(
        take, serialization=core_schema.plain_serializer_function_ser_schema(text)
    )


@dataclass(frozen=True, slots=True, order=True)
class _Id:
    """An identifier in hexadecimal digits.

    Attributes:
        hex: all digits; `str` shows the first twelve.

    Raises:
        ValueError: when `hex` is not of hexadecimal digits in lower case.
    """

    hex: str

    def __post_init__(self) -> None:
        if not _HEX.fullmatch(self.hex):
            raise ValueError(
                f"{type(self).__name__} expects hexadecimal digits in lower case, got {self.hex!r}"
            )

    @classmethod
    def random(cls) -> Self:
        """An identifier that nothing else has."""
        return cls(uuid.uuid4().hex)

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> CoreSchema:
        return text_schema(cls, cls, lambda value: value.hex)

    def __str__(self) -> str:
        return self.hex[:12]


class ApplicationID(_Id):
    """Identifies an application: the life of one Environment.

    Raises:
        ValueError: when `hex` is not of 32 hexadecimal digits in lower case.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.hex) != 32:
            raise ValueError(f"ApplicationID expects 32 hexadecimal digits, got {self.hex!r}")


CATALOG_APPLICATION = ApplicationID(hashlib.sha256(b"holdfast catalog").hexdigest()[:32])
"""As what the catalog holds results at task executors: they outlive every program."""


class JobID(_Id):
    """Identifies a job."""

    __slots__ = ()


def application_of_start(job_id: JobID, epoch: int) -> ApplicationID:
    """The application under which one start of a job keeps its partitions at task executors.

    Args:
        job_id: the job.
        epoch: the number of the start.

    >>> first, second = (application_of_start(JobID("00ff"), epoch) for epoch in (1, 2))
    >>> first == second
    False
    """
    return ApplicationID(hashlib.sha256(f"{job_id.hex}:{epoch}".encode()).hexdigest()[:32])


def job_of_application(application: ApplicationID, job_id: JobID) -> JobID:
    """What task executors know a job by: the same job of two applications is two jobs there.

    Args:
        application: which runs the job.
        job_id: the job.

    >>> job_id, first, second = JobID("00ff"), ApplicationID("a1" * 16), ApplicationID("a2" * 16)
    >>> job_of_application(first, job_id) == job_of_application(second, job_id)
    False
    """
    text = f"{application.hex}:{job_id.hex}"
    return JobID(hashlib.sha256(text.encode()).hexdigest()[:32])


class JobVertexID(_Id):
    """Identifies a vertex within its job."""

    __slots__ = ()

    @classmethod
    def of(cls, what: JobID | IntermediateDataSetID) -> Self:
        """Of the vertex that produces a dataset, or that answers a job: there is one in each job.

        Args:
            what: the dataset, or the job.

        >>> JobVertexID.of(JobID("00ff"))
        JobVertexID(hex='00ff')
        """
        return cls(what.hex)


class IntermediateDataSetID(_Id):
    """Identifies a dataset by the digest of its computation.

    Source: FLIP-36, "Replace random IntermediateDatasetID with something derived from RelNode
    DIGEST".

    >>> str(IntermediateDataSetID.from_digest("00ff" * 16))
    '00ff00ff00ff'
    """

    __slots__ = ()

    @classmethod
    def from_digest(cls, digest: str) -> IntermediateDataSetID:
        """The id of a computation's result.

        Args:
            digest: 64 hexadecimal digits.
        """
        return cls(digest)

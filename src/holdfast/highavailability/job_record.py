"""What a job's directory says of it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, model_validator

from holdfast.eventstore.events import JobStatus
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.ids import JobID

if TYPE_CHECKING:
    from typing_extensions import Self


class RecordStatus(Enum):
    """Whether there is something to go on with."""

    RUNNING = "RUNNING"
    ENDED = "ENDED"


class Driver(BaseModel):
    """The process that runs a job.

    Attributes:
        host: its machine.
        pid: its process id there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str
    pid: int


class VertexProgress(BaseModel):
    """How far a vertex got.

    Attributes:
        name: of the vertex, for people.
        done: how many of its partitions are there.
        all: how many it has; None while that isn't decided.
        outcome: what became of it in the newest start, in a word or two; None while it runs.
        inputs: the hexadecimal ids of the datasets that it reads, of those that the job has.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    done: int = Field(default=0, ge=0)
    all: int | None = Field(default=None, ge=0)
    outcome: str | None = None
    inputs: tuple[str, ...] = ()

    @property
    def finished(self) -> bool:
        """Whether all of its partitions are there."""
        return self.all is not None and self.done >= self.all


class JobRecord(BaseModel):
    """A job, as the newest start of it has recorded it.

    Attributes:
        version: of this record's form.
        job_id: 32 hexadecimal digits.
        identity: what the job is known by.
        name: what people see.
        status: whether it has ended.
        job_status: how it has ended; None while it hasn't.
        epoch: of the start that wrote this.
        starts: how many starts it had so far.
        begun: when the first of them was.
        started: when this one was.
        ended: when it ended.
        driver: who runs it, or did.
        program: the run of the program that it is a job of.
        task_executors: the names of those that may hold partitions of it.
        vertices: how far each got, by the hexadecimal id of its dataset.
        shuffles: where on the driver's machine it is kept what the map tasks of the job's shuffles
            write; None where that isn't kept.
        dealing: the settings of the engine by which the job's first start has dealt its data to
            tasks; None where it has left that to the engine.
        sources_epoch: of the start that wrote what the sources are; None when none did.
        sources: the sources as the job's first start listed them, in a form of whoever reads them;
            not in the record's own file, since it may be large.

    Raises:
        ValueError: when it has ended, and how or when isn't said, or the other way round.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    job_id: str = Field(pattern=r"^[0-9a-f]{32}$")
    identity: JobIdentity
    name: str
    status: RecordStatus = RecordStatus.RUNNING
    job_status: JobStatus | None = None
    epoch: int = Field(ge=1)
    starts: int = Field(default=1, ge=1)
    begun: AwareDatetime
    started: AwareDatetime
    ended: AwareDatetime | None = None
    driver: Driver
    program: str | None = None
    task_executors: tuple[str, ...] = ()
    vertices: Mapping[str, VertexProgress] = Field(default_factory=dict)
    shuffles: str | None = None
    dealing: Mapping[str, str] | None = None
    sources_epoch: int | None = None
    sources: JsonValue = Field(default=None, exclude=True)

    @model_validator(mode="after")
    def _says_how_it_ended(self) -> Self:
        ended = self.status is RecordStatus.ENDED
        if (self.job_status is not None) is not ended or (self.ended is not None) is not ended:
            raise ValueError(
                f"expected the status and time of a job's end together, got {self.status}"
            )
        return self

    @property
    def id(self) -> JobID:
        """The job's id."""
        return JobID(self.job_id)

    @property
    def last_change(self) -> datetime:
        """When the last start of it began, or when it ended."""
        return self.ended or self.started

    def known_datasets(self) -> frozenset[str]:
        """The datasets that it is cut into, as far as it is known."""
        return frozenset(self.vertices) | frozenset(self.identity.vertices)

"""What a job master and a task executor say to each other, as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator

from holdfast.ids import ApplicationID, JobID
from holdfast.storage.kept_dataset import KeptPartition, Manifest
from holdfast.taskexecutor.gateway import DataSetReport, Registration, TaskExecutorDescription
from holdfast.taskexecutor.output_part import OutputPart
from holdfast.taskexecutor.partition_info import (
    METRIC_LIMIT,
    PARTITIONS_LIMIT,
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)
from holdfast.taskexecutor.publication import Publication
from holdfast.taskexecutor.recovered_output import RecoveredOutput
from holdfast.taskexecutor.recovery_claim import EPOCH_LIMIT, RecoveryClaim

REQUEST_LIMIT = 16 * 1024 * 1024
"""How many bytes a request's body may have: enough for the manifest of 100,000 partitions."""

_LONGEST = 200

T = TypeVar("T")


def _taking(kind: type[T], parse: Callable[[str], T]) -> PlainValidator:
    """Takes an id as it is written on the wire, or as it is."""

    def take(value: Any) -> T:
        if isinstance(value, kind):
            return value
        if not isinstance(value, str) or len(value) > _LONGEST:
            raise ValueError(f"expected a string of at most {_LONGEST} characters")
        return parse(value)

    return PlainValidator(take)


WireApplicationID = Annotated[
    ApplicationID,
    _taking(ApplicationID, ApplicationID),
    PlainSerializer(lambda value: value.hex, return_type=str),
]
WireJobID = Annotated[
    JobID,
    _taking(JobID, JobID),
    PlainSerializer(lambda value: value.hex, return_type=str),
]
WireOutputID = Annotated[
    OutputID,
    _taking(OutputID, OutputID.parse),
    PlainSerializer(lambda value: value.name, return_type=str),
]
_Index = Annotated[int, Field(ge=0, lt=PARTITIONS_LIMIT)]
_Count = Annotated[int, Field(ge=1, le=PARTITIONS_LIMIT)]
_Metric = Annotated[int, Field(ge=0, lt=METRIC_LIMIT)]


class Message(BaseModel):
    """The base of all messages: what is unknown or of another type is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Nothing(Message):
    """No arguments, or no result."""


class OfApplication(Message):
    """Concerns an application."""

    application: WireApplicationID


class OfJob(OfApplication):
    """Concerns a job."""

    job_id: WireJobID


class OfOutput(OfJob):
    """Concerns an output of a job."""

    output: WireOutputID


class Register(OfApplication):
    """Registers an application."""

    lease_seconds: float = Field(gt=0)
    version: Annotated[str, Field(max_length=_LONGEST)]


class RegisterRecovery(Register):
    """Registers a start of a job that takes over what earlier ones have left."""

    job_id: WireJobID
    epoch: int = Field(ge=1, lt=EPOCH_LIMIT)

    def claim(self) -> RecoveryClaim:
        """The start."""
        return RecoveryClaim(self.job_id, self.epoch)


class Heartbeat(OfApplication):
    """Renews a lease."""

    hits: dict[WireOutputID, _Metric]


class Open(OfOutput):
    """Tasks are about to write an output."""

    part: OutputPart | None


class Finish(OfOutput):
    """An output's tasks have ended."""

    indices: list[_Index] | None
    number_of_partitions: _Count | None


class Partition(Message):
    """Which partition."""

    output: WireOutputID
    index: _Index

    def id(self) -> ResultPartitionID:
        """The partition's id."""
        return ResultPartitionID(self.output, self.index)


class Link(OfOutput):
    """Takes partitions of another application into an open output."""

    source_application: WireApplicationID
    partitions: list[Partition]


class Promote(OfOutput):
    """Makes job partitions cluster partitions."""

    manifest: Manifest
    publication: Publication | None


class PromoteRecovered(OfOutput):
    """Publishes what an earlier start has left of an output."""

    manifest: Manifest
    publication: Publication


class ReleasePartitions(OfJob):
    """Releases job partitions."""

    ids: list[Partition]


class ReleaseOutputs(OfApplication):
    """Releases cluster partitions."""

    outputs: list[WireOutputID]


class Damage(OfApplication):
    """Asks what is wrong with an output."""

    output: WireOutputID


class Report(Message):
    """Asks what is kept."""

    application: WireApplicationID | None


class Description(Message):
    """Which task executor it is."""

    description: TaskExecutorDescription


class Registered(Message):
    """What an application is told when it registers."""

    registration: Registration


class Incarnation(Message):
    """Which start of the executor it is."""

    incarnation: str


class Directory(Message):
    """A directory on the executor's machine."""

    directory: str


class Kept(Message):
    """Partitions with their files."""

    partitions: tuple[KeptPartition, ...]


class PartitionInfo(Partition):
    """A partition and its metrics."""

    bytes: _Metric
    rows: _Metric
    number_of_partitions: _Count

    @classmethod
    def of(cls, info: TaskExecutorPartitionInfo) -> PartitionInfo:
        """The message for a partition."""
        return cls(
            output=info.partition_id.output,
            index=info.partition_id.index,
            bytes=info.metrics.bytes,
            rows=info.metrics.rows,
            number_of_partitions=info.number_of_partitions,
        )

    def info(self) -> TaskExecutorPartitionInfo:
        """The partition that the message speaks of."""
        metrics = PartitionMetrics(self.bytes, self.rows)
        return TaskExecutorPartitionInfo(self.id(), metrics, self.number_of_partitions)


class JobPartitions(Message):
    """A job's finished partitions."""

    partitions: tuple[PartitionInfo, ...]


class FoundDamage(Message):
    """What is wrong with an output."""

    damage: str | None


class ReportedDataSet(OfApplication):
    """What one executor holds of one output."""

    output: WireOutputID
    computes: str
    created: str
    partitions: tuple[KeptPartition, ...]
    number_of_partitions: _Count
    hits: _Metric
    executor_id: str
    host: str
    directory: str

    @classmethod
    def of(cls, report: DataSetReport) -> ReportedDataSet:
        """The message for a report."""
        return cls(**{name: getattr(report, name) for name in DataSetReport.__dataclass_fields__})

    def report(self) -> DataSetReport:
        """The report that the message carries."""
        return DataSetReport(
            **{name: getattr(self, name) for name in DataSetReport.__dataclass_fields__}
        )


class Reports(Message):
    """What an executor holds."""

    datasets: tuple[ReportedDataSet, ...]


class Recovered(Message):
    """What one executor has of one output of a job that was taken over."""

    output: WireOutputID
    part_of: WireOutputID
    manifest: Manifest | None
    partitions: tuple[KeptPartition, ...]
    number_of_partitions: _Count | None
    publication: Publication | None

    @classmethod
    def of(cls, recovered: RecoveredOutput) -> Recovered:
        """The message for an output."""
        return cls(
            **{name: getattr(recovered, name) for name in RecoveredOutput.__dataclass_fields__}
        )

    def recovered(self) -> RecoveredOutput:
        """The output that the message speaks of."""
        return RecoveredOutput(
            **{name: getattr(self, name) for name in RecoveredOutput.__dataclass_fields__}
        )


class AllRecovered(Message):
    """What an executor has of a job that was taken over."""

    outputs: tuple[Recovered, ...]


class Refusal(Message):
    """An error, to be raised where the request came from.

    Attributes:
        error: its type's name.
        args: what the type takes.
        message: what it says, for people.
    """

    error: str
    args: dict[str, Any]
    message: str

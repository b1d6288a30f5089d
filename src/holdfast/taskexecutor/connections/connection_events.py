"""What happens to a task executor's connections."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.ids import ApplicationID, JobID
from holdfast.taskexecutor.partitions.partition_info import OutputID


@dataclass(frozen=True, slots=True)
class ApplicationRegistered:
    """An application wants partitions to be kept, and renews its lease from now on.

    Attributes:
        application: which one.
        lease_seconds: how long it counts as alive after each sign of life.
        now: the time, in seconds of any clock that never goes back.
    """

    application: ApplicationID
    lease_seconds: float
    now: float


@dataclass(frozen=True, slots=True)
class ApplicationAdopted:
    """What an application has had kept was found when the executor started again.

    It lives for one lease, and may register.

    Attributes:
        application: which one.
        lease_seconds: how long it counts as alive from now.
        now: the time.
    """

    application: ApplicationID
    lease_seconds: float
    now: float


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """An application is alive.

    Attributes:
        application: which one.
        now: the time.
    """

    application: ApplicationID
    now: float


@dataclass(frozen=True, slots=True)
class ApplicationUnregistered:
    """An application has ended and wants nothing kept.

    Attributes:
        application: which one.
    """

    application: ApplicationID


@dataclass(frozen=True, slots=True)
class ApplicationTakenOver:
    """Another application has what this one had, and its tasks can't reach it any more.

    Attributes:
        application: which one; an unknown one is no error.
    """

    application: ApplicationID


@dataclass(frozen=True, slots=True)
class JobRegistered:
    """A job will run tasks here.

    Attributes:
        application: the application it is of.
        job_id: which one.
    """

    application: ApplicationID
    job_id: JobID


@dataclass(frozen=True, slots=True)
class SlotOpened:
    """Tasks of a job begin to write an output: the job holds a slot.

    Attributes:
        application: the application it is of.
        job_id: the job.
        output: the output.
    """

    application: ApplicationID
    job_id: JobID
    output: OutputID


@dataclass(frozen=True, slots=True)
class SlotClosed:
    """The tasks that write an output have ended, one way or the other.

    Attributes:
        application: the application it is of.
        job_id: the job.
        output: the output.
    """

    application: ApplicationID
    job_id: JobID
    output: OutputID


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """A job's partitions have come or gone. To be told after each such change.

    It may come too late: for a job whose connection has ended it changes nothing.

    Attributes:
        job_id: the job.
        held: whether it now has any, in progress or finished.
    """

    job_id: JobID
    held: bool


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The job master says that a job has ended.

    Attributes:
        application: the application it is of.
        job_id: the job.
    """

    application: ApplicationID
    job_id: JobID


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed.

    Attributes:
        now: the time.
    """

    now: float


ConnectionEvent = (
    ApplicationRegistered
    | ApplicationAdopted
    | HeartbeatReceived
    | ApplicationUnregistered
    | ApplicationTakenOver
    | JobRegistered
    | SlotOpened
    | SlotClosed
    | PartitionsChanged
    | JobEnded
    | Tick
)

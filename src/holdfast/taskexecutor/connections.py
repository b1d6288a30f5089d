"""Which applications and jobs a task executor is connected to, and when a connection ends."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.ids import ApplicationID, JobID
from holdfast.taskexecutor.partition_info import OutputID


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
    | JobRegistered
    | SlotOpened
    | SlotClosed
    | PartitionsChanged
    | JobEnded
    | Tick
)


@dataclass(frozen=True, slots=True)
class MarkJobActive:
    """Keep what the job's tasks finish.

    Attributes:
        job_id: the job.
    """

    job_id: JobID


@dataclass(frozen=True, slots=True)
class CancelTasks:
    """End the tasks that still write these outputs. They end when they end.

    Attributes:
        job_id: the job.
        outputs: its open slots.
    """

    job_id: JobID
    outputs: tuple[OutputID, ...]


@dataclass(frozen=True, slots=True)
class MarkJobInactive:
    """Keep nothing more that the job's tasks finish.

    Attributes:
        job_id: the job.
    """

    job_id: JobID


@dataclass(frozen=True, slots=True)
class ReleaseFinishedPartitions:
    """Release the job's finished partitions, and then say so by `PartitionsChanged`.

    Attributes:
        job_id: the job.
    """

    job_id: JobID


@dataclass(frozen=True, slots=True)
class ReleaseClusterPartitions:
    """Release what was promoted for an application: nobody can read it any more.

    Attributes:
        application: the application.
    """

    application: ApplicationID


@dataclass(frozen=True, slots=True)
class EndConnection:
    """The job has ended and holds nothing here: forget it.

    Attributes:
        job_id: the job.
    """

    job_id: JobID


Instruction = (
    MarkJobActive
    | CancelTasks
    | MarkJobInactive
    | ReleaseFinishedPartitions
    | ReleaseClusterPartitions
    | EndConnection
)


class JobConnections:
    """The connections of a task executor: events go in, instructions come out. Pure.

    An application is connected from its registration until its lease lapses or it unregisters. A
    job is connected from its registration until it has ended, or was lost with its application,
    *and* holds no slots and no partitions.

    It has no lock: the caller hands in one event after the other, and carries out the instructions
    in their order.

    Source: FLINK-12612, "General Idea" and "Abnormal events / Special cases".
    """

    def handle(self, event: ConnectionEvent) -> tuple[Instruction, ...]:
        """Takes in what has happened.

        Args:
            event: what has happened.

        Returns:
            What is to be done, in this order.

        Raises:
            UnknownApplicationError: for an application that is not registered, or no longer.
            UnknownJobError: for a job that is not registered, or has ended when it opens a slot.
            DuplicateRegistrationError: for an application, job or slot that is there already.
            UnknownDataSetError: for a slot that is closed without being open.
        """
        raise NotImplementedError

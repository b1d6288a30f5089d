"""What a task executor is told to do about its connections."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.ids import ApplicationID, JobID
from holdfast.taskexecutor.partitions.partition_info import OutputID


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

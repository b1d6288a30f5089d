"""Which applications and jobs a task executor is connected to, and when a connection ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import assert_never

from holdfast.errors import (
    DuplicateRegistrationError,
    UnknownApplicationError,
    UnknownDataSetError,
    UnknownJobError,
)
from holdfast.ids import ApplicationID, JobID
from holdfast.taskexecutor.connections.connection_events import (
    ApplicationAdopted,
    ApplicationRegistered,
    ApplicationTakenOver,
    ApplicationUnregistered,
    ConnectionEvent,
    HeartbeatReceived,
    JobEnded,
    JobRegistered,
    PartitionsChanged,
    SlotClosed,
    SlotOpened,
    Tick,
)
from holdfast.taskexecutor.connections.connection_instructions import (
    CancelTasks,
    EndConnection,
    Instruction,
    MarkJobActive,
    MarkJobInactive,
    ReleaseClusterPartitions,
    ReleaseFinishedPartitions,
)
from holdfast.taskexecutor.partitions.partition_info import OutputID


@dataclass(slots=True)
class _Application:
    lease_seconds: float
    lapses_at: float
    adopted: bool


@dataclass(slots=True)
class _Job:
    application: ApplicationID
    slots: dict[OutputID, None] = field(default_factory=dict)
    holds_partitions: bool = False
    ended: bool = False


class JobConnections:
    """The connections of a task executor: events go in, instructions come out. Pure.

    An application is connected from its registration until its lease lapses or it unregisters. A
    job is connected from its registration until it has ended, or was lost with its application,
    *and* holds no slots and no partitions.

    It has no lock: the caller hands in one event after the other, and carries out the instructions
    in their order.

    Source: FLINK-12612, "General Idea" and "Abnormal events / Special cases".
    """

    def __init__(self) -> None:
        self._applications: dict[ApplicationID, _Application] = {}
        self._jobs: dict[JobID, _Job] = {}

    def handle(self, event: ConnectionEvent) -> tuple[Instruction, ...]:
        """Takes in what has happened. An event that is refused changes nothing.

        Args:
            event: what has happened.

        Returns:
            What is to be done, in this order.

        Raises:
            UnknownApplicationError: for an application that is not registered, or no longer.
            UnknownJobError: for a job that is not this application's, or has ended and opens a
                slot or ends again.
            DuplicateRegistrationError: for an application, job or slot that is there already.
            UnknownDataSetError: for a slot that is closed without being open.
        """
        match event:
            case ApplicationRegistered():
                return self._register(event)
            case ApplicationAdopted():
                return self._adopt(event)
            case HeartbeatReceived(application, now):
                lease = self._application(application)
                lease.lapses_at = now + lease.lease_seconds
                return ()
            case ApplicationUnregistered(application):
                self._application(application)
                return self._lose(application)
            case ApplicationTakenOver(application):
                return self._take_over(application)
            case JobRegistered(application, job_id):
                return self._register_job(application, job_id)
            case SlotOpened(application, job_id, output):
                return self._open(self._active_job(application, job_id), job_id, output)
            case SlotClosed(application, job_id, output):
                return self._close(application, job_id, output)
            case PartitionsChanged(job_id, held):
                return self._partitions_changed(job_id, held)
            case JobEnded(application, job_id):
                return self._end(job_id, self._active_job(application, job_id))
            case Tick(now):
                lapsed = [id for id, lease in self._applications.items() if lease.lapses_at <= now]
                return tuple(step for application in lapsed for step in self._lose(application))
            case _:
                assert_never(event)

    def is_registered(self, application: ApplicationID) -> bool:
        """Whether an application is connected, or was adopted and may still register."""
        return application in self._applications

    def is_connected(self, job_id: JobID) -> bool:
        """Whether the connection to a job has not ended yet."""
        return job_id in self._jobs

    def jobs(self, application: ApplicationID) -> tuple[JobID, ...]:
        """The connected jobs of an application, those included that it was lost to."""
        return tuple(id for id, job in self._jobs.items() if job.application == application)

    def slots(self, job_id: JobID) -> tuple[OutputID, ...]:
        """The outputs that a job's tasks are writing; none for an unknown job."""
        job = self._jobs.get(job_id)
        return () if job is None else tuple(job.slots)

    def require_application(self, application: ApplicationID) -> None:
        """Sees to it that an application is connected.

        Raises:
            UnknownApplicationError: when it is not.
        """
        self._application(application)

    def require_active_job(self, application: ApplicationID, job_id: JobID) -> None:
        """Sees to it that a job is this application's and has not ended.

        Raises:
            UnknownApplicationError: when the application is not connected.
            UnknownJobError: when the job is not, or has ended.
        """
        self._active_job(application, job_id)

    def _application(self, application: ApplicationID) -> _Application:
        known = self._applications.get(application)
        if known is None:
            raise UnknownApplicationError(application.hex)
        return known

    def _job(self, application: ApplicationID, job_id: JobID) -> _Job:
        job = self._jobs.get(job_id)
        if job is None or job.application != application:
            raise UnknownJobError(job_id.hex)
        return job

    def _active_job(self, application: ApplicationID, job_id: JobID) -> _Job:
        self._application(application)
        job = self._job(application, job_id)
        if job.ended:
            raise UnknownJobError(job_id.hex)
        return job

    def _register(self, event: ApplicationRegistered) -> tuple[Instruction, ...]:
        known = self._applications.get(event.application)
        if known is not None and not known.adopted:
            raise DuplicateRegistrationError(
                f"application {event.application.hex}", "Send heartbeats instead."
            )
        lapses_at = event.now + event.lease_seconds
        self._applications[event.application] = _Application(event.lease_seconds, lapses_at, False)
        return ()

    def _adopt(self, event: ApplicationAdopted) -> tuple[Instruction, ...]:
        if event.application in self._applications:
            raise DuplicateRegistrationError(
                f"application {event.application.hex}", "Adopt it before it can register."
            )
        lapses_at = event.now + event.lease_seconds
        self._applications[event.application] = _Application(event.lease_seconds, lapses_at, True)
        return ()

    def _register_job(self, application: ApplicationID, job_id: JobID) -> tuple[Instruction, ...]:
        self._application(application)
        if job_id in self._jobs:
            raise DuplicateRegistrationError(f"job {job_id.hex}", "Use a unique id.")
        self._jobs[job_id] = _Job(application)
        return (MarkJobActive(job_id),)

    def _open(self, job: _Job, job_id: JobID, output: OutputID) -> tuple[Instruction, ...]:
        if output in job.slots:
            raise DuplicateRegistrationError(
                f"slot of job {job_id.hex} for output {output}", "Produce it as a new attempt."
            )
        job.slots[output] = None
        return ()

    def _close(
        self, application: ApplicationID, job_id: JobID, output: OutputID
    ) -> tuple[Instruction, ...]:
        # Tasks outlive their job: the job may have ended, and its application be lost.
        job = self._job(application, job_id)
        if output not in job.slots:
            raise UnknownDataSetError(
                output.name, f"an output that job {job_id.hex} has opened and not closed"
            )
        del job.slots[output]
        return self._end_connection_if_idle(job_id, job)

    def _partitions_changed(self, job_id: JobID, held: bool) -> tuple[Instruction, ...]:
        job = self._jobs.get(job_id)
        if job is None:
            # Told after the connection's end, as the last release is carried out.
            return ()
        job.holds_partitions = held
        return self._end_connection_if_idle(job_id, job)

    def _end(self, job_id: JobID, job: _Job) -> tuple[Instruction, ...]:
        job.ended = True
        cancel = (CancelTasks(job_id, tuple(job.slots)),) if job.slots else ()
        return (
            *cancel,
            # First inactive, then released: what finishes in between is released as it finishes.
            MarkJobInactive(job_id),
            ReleaseFinishedPartitions(job_id),
            *self._end_connection_if_idle(job_id, job),
        )

    def _lose(self, application: ApplicationID) -> tuple[Instruction, ...]:
        del self._applications[application]
        lost = [
            (job_id, job)
            for job_id, job in self._jobs.items()
            if job.application == application and not job.ended
        ]
        steps = [step for job_id, job in lost for step in self._end(job_id, job)]
        return (*steps, ReleaseClusterPartitions(application))

    def _take_over(self, application: ApplicationID) -> tuple[Instruction, ...]:
        """Ends all connections at once: there is nothing to release, and no slot to wait for."""
        self._applications.pop(application, None)
        taken = [(id, job) for id, job in self._jobs.items() if job.application == application]
        steps: list[Instruction] = []
        for job_id, job in taken:
            if not job.ended:
                steps.append(MarkJobInactive(job_id))
            steps.append(EndConnection(job_id))
            del self._jobs[job_id]
        return tuple(steps)

    def _end_connection_if_idle(self, job_id: JobID, job: _Job) -> tuple[Instruction, ...]:
        if not job.ended or job.slots or job.holds_partitions:
            return ()
        del self._jobs[job_id]
        return (EndConnection(job_id),)

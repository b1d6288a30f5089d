"""When a job's connection begins and ends, and what a task executor does then, in which order."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import TaskExecutorError
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
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
    MarkJobActive,
    MarkJobInactive,
    ReleaseClusterPartitions,
    ReleaseFinishedPartitions,
)
from holdfast.taskexecutor.connections.job_connections import JobConnections
from holdfast.taskexecutor.partitions.partition_info import OutputID

APPLICATIONS = (ApplicationID("a" * 32), ApplicationID("b" * 32))
JOBS = tuple(JobID(digit * 32) for digit in "12")
OUTPUTS = tuple(OutputID(IntermediateDataSetID(digit * 64), "00000001") for digit in "45")
LEASE = 10.0


@dataclass
class Job:
    """A job as an executor knows it, which has a connection."""

    application: ApplicationID
    active: bool = False
    slots: set[OutputID] = field(default_factory=set)
    # As of the last event: a slot may be open before anything is set up in it.
    held: bool = False


class Executor:
    """Carries out the instructions as an executor does, and sees to what it then has."""

    def __init__(self) -> None:
        self.connections = JobConnections()
        self.now = 0.0
        self.alive: dict[ApplicationID, float] = {}
        self.adopted: set[ApplicationID] = set()
        self.jobs: dict[JobID, Job] = {}

    def allows(self, event: ConnectionEvent) -> bool:
        match event:
            case ApplicationRegistered(application):
                return application not in self.alive or application in self.adopted
            case ApplicationAdopted(application):
                return application not in self.alive
            case HeartbeatReceived(application) | ApplicationUnregistered(application):
                return application in self.alive
            case JobRegistered(application, job_id):
                return application in self.alive and job_id not in self.jobs
            case SlotClosed(application, job_id, output):
                job = self.jobs.get(job_id)
                return bool(job and job.application == application and output in job.slots)
            case JobEnded(application, job_id) | SlotOpened(application, job_id):
                job = self.jobs.get(job_id)
                if not job or application not in self.alive or job.application != application:
                    return False
                opened = isinstance(event, SlotOpened) and event.output in job.slots
                return job.active and not opened
        return True

    def happens(self, event: ConnectionEvent) -> None:
        """What changes by an event itself."""
        match event:
            case ApplicationRegistered(application) | ApplicationAdopted(application):
                self.alive[application] = self.now + LEASE
                self.adopted.discard(application)
                if isinstance(event, ApplicationAdopted):
                    self.adopted.add(application)
            case HeartbeatReceived(application):
                self.alive[application] = self.now + LEASE
            case ApplicationTakenOver(application):
                self.alive.pop(application, None)
                for job in self.jobs.values():
                    if job.application == application:
                        job.slots, job.held = set(), False
            case JobRegistered(application, job_id):
                self.jobs[job_id] = Job(application)
            case SlotOpened(_, job_id, output):
                self.jobs[job_id].slots.add(output)
            case SlotClosed(_, job_id, output):
                self.jobs[job_id].slots.remove(output)
            case PartitionsChanged(job_id, held) if job_id in self.jobs:
                self.jobs[job_id].held = held

    def send(self, event: ConnectionEvent) -> None:
        if not self.allows(event):
            before = self.state()
            with pytest.raises(TaskExecutorError):
                self.connections.handle(event)
            assert self.state() == before
            return
        self.happens(event)
        cancelled, unreleased = set[JobID](), set[JobID]()
        for instruction in self.connections.handle(event):
            match instruction:
                case MarkJobActive(job_id):
                    assert not self.jobs[job_id].active
                    self.jobs[job_id].active = True
                case CancelTasks(job_id, outputs):
                    assert self.jobs[job_id].active, "tasks are cancelled first"
                    assert set(outputs) == self.jobs[job_id].slots
                    cancelled.add(job_id)
                case MarkJobInactive(job_id):
                    assert self.jobs[job_id].active
                    assert not self.jobs[job_id].slots or job_id in cancelled
                    self.jobs[job_id].active = False
                    unreleased.add(job_id)
                case ReleaseFinishedPartitions(job_id):
                    assert not self.jobs[job_id].active, "the flag is unset before the release"
                    unreleased.remove(job_id)
                case ReleaseClusterPartitions(application):
                    del self.alive[application]
                case EndConnection(job_id):
                    ended = self.jobs.pop(job_id)
                    assert not (ended.active or ended.slots or ended.held)
        assert not unreleased or isinstance(event, ApplicationTakenOver)
        self.check()

    def check(self) -> None:
        """The connected are those that live or hold something."""
        for job_id in JOBS:
            job = self.jobs.get(job_id)
            assert self.connections.is_connected(job_id) == (job is not None)
            assert job is None or job.active or job.slots or job.held
            assert set(self.connections.slots(job_id)) == (job.slots if job else set())
        for application in APPLICATIONS:
            assert self.connections.is_registered(application) == (application in self.alive)
        assert all(until > self.now for until in self.alive.values())

    def state(self) -> object:
        asked = self.connections
        jobs = [(asked.is_connected(each), asked.slots(each)) for each in JOBS]
        return jobs, [(asked.is_registered(each), asked.jobs(each)) for each in APPLICATIONS]


# The owner of each job first, which is drawn most often.
OWNED = [(APPLICATIONS[each], JOBS[each]) for each in (0, 1, 0, 1)]
OWNED += [(APPLICATIONS[0], JOBS[1]), (APPLICATIONS[1], JOBS[0])]
KINDS = 12


def event_of(
    kind: int, of: tuple[ApplicationID, JobID], output: OutputID, held: bool, now: float
) -> ConnectionEvent:
    application, job_id = of
    return (
        Tick(now),
        ApplicationRegistered(application, LEASE, now),
        ApplicationAdopted(application, LEASE, now),
        HeartbeatReceived(application, now),
        ApplicationUnregistered(application),
        ApplicationTakenOver(application),
        JobRegistered(application, job_id),
        JobEnded(application, job_id),
        SlotOpened(application, job_id, output),
        SlotClosed(application, job_id, output),
        PartitionsChanged(job_id, held),
        PartitionsChanged(job_id, held),
    )[kind]


DRAWN = st.tuples(
    st.integers(0, KINDS - 1), st.sampled_from(OWNED), st.sampled_from(OUTPUTS), st.booleans()
)


@settings(max_examples=10 * settings().max_examples)
@given(st.lists(st.tuples(DRAWN, st.sampled_from([0.0, 0.0, 1.0, 4.0])), max_size=40))
def test_events_in_any_order(events: list[tuple[tuple[int, object, object, bool], float]]) -> None:
    executor = Executor()
    for of in OWNED[:2]:
        for kind in (1, 6, 8):
            executor.send(event_of(kind, of, OUTPUTS[0], False, 0.0))
    for drawn, seconds in events:
        if seconds:
            executor.now += seconds
            executor.send(Tick(executor.now))
        executor.send(event_of(*drawn, executor.now))  # type: ignore[arg-type]

"""When a job's connection begins and ends, and what a task executor does then, in which order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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


def state(connections: JobConnections) -> Any:
    """All that can be asked of the connections."""
    applications = [
        (connections.is_registered(each), connections.jobs(each)) for each in APPLICATIONS
    ]
    return applications, [
        (connections.is_connected(each), connections.slots(each)) for each in JOBS
    ]


SLOT: Any = {
    "application": st.sampled_from(APPLICATIONS),
    "job_id": st.sampled_from(JOBS),
    "output": st.sampled_from(OUTPUTS),
}


class Machine(RuleBasedStateMachine):
    """Carries out the instructions as an executor does, and sees to what it then has."""

    def __init__(self) -> None:
        super().__init__()
        self.connections = JobConnections()
        self.now = 0.0
        self.alive: dict[ApplicationID, float] = {}
        self.adopted: set[ApplicationID] = set()
        self.owner: dict[JobID, ApplicationID] = {}
        self.active: set[JobID] = set()
        self.slots: dict[JobID, set[OutputID]] = {}
        # As of the last event: a slot may be open before anything is set up in it.
        self.held: dict[JobID, bool] = {}

    def send(self, event: ConnectionEvent, allowed: bool) -> None:
        if not allowed:
            before = state(self.connections)
            with pytest.raises(TaskExecutorError):
                self.connections.handle(event)
            assert state(self.connections) == before
            return
        if isinstance(event, PartitionsChanged) and event.job_id in self.held:
            self.held[event.job_id] = event.held
        cancelled, unreleased = set(), set[JobID]()
        for instruction in self.connections.handle(event):
            match instruction:
                case MarkJobActive(job_id):
                    assert job_id not in self.active
                    self.active.add(job_id)
                case CancelTasks(job_id, outputs):
                    assert job_id in self.active, "tasks are cancelled first"
                    assert set(outputs) == self.slots[job_id]
                    cancelled.add(job_id)
                case MarkJobInactive(job_id):
                    assert not self.slots[job_id] or job_id in cancelled
                    self.active.remove(job_id)
                    unreleased.add(job_id)
                case ReleaseFinishedPartitions(job_id):
                    assert job_id not in self.active, "the flag is unset before the release"
                    unreleased.remove(job_id)
                    self.only_in_progress(job_id)
                case ReleaseClusterPartitions(application):
                    del self.alive[application]
                    self.adopted.discard(application)
                case EndConnection(job_id):
                    assert job_id not in self.active
                    assert not self.slots.pop(job_id)
                    assert not self.held.pop(job_id)
                    del self.owner[job_id]
        assert not unreleased or isinstance(event, ApplicationTakenOver)

    def only_in_progress(self, job_id: JobID) -> None:
        self.send(PartitionsChanged(job_id, self.held[job_id] and bool(self.slots[job_id])), True)

    def runs(self, application: ApplicationID, job_id: JobID) -> bool:
        return application in self.alive and (
            self.owner.get(job_id) == application and job_id in self.active
        )

    @rule(application=st.sampled_from(APPLICATIONS))
    def register(self, application: ApplicationID) -> None:
        allowed = application not in self.alive or application in self.adopted
        self.send(ApplicationRegistered(application, LEASE, self.now), allowed)
        if allowed:
            self.alive[application] = self.now + LEASE
            self.adopted.discard(application)

    @rule(application=st.sampled_from(APPLICATIONS))
    def adopt(self, application: ApplicationID) -> None:
        allowed = application not in self.alive
        self.send(ApplicationAdopted(application, LEASE, self.now), allowed)
        if allowed:
            self.alive[application] = self.now + LEASE
            self.adopted.add(application)

    @rule(application=st.sampled_from(APPLICATIONS))
    def heartbeat(self, application: ApplicationID) -> None:
        allowed = application in self.alive
        self.send(HeartbeatReceived(application, self.now), allowed)
        if allowed:
            self.alive[application] = self.now + LEASE

    @rule(application=st.sampled_from(APPLICATIONS))
    def unregister(self, application: ApplicationID) -> None:
        self.send(ApplicationUnregistered(application), application in self.alive)

    @rule(application=st.sampled_from(APPLICATIONS))
    def take_over(self, application: ApplicationID) -> None:
        for job_id in [job_id for job_id, owner in self.owner.items() if owner == application]:
            self.slots[job_id].clear()
            self.held[job_id] = False
        self.alive.pop(application, None)
        self.adopted.discard(application)
        self.send(ApplicationTakenOver(application), True)
        assert application not in self.owner.values()

    @rule(seconds=st.floats(0.0, LEASE / 3))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.send(Tick(self.now), True)

    @rule(application=st.sampled_from(APPLICATIONS), job_id=st.sampled_from(JOBS))
    def register_job(self, application: ApplicationID, job_id: JobID) -> None:
        allowed = application in self.alive and job_id not in self.owner
        if allowed:
            self.owner[job_id] = application
            self.slots[job_id] = set()
            self.held[job_id] = False
        self.send(JobRegistered(application, job_id), allowed)

    @initialize()
    def start(self) -> None:
        for application, job_id in zip(APPLICATIONS, JOBS, strict=True):
            self.register(application)
            self.register_job(application, job_id)

    @rule(**SLOT)
    def open_slot(self, application: ApplicationID, job_id: JobID, output: OutputID) -> None:
        allowed = self.runs(application, job_id) and output not in self.slots[job_id]
        self.send(SlotOpened(application, job_id, output), allowed)
        if allowed:
            self.slots[job_id].add(output)

    @rule(output=st.sampled_from(OUTPUTS))
    @precondition(lambda self: self.active)
    def open_slots(self, output: OutputID) -> None:
        for job_id in sorted(self.active):
            self.open_slot(self.owner[job_id], job_id, output)

    @rule()
    def set_up(self) -> None:
        for job_id in sorted(job_id for job_id, slots in self.slots.items() if slots):
            self.send(PartitionsChanged(job_id, held=True), True)

    @rule(**SLOT)
    def close_wrong_slot(self, application: ApplicationID, job_id: JobID, output: OutputID) -> None:
        if self.owner.get(job_id) != application or output not in self.slots[job_id]:
            self.send(SlotClosed(application, job_id, output), False)

    @rule(data=st.data(), finishes=st.booleans(), held_first=st.booleans())
    @precondition(lambda self: any(self.slots.values()))
    def close_slot(self, data: st.DataObject, finishes: bool, held_first: bool) -> None:
        open_slots = [(job_id, output) for job_id in self.slots for output in self.slots[job_id]]
        job_id, output = data.draw(st.sampled_from(sorted(open_slots)))
        self.slots[job_id].remove(output)
        # What finishes for a job that is not active is released at once.
        keeps = job_id in self.active and (finishes or self.held[job_id])
        in_progress = self.held[job_id] and bool(self.slots[job_id])
        held = PartitionsChanged(job_id, keeps or in_progress)
        closed = SlotClosed(self.owner[job_id], job_id, output)
        for event in (held, closed) if held_first else (closed, held):
            self.send(event, True)

    @rule(job_id=st.sampled_from(JOBS))
    def release_or_promote(self, job_id: JobID) -> None:
        if job_id in self.owner:
            self.only_in_progress(job_id)

    @rule()
    @precondition(lambda self: self.active)
    def end_jobs(self) -> None:
        for job_id in sorted(self.active):
            self.end_job(self.owner[job_id], job_id)

    @rule(application=st.sampled_from(APPLICATIONS), job_id=st.sampled_from(JOBS))
    def end_job(self, application: ApplicationID, job_id: JobID) -> None:
        self.send(JobEnded(application, job_id), self.runs(application, job_id))

    @invariant()
    def the_connected_are_those_that_live_or_hold_something(self) -> None:
        for job_id in JOBS:
            holds = self.slots.get(job_id) or self.held.get(job_id)
            assert self.connections.is_connected(job_id) == bool(job_id in self.active or holds)
            assert set(self.connections.slots(job_id)) == self.slots.get(job_id, set())
        for application in APPLICATIONS:
            alive = self.alive.get(application, self.now) > self.now
            assert self.connections.is_registered(application) == alive


TestConnectionsInAnyOrder: Any = Machine.TestCase
TestConnectionsInAnyOrder.settings = settings(max_examples=2 * settings().max_examples)

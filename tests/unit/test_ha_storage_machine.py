"""Programs that begin, go on with, end and are killed over jobs, in any order.

A model knows for each job what its newest start has recorded. In any case an old start is
refused, a new one finds what the model knows, an epoch never comes back, and a written job is done
once unless the program that did it has ended.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast.errors import StaleEpochError
from holdfast.eventstore.events import JobStatus
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_record import VertexProgress
from holdfast.highavailability.job_start import JobStart

IDENTITIES = [JobIdentity(digest="1" * 64, action="a", sink=sink) for sink in (None, "file:/out")]
SLOTS = 3
VERTICES = [str(digit) * 64 for digit in (7, 8, 9)]


@dataclass
class Known:
    """What is known of a job.

    Attributes:
        newest: its newest start; None when there is no such job.
        vertices: what is recorded of it.
        sources: what it reads.
        journal: its sink's journal.
        ended: how it ended, if it did.
        ended_by: the program that last said so.
    """

    newest: Running | None = None
    vertices: dict[str, VertexProgress] = field(default_factory=dict)
    sources: object = None
    journal: str = ""
    ended: JobStatus | None = None
    ended_by: Program | None = None


@dataclass(eq=False)
class Program:
    """A program: it lives, or was killed, or has ended; or another one has taken over from it."""

    storage: HighAvailabilityStorage
    starts: list[Running] = field(default_factory=list)
    lives: bool = True
    has_begun: bool = False
    is_over: bool = False
    taken_by: Program | None = None

    @property
    def last(self) -> Program:
        """The one that has taken over what it has done."""
        return self if self.taken_by is None else self.taken_by.last


@dataclass(eq=False)
class Running:
    """A start of a job."""

    start: JobStart
    program: Program
    known: Known
    number: int


RECENT = st.integers(0, 4)


def has_starts(machine: JobsMachine) -> bool:
    return bool(machine.starts)


class JobsMachine(RuleBasedStateMachine):
    """Several programs over one storage directory."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(), "ha")
        self.known = {identity.job_id: Known() for identity in IDENTITIES}
        self.newest_epoch = 0
        self.count = 0
        self.all_programs: list[Program] = []
        self.starts: list[Running] = []
        self.slots = [self.started() for _ in range(SLOTS)]

    def teardown(self) -> None:
        for program in self.all_programs:
            program.storage.close()
        shutil.rmtree(self.root.parent)

    def started(self) -> Program:
        self.all_programs.append(Program(HighAvailabilityStorage(self.root, uuid.uuid4().hex)))
        return self.all_programs[-1]

    @rule(slot=st.integers(0, SLOTS - 1), identity=st.sampled_from(IDENTITIES))
    def begin(self, slot: int, identity: JobIdentity) -> None:
        program = self.slots[slot]
        known = self.known[identity.job_id]
        if program.taken_by is not None:
            with pytest.raises(StaleEpochError):
                program.storage.begin(identity)
            return
        program.has_begun = True
        start = program.storage.begin(identity)
        assert start.job_id == identity.job_id
        assert start.epoch > self.newest_epoch
        assert not start.changed
        self.newest_epoch, self.count = start.epoch, self.count + 1
        was_there = known.newest is not None
        if known.newest is not None and known.ended is None and identity.sink is not None:
            last = known.newest.program.last
            if last is not program and not last.is_over:
                last.taken_by = program
        done = (
            identity.sink is not None
            and known.ended is JobStatus.FINISHED
            and known.ended_by is not None
            and known.ended_by is not program
            and not known.ended_by.last.is_over
        )
        assert start.already_done is done
        if was_there and (known.ended is None or done):
            assert start.previous is not None
            assert start.previous.vertices == known.vertices
            assert start.previous.sources == known.sources
            assert start.journal.read() == known.journal
        else:
            assert start.previous is None
            known.vertices, known.sources = {}, None
            known.journal = ""
        if done:
            assert known.ended_by is not None
            if known.ended_by.last is not program:
                known.ended_by.last.taken_by = program
            known.ended_by = program
        else:
            known.ended = known.ended_by = None
        running = Running(start, program, known, self.count)
        known.newest = running
        program.starts.append(running)
        self.starts.append(running)

    @precondition(has_starts)
    @rule(ago=RECENT, what=st.sampled_from(["vertices", "sources", "journal", "fresh"]))
    def record(self, ago: int, what: str) -> None:
        running = self.recent(ago)
        start, known = running.start, running.known
        self.count += 1
        vertices = {VERTICES[self.count % 3]: VertexProgress(name="v", done=self.count)}
        act = {
            "vertices": lambda: start.update(vertices=vertices),
            "sources": lambda: start.update(sources=[self.count]),
            "journal": lambda: start.journal.write(str(self.count)),
            "fresh": start.take_fresh_epoch,
        }[what]
        if not self.may_act(running):
            self.is_refused(running, act)
            return
        assert act() in (True, None, start.epoch)
        match what:
            case "vertices":
                known.vertices = vertices
            case "sources":
                known.sources = [self.count]
            case "journal":
                known.journal = str(self.count)
            case _:
                assert start.epoch > self.newest_epoch
                self.newest_epoch = start.epoch
                known.vertices, known.sources = {}, None
                known.ended = known.ended_by = None

    @precondition(has_starts)
    @rule(ago=RECENT, status=st.sampled_from(JobStatus), keep=st.booleans())
    def end(self, ago: int, status: JobStatus, keep: bool) -> None:
        running = self.recent(ago)
        known = running.known
        if not self.may_act(running):
            self.is_refused(running, lambda: running.start.end(status, keep=keep))
            return
        running.start.end(status, keep=keep)
        if keep:
            known.ended, known.ended_by = status, running.program
        else:
            self.is_gone(known)

    @rule(slot=st.integers(0, SLOTS - 1), identity=st.sampled_from(IDENTITIES))
    def write_and_be_killed(self, slot: int, identity: JobIdentity) -> None:
        if self.slots[slot].taken_by is not None:
            return
        self.begin(slot, identity)
        self.end(0, JobStatus.FINISHED, True)
        self.kill(slot)

    @rule(slot=st.integers(0, SLOTS - 1))
    def kill(self, slot: int) -> None:
        program, self.slots[slot] = self.slots[slot], self.started()
        program.lives = False
        for running in program.starts:
            running.start.let_go()

    @rule(slot=st.integers(0, SLOTS - 1))
    def close(self, slot: int) -> None:
        program, self.slots[slot] = self.slots[slot], self.started()
        program.storage.close()
        program.lives = False
        program.is_over = program.taken_by is None
        for running in program.starts:
            known = running.known
            if not program.is_over:
                running.start.let_go()
            elif known.newest is running and known.ended is not None:
                self.is_gone(known)

    @invariant()
    def whoever_is_the_newest_may_act_and_no_other(self) -> None:
        for program in self.all_programs:
            for running in program.starts if program.lives else ():
                if self.may_act(running):
                    running.start.check()
                else:
                    with pytest.raises(StaleEpochError) as raised:
                        running.start.check()
                    assert raised.value.newest > running.start.epoch

    @invariant()
    def jobs_are_listed_as_they_are(self) -> None:
        found = {job.job_id: job for job in HighAvailabilityStorage(self.root).jobs()}
        there = {job_id for job_id, known in self.known.items() if known.newest is not None}
        assert found.keys() == there
        for job_id in there:
            known, job = self.known[job_id], found[job_id]
            assert known.newest is not None
            lives = known.newest.program.lives
            state = "ended" if known.ended else "running" if lives else "recoverable"
            assert (job.state.value, job.driven) == (state, lives)
            assert job.record is not None
            assert job.record.vertices == known.vertices

    def is_refused(self, running: Running, act: Callable[[], object]) -> None:
        if running.program.lives:
            with pytest.raises(StaleEpochError):
                act()

    def recent(self, ago: int) -> Running:
        return self.starts[-1 - min(ago, len(self.starts) - 1)]

    def may_act(self, running: Running) -> bool:
        program = running.program
        return program.lives and program.taken_by is None and running.known.newest is running

    def is_gone(self, known: Known) -> None:
        known.newest, known.ended, known.ended_by = None, None, None
        known.vertices, known.sources, known.journal = {}, None, ""


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    # No machine stops here, and this takes nearly all of the time.
    monkeypatch.setattr(os, "fsync", lambda _: None)


def test_programs_do_no_harm_to_each_other_in_any_order() -> None:
    run_state_machine_as_test(JobsMachine, settings=settings(stateful_step_count=30, deadline=None))

"""Drivers that die at any moment, logs cut anywhere, partitions lost and executors away. Random.

The world knows of each partition what it holds, and so whether a start trusts the right ones.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from holdfast.eventstore.events import ExecutionVertexReset, JobStatus
from holdfast.eventstore.replay import event_files, replay
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.runtime.recovery.job_history import JobHistory
from holdfast.runtime.recovery.job_recovery import JobRecovery
from holdfast.runtime.recovery.partial_vertex import PartialVertex
from holdfast.taskexecutor.partitions.partition_info import OutputID
from tests.unit.recovery_fakes import Found, Start, Tracked, kept, tracked

DATASETS = [IntermediateDataSetID(digit * 64) for digit in "ab"]
# Most of what happens, happens to one vertex; the more of it meets.
SOME_DATASETS = st.sampled_from([*DATASETS[:1] * 5, *DATASETS])
SPLITS = ["", "s", "s", "s", "t"]
NEVER = timedelta(hours=1)

Place: TypeAlias = tuple[OutputID, int]


@dataclass(frozen=True)
class Content:
    """What a partition holds: equal where the rows are."""

    dataset_id: IntermediateDataSetID
    split: str
    parallelism: int
    subtask: int


@dataclass(frozen=True)
class Left:
    """What is there at the beginning of a start."""

    outputs: Mapping[OutputID, Found]

    def get_all_partition_with_metrics(self) -> list[Tracked]:
        outputs = self.outputs.items()
        return [each for output, found in outputs for each in tracked(output, *found.present)]

    def recovered_outputs(self) -> Mapping[OutputID, Found]:
        return self.outputs


class DyingDrivers(RuleBasedStateMachine):
    """A job's starts, one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.epoch = 0
        self.attempts = 0
        self.contents: dict[Place, Content] = {}
        self.away: set[Place] = set()
        # By output of how many partitions it was published.
        self.published: dict[OutputID, int] = {}
        # By dataset the split that its vertex was last initialized with, and how often it runs on.
        self.runs: dict[IntermediateDataSetID, tuple[str, int, set[OutputID]]] = {}
        # What each reset took back, in the order of the log.
        self.resets: list[set[Place]] = []
        self.flushed = 0
        self.recovery: JobRecovery | None = None
        self.seen: Mapping[OutputID, Found] = {}

    @precondition(lambda self: self.recovery is None)
    @rule()
    def start(self) -> None:
        self.epoch += 1
        self.seen = self._visible()
        self.recovery = JobRecovery(
            Start(self._events, self.epoch), Left(self.seen), flush_interval=NEVER
        )
        recovered = self.recovery.recover()
        assert recovered.by_dataset.keys() == self.runs.keys()
        for dataset_id, (split, parallelism, outputs) in self.runs.items():
            vertex = recovered.by_dataset[dataset_id]
            whole = self._whole_ones(dataset_id)
            assert (vertex.whole in whole) if whole else (vertex.whole is None)
            if whole:
                kept = self.recovery.whole(dataset_id)
                assert kept is not None
                assert kept.name == str(vertex.whole)
                continue
            assert self.recovery.whole(dataset_id) is None
            expected = {
                index
                for output in outputs
                for index in self.seen.get(output, Found()).present
                if split and not self._is_void((output, index))
            }
            assert set(vertex.finished) == expected
            assert set(vertex.missing) == set(range(parallelism)) - expected

    @precondition(lambda self: self.recovery is not None)
    @rule(
        dataset_id=SOME_DATASETS,
        split=st.sampled_from(SPLITS),
        parallelism=st.sampled_from([2, 2, 2, 3]),
        writes=st.sampled_from([1, 1, 2, 0]),
        killed=st.sampled_from(["no", "running", "running", "written", "published"]),
        cut=st.integers(0, 1 << 16),
        uses_partial=st.booleans(),
    )
    def run_vertex(
        self,
        dataset_id: IntermediateDataSetID,
        split: str,
        parallelism: int,
        writes: int,
        killed: str,
        cut: int,
        uses_partial: bool,
    ) -> None:
        """Runs a vertex, perhaps not to its end."""
        recovery = self._alive
        if recovery.whole(dataset_id) is not None:
            return
        partial = recovery.partial(dataset_id, split, parallelism)
        if partial is not None:
            self._check_partial(partial, dataset_id, split, parallelism)
        vertex_id = JobVertexID(f"{self.epoch:04x}{self.attempts:04x}")
        self.attempts += 1
        output = OutputID(dataset_id, f"{self.attempts:08x}")
        subtasks = tuple(range(parallelism))
        if partial is not None and uses_partial:
            output, subtasks = partial.salvaged, partial.missing
            assert recovery.initialized(vertex_id, dataset_id, parallelism, split)
        else:
            assert recovery.initialized(vertex_id, dataset_id, parallelism, split, output)
        self.flushed = len(self.resets)
        self._note_run(dataset_id, split, parallelism, output)
        written = subtasks[:writes] if killed == "running" else subtasks
        for subtask in written:
            self.contents[output, subtask] = Content(dataset_id, split, parallelism, subtask)
        if killed in ("running", "written"):
            self.kill(cut)
            return
        self.published[output] = parallelism
        if killed == "published":
            self.kill(cut)
            return
        found = self._visible()[output].kept
        if found is None:
            # What was salvaged has got lost meanwhile: this vertex can't be published.
            del self.published[output]
            self.kill(cut)
            return
        recovery.finished(vertex_id, dataset_id, found, subtasks)
        assert recovery.whole(dataset_id) == found
        assert recovery.progress[dataset_id].done == parallelism

    @precondition(lambda self: self.recovery is not None)
    @rule(dataset_id=SOME_DATASETS)
    def find_damage(self, dataset_id: IntermediateDataSetID) -> None:
        """What is read proves damaged, but can't be removed."""
        kept = self._alive.whole(dataset_id)
        if kept is None or kept.name is None:
            return
        self._alive.lost([dataset_id])
        self.resets.append({place for place in self.contents if place[0].dataset_id == dataset_id})
        assert self._alive.whole(dataset_id) is None

    @precondition(lambda self: self.recovery is not None)
    @rule(cut=st.integers(0, 1 << 16))
    def kill(self, cut: int) -> None:
        """The driver dies; of what wasn't flushed any part has got to the disk."""
        self._alive.close()
        self.recovery = None
        path = max(event_files(self._events).items())[1]
        data = path.read_bytes()
        resets = self._resets_on_disk()
        path.write_bytes(data[: cut % (len(data) + 1)])
        if self._resets_on_disk() < self.flushed or not self._keeps_the_runs():
            # So much had been flushed before.
            path.write_bytes(data)
            assert self._resets_on_disk() == resets
        self.resets = self.resets[: self._resets_on_disk()]
        self.flushed = len(self.resets)

    @precondition(lambda self: self.contents)
    @rule(data=st.data())
    def lose_a_partition(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(sorted(self.contents)))
        del self.contents[place]
        self.away.discard(place)

    @precondition(lambda self: self.contents)
    @rule(data=st.data())
    def lose_sight_of_partitions(self, data: st.DataObject) -> None:
        """Their executor doesn't answer in time."""
        self.away = set(data.draw(st.sets(st.sampled_from(sorted(self.contents)))))

    @precondition(lambda self: self.recovery is not None)
    @rule()
    def end(self) -> None:
        self._alive.end(JobStatus.FINISHED)
        assert not event_files(self._events)
        self._alive.close()
        self.recovery = None
        self.contents.clear()
        self.published.clear()
        self.runs.clear()
        self.resets.clear()
        self.flushed = 0

    def teardown(self) -> None:
        """In the end a start that nothing befalls runs what is missing, and the job is done."""
        if self.recovery is None:
            self.start()
        for dataset_id in DATASETS:
            split, parallelism, _ = self.runs.get(dataset_id, ("s", 2, set()))
            self.away.clear()
            if self._alive.whole(dataset_id) is None:
                self.run_vertex(dataset_id, split, parallelism, 0, "no", 0, False)
            assert self._alive.whole(dataset_id) is not None
        self.end()
        shutil.rmtree(self.home)

    @property
    def _events(self) -> Path:
        return self.home / "events"

    @property
    def _alive(self) -> JobRecovery:
        assert self.recovery is not None
        return self.recovery

    def _visible(self) -> dict[OutputID, Found]:
        indices: dict[OutputID, set[int]] = {}
        for output, index in self.contents.keys() - self.away:
            indices.setdefault(output, set()).add(index)
        return {
            output: Found(
                kept(output, *found) if self.published.get(output) == len(found) else None,
                frozenset(found),
            )
            for output, found in indices.items()
        }

    def _is_void(self, place: Place) -> bool:
        return any(place in taken_back for taken_back in self.resets)

    def _whole_ones(self, dataset_id: IntermediateDataSetID) -> set[OutputID]:
        return {
            output
            for output, found in self.seen.items()
            if output.dataset_id == dataset_id
            and found.kept is not None
            and not any(self._is_void((output, index)) for index in found.present)
        }

    def _check_partial(
        self,
        partial: PartialVertex,
        dataset_id: IntermediateDataSetID,
        split: str,
        parallelism: int,
    ) -> None:
        assert sorted(partial.present + partial.missing) == list(range(parallelism))
        assert set(partial.present) == self.seen[partial.salvaged].present
        for subtask in partial.present:
            place = partial.salvaged, subtask
            # It may have been lost since the start has looked.
            if place in self.contents:
                assert self.contents[place] == Content(dataset_id, split, parallelism, subtask)
            assert not self._is_void(place)

    def _note_run(
        self, dataset_id: IntermediateDataSetID, split: str, parallelism: int, output: OutputID
    ) -> None:
        before = self.runs.get(dataset_id)
        if before is not None and split and before[:2] == (split, parallelism):
            before[2].add(output)
        else:
            self.runs[dataset_id] = (split, parallelism, {output})

    def _resets_on_disk(self) -> int:
        events = replay(self._events).events
        return sum(isinstance(event, ExecutionVertexReset) for event in events)

    def _keeps_the_runs(self) -> bool:
        vertices = JobHistory(replay(self._events).events).vertices
        found = {key: (vertex.split, vertex.parallelism) for key, vertex in vertices.items()}
        return found == {dataset_id: run[:2] for dataset_id, run in self.runs.items()} and all(
            set(vertices[dataset_id].outputs) == run[2] for dataset_id, run in self.runs.items()
        )


TestDyingDriversRandomly = DyingDrivers.TestCase
# Each step writes files.
TestDyingDriversRandomly.settings = settings(
    stateful_step_count=25, max_examples=settings.default.max_examples // 3
)

"""The coordinators of a job's vertices: restored, told what happens, and asked for snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta

from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.recovery.operator_coordinator import OperatorCoordinator
from holdfast.runtime.recovery.recovered_job import RecoveredVertex
from holdfast.runtime.recovery.snapshot_schedule import SnapshotSchedule


@dataclass(frozen=True, slots=True)
class _Coordinated:
    coordinator: OperatorCoordinator
    schedule: SnapshotSchedule


class Coordinators:
    """The coordinators of a job's vertices, by the datasets that these produce.

    Args:
        min_pause: how long at least between two snapshots of a coordinator.
        clock: the time in seconds, which never goes back.

    Source: FLIP-383, "The Whole Workflow of Job Recovery", step 3.
    """

    def __init__(self, min_pause: timedelta, clock: Callable[[], float]) -> None:
        self._min_pause = min_pause
        self._clock = clock
        self._coordinated: dict[IntermediateDataSetID, _Coordinated] = {}

    def add(
        self,
        dataset_id: IntermediateDataSetID,
        coordinator: OperatorCoordinator,
        recovered: RecoveredVertex | None,
    ) -> bool:
        """A vertex has a coordinator.

        Args:
            dataset_id: the dataset that the vertex produces.
            coordinator: of this vertex; in the state of a new one.
            recovered: how far an earlier start got with the vertex.

        Returns:
            whether the coordinator has been restored from a snapshot.

        Raises:
            ValueError: when it doesn't take the snapshot that there is.
        """
        schedule = SnapshotSchedule(self._min_pause, self._clock)
        self._coordinated[dataset_id] = _Coordinated(coordinator, schedule)
        if recovered is None or recovered.snapshot is None:
            return False
        coordinator.restore(recovered.snapshot)
        for subtask in recovered.finished:
            coordinator.subtask_finished(subtask)
        for subtask in recovered.missing:
            coordinator.subtask_reset(subtask)
        return True

    def initialized(self, dataset_id: IntermediateDataSetID) -> bytes | None:
        """A vertex is about to run. A coordinator that takes no snapshots hears no more of it.

        Args:
            dataset_id: the dataset that it produces.

        Returns:
            the first snapshot of its coordinator; None where that gives none, or there is none.
        """
        coordinated = self._coordinated.get(dataset_id)
        if coordinated is None:
            return None
        snapshot = coordinated.coordinator.snapshot()
        if snapshot is None:
            del self._coordinated[dataset_id]
        coordinated.schedule.taken()
        return snapshot

    def finished(self, dataset_id: IntermediateDataSetID, subtask: int) -> bytes | None:
        """A subtask has finished.

        Args:
            dataset_id: the dataset that its vertex produces.
            subtask: which one.

        Returns:
            a snapshot of the vertex's coordinator if one is due.
        """
        coordinated = self._coordinated.get(dataset_id)
        if coordinated is None:
            return None
        coordinated.coordinator.subtask_finished(subtask)
        if not coordinated.schedule.is_due():
            return None
        snapshot = coordinated.coordinator.snapshot()
        coordinated.schedule.taken()
        return snapshot

    def has(self, dataset_id: IntermediateDataSetID) -> bool:
        """Whether a vertex has a coordinator."""
        return dataset_id in self._coordinated

    def reset(self, dataset_id: IntermediateDataSetID, subtasks: Iterable[int]) -> None:
        """Subtasks start again."""
        coordinated = self._coordinated.get(dataset_id)
        if coordinated is not None:
            for subtask in subtasks:
                coordinated.coordinator.subtask_reset(subtask)

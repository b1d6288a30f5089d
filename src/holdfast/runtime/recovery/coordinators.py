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
        for subtask in recovered.missing:
            coordinator.subtask_reset(subtask)
        return True

    def can_be_restored(self, dataset_id: IntermediateDataSetID) -> bool:
        """Whether the vertex has no coordinator, or one that takes snapshots."""
        coordinated = self._coordinated.get(dataset_id)
        return coordinated is None or coordinated.coordinator.snapshot() is not None

    def finished(self, dataset_id: IntermediateDataSetID, subtask: int, last: bool) -> bytes | None:
        """A subtask has finished.

        Args:
            dataset_id: the dataset that its vertex produces.
            subtask: which one.
            last: whether all of the vertex has.

        Returns:
            a snapshot of the vertex's coordinator if one is due: always with the last subtask,
            since what follows the last snapshot doesn't count.
        """
        coordinated = self._coordinated.get(dataset_id)
        if coordinated is None:
            return None
        coordinated.coordinator.subtask_finished(subtask)
        if not last and not coordinated.schedule.is_due():
            return None
        snapshot = coordinated.coordinator.snapshot()
        coordinated.schedule.taken()
        return snapshot

    def reset(self, dataset_id: IntermediateDataSetID, subtasks: Iterable[int]) -> None:
        """Subtasks start again."""
        coordinated = self._coordinated.get(dataset_id)
        if coordinated is not None:
            for subtask in subtasks:
                coordinated.coordinator.subtask_reset(subtask)

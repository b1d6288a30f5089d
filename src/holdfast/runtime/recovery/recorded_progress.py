"""How far a job has got, as its record says it to those who list jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.highavailability.job_record import VertexProgress
from holdfast.highavailability.job_start import JobStart
from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.execution_events import (
    ExecutionEvent,
    VertexEnded,
    VertexProduced,
    VertexRecovered,
    VertexReset,
    VertexStarted,
)
from holdfast.runtime.recovery.partition_progress import PartitionProgress
from holdfast.runtime.vertex_outcome import VertexOutcome


class RecordedProgress:
    """Records how far the vertices of a job have got, each time that one has.

    Args:
        start: this start of the job.
        progress: of each vertex, by the dataset that it produces.

    Source: FLIP-383, "The Whole Workflow of Job Recovery"; this is what `holdfast jobs` shows.
    """

    def __init__(
        self,
        start: JobStart,
        progress: Callable[[], Mapping[IntermediateDataSetID, PartitionProgress]],
    ) -> None:
        self._start = start
        self._progress = progress
        known = {} if start.previous is None else start.previous.vertices
        self._names = {dataset_id: vertex.name for dataset_id, vertex in known.items()}
        self._inputs = {dataset_id: vertex.inputs for dataset_id, vertex in known.items()}
        self._outcomes: dict[str, VertexOutcome] = {}

    def notify(self, event: ExecutionEvent) -> None:
        """One more thing has happened.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        match event:
            case VertexStarted(IntermediateDataSetID() as dataset_id, name, inputs):
                self._names[dataset_id.hex] = name
                self._inputs[dataset_id.hex] = tuple(each.hex for each in inputs)
                self._outcomes.pop(dataset_id.hex, None)
            case VertexRecovered(dataset_id, kept):
                self._names[dataset_id.hex] = kept.manifest.dataset.computes
                self._outcomes[dataset_id.hex] = VertexOutcome.RECOVERED
            case VertexReset(dataset_id):
                self._outcomes.pop(dataset_id.hex, None)
            case VertexEnded(IntermediateDataSetID() as dataset_id, outcome):
                self._outcomes[dataset_id.hex] = outcome
            case VertexProduced(dataset_id):
                self._outcomes[dataset_id.hex] = VertexOutcome.PRODUCED
                self._record()

    def _record(self) -> None:
        self._start.update(
            vertices={
                dataset_id.hex: VertexProgress(
                    name=self._names.get(dataset_id.hex, ""),
                    done=progress.done,
                    all=progress.partitions,
                    outcome=self._outcome(dataset_id.hex),
                    inputs=self._inputs.get(dataset_id.hex, ()),
                )
                for dataset_id, progress in self._progress().items()
            }
        )

    def _outcome(self, dataset_id: str) -> str | None:
        outcome = self._outcomes.get(dataset_id)
        return None if outcome is None else outcome.value

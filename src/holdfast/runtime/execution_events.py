"""What happens to the vertices of a job while it runs. Published once, to whoever listens.

Source: FLIP-383, "The Whole Workflow of Job Recovery"; FLINK-12406, "the locations flow in this
path"; Flink's ExecutionGraph and its listeners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.eventstore.events import ExecutionJobVertexInitialized
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.plan.reasons import Reason
from holdfast.runtime.partitions import ResultPartitionDescriptor
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.storage.kept_dataset import KeptDataSet


@dataclass(frozen=True, slots=True)
class VertexStarted:
    """A vertex has been handed to Spark.

    Attributes:
        dataset_id: the dataset that it produces; None for the vertex that answers.
        name: a short description.
        inputs: the datasets of the vertices that it reads, as far as they are told.
    """

    dataset_id: IntermediateDataSetID | None
    name: str
    inputs: tuple[IntermediateDataSetID, ...] = ()


@dataclass(frozen=True, slots=True)
class VertexProduced:
    """A vertex has run, and its result is kept.

    Attributes:
        dataset_id: the dataset that it produces.
        kept: where that is stored.
        vertex_id: this run of the vertex; None where the job is not recoverable.
        recovered: how many of its partitions an earlier start had finished; None likewise.
        recovered_tasks: how many tasks on the way to it an earlier start had run; None where
            what they write is not kept.
        run_subtasks: which subtasks have run; None: all.
        cpu_seconds: of all tasks of this run, which may have answered as well; None where that
            isn't known.
        taken_over: how many of its partitions an earlier production had left, when others were
            lost; None where all were produced.
    """

    dataset_id: IntermediateDataSetID
    kept: KeptDataSet
    vertex_id: JobVertexID | None = None
    recovered: int | None = None
    recovered_tasks: int | None = None
    run_subtasks: Sequence[int] | None = None
    cpu_seconds: float | None = None
    taken_over: int | None = None


@dataclass(frozen=True, slots=True)
class VertexRecovered:
    """A vertex need not run: an earlier start of this job had finished it.

    Attributes:
        dataset_id: the dataset that it produces.
        kept: where that is stored.
    """

    dataset_id: IntermediateDataSetID
    kept: KeptDataSet


@dataclass(frozen=True, slots=True)
class VertexRead:
    """A vertex need not run: its result had been kept before, or another job kept it meanwhile.

    Attributes:
        dataset_id: the dataset that is read.
        name: what it computes.
        kept_by: who has kept it, and when, where that was another program.
        seconds: about how much time that saves; 0 where that isn't known.
    """

    dataset_id: IntermediateDataSetID
    name: str
    kept_by: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class VertexMissed:
    """A vertex has to run, although another program has kept something like its result.

    Attributes:
        dataset_id: the dataset that it produces.
        why: why that is not read.
    """

    dataset_id: IntermediateDataSetID
    why: str


@dataclass(frozen=True, slots=True)
class VertexEnded:
    """A vertex has ended without leaving partitions behind.

    Attributes:
        dataset_id: the dataset that it was to produce; None for the vertex that answers.
        outcome: how.
        reason: why, where the outcome needs one.
    """

    dataset_id: IntermediateDataSetID | None
    outcome: VertexOutcome
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class VertexReset:
    """What a vertex had left is damaged or gone: it has to run again.

    Attributes:
        dataset_id: the dataset that it produces.
    """

    dataset_id: IntermediateDataSetID


@dataclass(frozen=True, slots=True)
class TasksRecovered:
    """Tasks on the way to the answer were not run, as an earlier start had run them.

    Attributes:
        tasks: how many.
    """

    tasks: int


@dataclass(frozen=True, slots=True)
class PartitionsAvailable:
    """All partitions of a dataset are there to be read by any job of the application.

    Attributes:
        dataset_id: the dataset.
        descriptors: its partitions, by index.
        reasons: why it is not read everywhere, if it isn't.
    """

    dataset_id: IntermediateDataSetID
    descriptors: tuple[ResultPartitionDescriptor, ...]
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class LocationsIncomplete:
    """Some location of a dataset could not be collected (FLINK-12406, "Failure Handling").

    Attributes:
        dataset_id: the dataset.
    """

    dataset_id: IntermediateDataSetID


@dataclass(frozen=True, slots=True)
class DataSetLost:
    """A kept dataset is damaged or gone, and has been invalidated.

    Attributes:
        dataset_id: the dataset.
        damage: what is wrong with it.
    """

    dataset_id: IntermediateDataSetID
    damage: str


ExecutionEvent: TypeAlias = (
    VertexStarted
    | ExecutionJobVertexInitialized
    | VertexProduced
    | VertexRecovered
    | VertexRead
    | VertexMissed
    | VertexEnded
    | VertexReset
    | TasksRecovered
    | PartitionsAvailable
    | LocationsIncomplete
    | DataSetLost
)
"""Any of them. Of vertices whose parallelism is decided before they run, the recovery's own."""

"""One output on a task executor: where it lies, how far it has come, and what explains it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from threading import RLock

from holdfast.ids import JobID
from holdfast.storage.kept_dataset import KeptPartition, Manifest
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.partitions.partition_info import OutputID


class OutputState(Enum):
    """How far an output has come."""

    OPEN = "Spark's tasks write it"
    FINISHED = "its partitions are the job's"
    PARTIAL = "tasks of an earlier start had committed some of its partitions"
    PROMOTED = "its partitions outlive the job"


@dataclass(slots=True, eq=False)
class Output:
    """One output.

    Attributes:
        output_id: which one.
        job_id: the job that produces it.
        directory: where its partitions lie.
        state: how far it has come; the tracker's to change.
        working: held by whoever works on its directory.
        partitions: those that lie here, by index; none while tasks write them.
        number_of_partitions: of the whole dataset; 0 while that isn't known.
        manifest: what explains it, once it is promoted.
        files: its partitions by the names of their files, once it is promoted.
        hits: how often jobs have read it.
        part: which partitions its tasks make, where a later start may find them.
        publication: which publishing it belongs to, where that has been told.
        catalog: the identity of the catalog that it is held for, where one holds it.
    """

    output_id: OutputID
    job_id: JobID
    directory: Path
    state: OutputState = OutputState.OPEN
    working: RLock = field(default_factory=RLock)
    partitions: tuple[KeptPartition, ...] = ()
    number_of_partitions: int = 0
    manifest: Manifest | None = None
    files: dict[str, KeptPartition] = field(default_factory=dict)
    hits: int = 0
    part: OutputPart | None = None
    publication: Publication | None = None
    catalog: str | None = None

    def promoted(self, directory: Path, manifest: Manifest) -> None:
        """It lies elsewhere and outlives its job from now on."""
        self.directory = directory
        self.manifest = manifest
        self.partitions = manifest.partitions
        self.files = {partition.file: partition for partition in manifest.partitions}
        self.state = OutputState.PROMOTED

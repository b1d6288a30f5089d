"""What an application's outputs are doing on one task executor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from threading import Lock

from holdfast.errors import DuplicateRegistrationError
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
        state: how far it has come.
        working: held by whoever works on its directory.
        number_of_partitions: of the whole dataset; 0 while that isn't known.
        manifest: what explains it, once it is promoted.
        files: its partitions by the names of their files, once it is promoted.
        hits: how often jobs have read it.
        part: which partitions its tasks make, where a later start may find them.
        publication: which publishing it belongs to, where that has been told.
        salvaged: what an earlier start has left of it, until it is published.
    """

    output_id: OutputID
    job_id: JobID
    directory: Path
    state: OutputState = OutputState.OPEN
    working: Lock = field(default_factory=Lock)
    number_of_partitions: int = 0
    manifest: Manifest | None = None
    files: dict[str, KeptPartition] = field(default_factory=dict)
    hits: int = 0
    part: OutputPart | None = None
    publication: Publication | None = None
    salvaged: tuple[KeptPartition, ...] = ()

    def promoted(self, directory: Path, manifest: Manifest) -> None:
        """It lies elsewhere and outlives its job from now on."""
        self.directory = directory
        self.manifest = manifest
        self.files = {partition.file: partition for partition in manifest.partitions}
        self.state = OutputState.PROMOTED


class OutputBook:
    """The outputs of one application. Safe for use by several threads."""

    def __init__(self) -> None:
        self._outputs: dict[OutputID, Output] = {}
        self._lock = Lock()

    def add(self, output: Output) -> None:
        """Takes an output in.

        Raises:
            DuplicateRegistrationError: when it is known.
        """
        with self._lock:
            if output.output_id in self._outputs:
                raise DuplicateRegistrationError(
                    f"output {output.output_id}", "Produce it as a new attempt."
                )
            self._outputs[output.output_id] = output

    def get(self, output_id: OutputID) -> Output | None:
        """An output; None for an unknown one."""
        return self._outputs.get(output_id)

    def drop(self, output: Output) -> None:
        """Forgets an output. Does nothing for one that is forgotten."""
        with self._lock:
            if self._outputs.get(output.output_id) is output:
                del self._outputs[output.output_id]

    def drop_all(self, which: Callable[[Output], bool]) -> list[Output]:
        """Forgets some outputs.

        Returns:
            those that were forgotten.
        """
        with self._lock:
            dropped = [output for output in self._outputs.values() if which(output)]
            for output in dropped:
                del self._outputs[output.output_id]
        return dropped

    def all(self, state: OutputState | None = None) -> list[Output]:
        """All outputs, or those that have come this far."""
        with self._lock:
            return [out for out in self._outputs.values() if state in (None, out.state)]

    def knows(self, name: str) -> bool:
        """Whether a directory of this name belongs to an output."""
        try:
            return OutputID.parse(name) in self._outputs
        except ValueError:
            return False

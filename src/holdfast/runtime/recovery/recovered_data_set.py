"""What the task executors together have of the datasets of a job that was taken over. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, KeptPartition, Manifest
from holdfast.taskexecutor.outputs.recovered_output import RecoveredOutput
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
)


@dataclass(frozen=True, slots=True)
class RecoveredPartition:
    """A partition that has outlived the driver. Flink's `PartitionWithMetrics`.

    Attributes:
        partition_id: which one.
        executor: the name of the task executor that has it.
        metrics: how large it is.

    Source: FLIP-383, `ShuffleMaster.PartitionWithMetrics`.
    """

    partition_id: ResultPartitionID
    executor: str
    metrics: PartitionMetrics


@dataclass(frozen=True, slots=True)
class RecoveredDataSet:
    """What is left of one production of a dataset, wherever it lies.

    Attributes:
        output: the production.
        kept: the dataset, when all of it is there.
        present: the partitions that are there. Where not all are, those without rows may be
            missing although they were computed: Spark leaves no file of them.
        number_of_partitions: of the whole; None where nobody knew it when the driver was lost.
    """

    output: OutputID
    kept: KeptDataSet | None
    present: frozenset[int]
    number_of_partitions: int | None


@dataclass(frozen=True, slots=True)
class FoundPart:
    """One output on one executor.

    Attributes:
        executor: its name.
        read_root: the path or URL under which Spark reads the outputs there.
        recovered: the output.
    """

    executor: str
    read_root: str
    recovered: RecoveredOutput

    @property
    def directory(self) -> str:
        """The path or URL of what is published of it."""
        return f"{self.read_root.removeprefix('file:')}/{self.recovered.output.name}"


@dataclass(frozen=True, slots=True)
class FoundProduction:
    """One production of a dataset, in all outputs that it is made of and on all executors.

    Attributes:
        output: what it is known by.
        parts: what was found of it.
    """

    output: OutputID
    parts: tuple[FoundPart, ...]

    def whole(self) -> FoundProduction | None:
        """Those parts of it that make up a dataset that was published; None when none do."""
        by_token: defaultdict[str, list[FoundPart]] = defaultdict(list)
        for part in self.parts:
            if part.recovered.publication is not None and part.recovered.manifest is not None:
                by_token[part.recovered.publication.token].append(part)
        for parts in by_token.values():
            publication = parts[0].recovered.publication
            together = FoundProduction(self.output, tuple(parts))
            if publication is not None and publication.files == len(together.placed()):
                return together
        return None

    def placed(self) -> dict[int, tuple[FoundPart, KeptPartition]]:
        """For each partition one of those who have it."""
        placed: dict[int, tuple[FoundPart, KeptPartition]] = {}
        for part in self.parts:
            for partition in part.recovered.partitions:
                placed.setdefault(partition.index, (part, partition))
        return dict(sorted(placed.items()))

    def number_of_partitions(self) -> int | None:
        """Of the whole, as far as any part tells."""
        numbers = (part.recovered.number_of_partitions for part in self.parts)
        return max((number for number in numbers if number is not None), default=None)

    def outputs_by_executor(self) -> dict[str, frozenset[OutputID]]:
        """For each executor the outputs that it holds of it."""
        outputs: defaultdict[str, set[OutputID]] = defaultdict(set)
        for part in self.parts:
            outputs[part.executor].add(part.recovered.output)
        return {executor: frozenset(there) for executor, there in outputs.items()}

    def kept(self) -> KeptDataSet | None:
        """The dataset, from what was published; None when none of it was."""
        manifests = (part.recovered.manifest for part in self.parts)
        manifest = next((each for each in manifests if each is not None), None)
        return None if manifest is None else self.placed_as(manifest.created, manifest.dataset)[0]

    def placed_as(
        self, created: str, description: DataSetDescription
    ) -> tuple[KeptDataSet, list[str]]:
        """All of it as one dataset.

        Args:
            created: when it was published, in ISO 8601.
            description: what it is.

        Returns:
            the dataset, and for each of its directories the executor that has it.
        """
        placed = self.placed().values()
        executors = {part.directory: part.executor for part, _ in placed}
        places = {directory: place for place, directory in enumerate(executors)}
        partitions = tuple(partition for _, partition in placed)
        kept = KeptDataSet(
            directories=tuple(executors),
            manifest=Manifest(created=created, dataset=description, partitions=partitions),
            holders=() if len(places) == 1 else tuple(places[part.directory] for part, _ in placed),
            name=self.output.name,
        )
        return kept, list(executors.values())


def productions(found: Iterable[FoundPart]) -> dict[OutputID, FoundProduction]:
    """What was found, put together by what it is a part of."""
    by_whole: defaultdict[OutputID, list[FoundPart]] = defaultdict(list)
    for part in found:
        by_whole[part.recovered.part_of].append(part)
    return {
        output: FoundProduction(output, tuple(parts)) for output, parts in sorted(by_whole.items())
    }

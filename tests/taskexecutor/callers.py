"""Applications and starts of jobs that call a task executor, here or in another process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptPartition, Manifest
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.outputs.recovered_output import RecoveredOutput
from holdfast.taskexecutor.partitions.partition_info import OutputID, ResultPartitionID
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.version import __version__

JOB = JobID("ab" * 16)


class Clock:
    """A time that passes when a test says so."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def output_of(digit: str, attempt: str = "0badcafe") -> OutputID:
    return OutputID(IntermediateDataSetID(digit * 64), attempt)


def ids(output: OutputID, *indices: int) -> list[ResultPartitionID]:
    return [ResultPartitionID(output, index) for index in indices]


def description(digit: str) -> DataSetDescription:
    return DataSetDescription(
        dataset_id=digit * 64, computes="rows", columns=(), spark_version="4.3.0"
    )


def manifest_of(output: OutputID, kept: tuple[KeptPartition, ...]) -> Manifest:
    dataset = description(output.dataset_id.hex[0]).model_copy(
        update={"dataset_id": output.dataset_id.hex}
    )
    return Manifest(created="2026-11-21T00:00:00+00:00", dataset=dataset, partitions=kept)


def write(directory: Path, *indices: int, rows: int = 3, name: str = "x") -> None:
    """Leaves partitions as Spark's tasks do."""
    directory.mkdir(parents=True, exist_ok=True)
    for index in indices:
        file = directory / f"part-{index:05}-{name}-c000.zstd.parquet"
        pq.write_table(pa.table({"a": list(range(rows))}), file)
        file.with_name(f".{file.name}.crc").write_bytes(b"crc")


def parts(root: Path) -> list[str]:
    """The partitions that lie below a directory."""
    return sorted(path.name[:10] for path in root.rglob("part-*.parquet"))


@dataclass
class Caller:
    """An application that has one job at a time, as a job master runs it."""

    gateway: TaskExecutorGateway
    application: ApplicationID = field(default_factory=ApplicationID.random)
    job_id: JobID = field(default_factory=JobID.random)
    claim: RecoveryClaim | None = None
    read_root: str = ""

    @classmethod
    def start_of(
        cls, gateway: TaskExecutorGateway, epoch: int, job: JobID = JOB, lease_seconds: float = 100
    ) -> Caller:
        """A start of a job that keeps what it is recovered from."""
        claim = RecoveryClaim(job, epoch)
        return cls(gateway, claim.application, job, claim).connect(lease_seconds)

    def connect(self, lease_seconds: float = 60) -> Caller:
        gateway, application = self.gateway, self.application
        if self.claim is None:
            registered = gateway.register_application(application, lease_seconds, __version__)
        else:
            registered = gateway.register_recovery(
                application, self.claim, lease_seconds, __version__
            )
        self.read_root = registered.read_root
        gateway.register_job(application, self.job_id)
        return self

    @property
    def base(self) -> str:
        """The path of what it keeps, over HTTP."""
        return "/webhdfs/v1/" + self.read_root.split("/", 3)[3]

    def open(self, output: OutputID, part: OutputPart | None = None) -> Path:
        return Path(self.gateway.open_output(self.application, self.job_id, output, part))

    def finish(
        self, output: OutputID, indices: list[int] | None = None, number: int | None = None
    ) -> tuple[KeptPartition, ...]:
        return self.gateway.finish_output(self.application, self.job_id, output, indices, number)

    def promote(
        self, output: OutputID, kept: tuple[KeptPartition, ...], number: int | None = None
    ) -> None:
        publication = None if number is None else Publication.of(len(kept), number)
        manifest = manifest_of(output, kept)
        self.gateway.promote(self.application, self.job_id, output, manifest, publication)

    def keep(
        self, output: OutputID, *indices: int, number: int | None = None
    ) -> tuple[KeptPartition, ...]:
        """Writes, finishes and promotes an output; of two partitions where none are given."""
        write(self.open(output), *(indices or (0, 1)), name=output.attempt)
        if self.claim is not None and number is None:
            number = max(indices or (0, 1)) + 1
        kept = self.finish(output, None, number)
        self.promote(output, kept, None if self.claim is None else number)
        return kept

    def link(
        self,
        output: OutputID,
        source: ApplicationID,
        partitions: list[ResultPartitionID],
        numbers: list[int] | None = None,
    ) -> None:
        self.gateway.link_output(self.application, self.job_id, output, source, partitions, numbers)

    def damage(self, output: OutputID) -> str | None:
        return self.gateway.damage(self.application, output)

    def outputs(self) -> list[OutputID]:
        return [each.output for each in self.gateway.report(self.application)]

    def found(self) -> dict[OutputID, RecoveredOutput]:
        return {each.output: each for each in self.gateway.recovered(self.application)}

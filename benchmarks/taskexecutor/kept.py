"""Keeps an output with a task executor, as a job master does."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, KeptPartition, Manifest
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.version import __version__

_LEASE_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class KeptOutput:
    """An output that is kept.

    Attributes:
        url: what Spark reads it under.
        directory: where it lies.
        partitions: its partitions.
    """

    url: str
    directory: Path
    partitions: tuple[KeptPartition, ...]


def keep(gateway: TaskExecutorGateway, write: Callable[[Path], None]) -> KeptOutput:
    """Keeps what `write` leaves in the directory that it is given."""
    application, job_id = ApplicationID.random(), JobID.random()
    output = OutputID(IntermediateDataSetID("b" * 64), uuid.uuid4().hex[:8])
    root = gateway.register_application(application, _LEASE_SECONDS, __version__).read_root
    gateway.register_job(application, job_id)
    write(Path(gateway.open_output(application, job_id, output)))
    kept = gateway.finish_output(application, job_id, output, None, None)
    description = DataSetDescription(
        dataset_id=output.dataset_id.hex, computes="a benchmark", columns=(), spark_version="-"
    )
    manifest = Manifest(created="-", dataset=description, partitions=kept)
    gateway.promote(application, job_id, output, manifest)
    gateway.end_job(application, job_id)
    (report,) = gateway.report(application)
    return KeptOutput(f"{root}/{output}", Path(report.directory), kept)

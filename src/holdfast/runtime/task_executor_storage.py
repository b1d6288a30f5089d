"""Keeps results with task executors: the one in this process, or those of a cluster."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from holdfast.errors import (
    LocationsIncompleteError,
    StorageError,
    TaskExecutorError,
    UnknownDataSetError,
)
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.runtime.heartbeats import Heartbeats
from holdfast.runtime.job_master_partition_tracker import JobMasterPartitionTracker
from holdfast.runtime.lying_partition import LyingPartition
from holdfast.runtime.task_executor_connection import TaskExecutorConnection
from holdfast.storage.intermediate_result_storage import (
    IntermediateResultStorage,
    StagedDataSet,
    WrittenPartition,
)
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, KeptPartition, Manifest
from holdfast.storage.partition_directory import PartitionDirectory, damage, rewritten
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)

logger = logging.getLogger(__name__)


class TaskExecutorStorage(IntermediateResultStorage):
    """The default storage: partitions lie where the tasks that made them ran.

    Source: FLIP-36, "Default table service"; FLINK-12612.

    Args:
        executors: by name or address, each reached through its gateway.
        application: whose results these are.
        lease_seconds: how long executors keep them without hearing from this process.
        heartbeat_seconds: how often they do; None where the executor goes with this process.
        version: of Holdfast.
        spans_machines: whether executors are processes beside Spark's tasks; None: where there are
            heartbeats.

    Raises:
        StorageError: when no executor can be reached.
    """

    def __init__(
        self,
        executors: Mapping[str, TaskExecutorGateway],
        application: ApplicationID,
        *,
        lease_seconds: float,
        heartbeat_seconds: float | None,
        version: str,
        spans_machines: bool | None = None,
    ) -> None:
        self.application = application
        self._spans_machines = (
            heartbeat_seconds is not None if spans_machines is None else spans_machines
        )
        self._connections = [
            self._connection(name, gateway, lease_seconds, version)
            for name, gateway in executors.items()
        ]
        self._tracker = JobMasterPartitionTracker()
        self._hits: dict[OutputID, int] = {}
        self._lock = Lock()
        self._heartbeats: Heartbeats | None = None
        self._connect()
        self._heartbeats = (
            None
            if heartbeat_seconds is None
            else Heartbeats(self._connections, heartbeat_seconds, self._all_hits)
        )

    @property
    def spans_machines(self) -> bool:
        return self._spans_machines

    def stage(self, job_id: JobID, dataset_id: IntermediateDataSetID) -> StagedDataSet:
        return self._stage(job_id, OutputID(dataset_id, uuid.uuid4().hex[:8]), None)

    def _stage(self, job_id: JobID, output: OutputID, part: OutputPart | None) -> StagedDataSet:
        directories: dict[str, str] = {}
        failures: list[Exception] = []
        for connection in self._connections:
            try:
                connection.ensure_job(job_id)
                directories[connection.name] = connection.call(
                    lambda gateway: gateway.open_output(self.application, job_id, output, part)
                )
            except (TaskExecutorError, StorageError) as error:
                failures.append(error)
        if len(set(directories.values())) != 1:
            self._give_up(job_id, output)
            if failures and not directories:
                raise StorageError(str(output), str(failures[0])) from failures[0]
            raise StorageError(
                str(output), f"expected the same directory on all task executors, got {directories}"
            )
        directory = Path(next(iter(directories.values())))
        return StagedDataSet(job_id, output.dataset_id, output.name, directory)

    def publish(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None = None,
    ) -> KeptDataSet:
        output = OutputID.parse(staged.name)
        if written is None:
            (connection,) = self._connections
            found = {connection: self._finish(connection, staged, output, None, None)}
        else:
            by_host = self._by_host(staged, written)
            found = {
                connection: self._finish(connection, staged, output, partitions, len(written))
                for connection, partitions in by_host.items()
            }
        number = None if written is None else len(written)
        return self._publish_found(staged, output, description, found, number)

    def publish_linked(
        self,
        job_id: JobID,
        description: DataSetDescription,
        source: ApplicationID,
        partitions: Sequence[LyingPartition],
        number_of_partitions: int,
    ) -> KeptDataSet:
        """Publishes a dataset of another application here as well, without a copy of its rows.

        Args:
            job_id: for which job it is published here.
            description: what it is.
            source: the other application, which the same task executors know.
            partitions: those of the dataset that have a file.
            number_of_partitions: of the whole dataset.

        Raises:
            LocationsIncompleteError: when a task executor that holds some of it doesn't answer, or
                doesn't hold it any more.
            StorageError: when it can't be published.
        """
        staged = self.stage(job_id, IntermediateDataSetID.from_digest(description.dataset_id))
        try:
            found = self._link_all(staged, source, partitions, number_of_partitions)
            output = OutputID.parse(staged.name)
            return self._publish_found(staged, output, description, found, number_of_partitions)
        except BaseException:
            self.discard(staged)
            raise

    def _link_all(
        self,
        staged: StagedDataSet,
        source: ApplicationID,
        partitions: Sequence[LyingPartition],
        number_of_partitions: int,
    ) -> dict[TaskExecutorConnection, tuple[KeptPartition, ...]]:
        """Has the executors link what lies there; `finish` then reads what they have."""
        output = OutputID.parse(staged.name)
        # What has no rows needs no file, but a dataset needs one.
        first = min((each.partition_id.index for each in partitions), default=0)
        linked = [each for each in partitions if each.rows or each.partition_id.index == first]
        by_host = self._by_host(staged, [each.written for each in linked])
        for connection in by_host:
            host = connection.description.host
            there = [each.partition_id for each in linked if each.host == host]
            if there:
                self._link(connection, staged, output, source, there)
        return {
            connection: self._finish(connection, staged, output, there, number_of_partitions, first)
            for connection, there in by_host.items()
        }

    def _link(
        self,
        connection: TaskExecutorConnection,
        staged: StagedDataSet,
        output: OutputID,
        source: ApplicationID,
        there: Sequence[ResultPartitionID],
    ) -> None:
        try:
            connection.call(
                lambda gateway: gateway.link_output(
                    self.application, staged.job_id, output, source, there
                )
            )
        except TaskExecutorError as error:
            raise LocationsIncompleteError(str(staged.dataset_id), str(error)) from error

    def _publish_found(
        self,
        staged: StagedDataSet,
        output: OutputID,
        description: DataSetDescription,
        found: Mapping[TaskExecutorConnection, tuple[KeptPartition, ...]],
        number_of_partitions: int | None,
    ) -> KeptDataSet:
        if not any(found.values()):
            raise StorageError(
                str(staged.directory), "no task wrote a partition, not even an empty one"
            )
        created = datetime.now(UTC).isoformat(timespec="seconds")
        manifests = {
            connection: Manifest(created=created, dataset=description, partitions=partitions)
            for connection, partitions in found.items()
            if partitions
        }
        indices = {partition.index for partitions in found.values() for partition in partitions}
        number = number_of_partitions or max(indices) + 1
        self._promote(staged, output, manifests, self._publication(len(indices), number))
        kept = _kept(output, manifests)
        self._track(staged.job_id, output, kept, [each.name for each in manifests], number)
        return kept

    def discard(self, staged: StagedDataSet) -> None:
        self._give_up(staged.job_id, OutputID.parse(staged.name))

    def end_job(self, job_id: JobID) -> None:
        for connection in self._connections:
            connection.end_job(job_id)
        with self._lock:
            self._tracker.stop_tracking_partitions_for(job_id)

    def damage(self, kept: KeptDataSet) -> str | None:
        if kept.name is None:
            return damage(kept.directory, kept.manifest)
        output = OutputID.parse(kept.name)
        with self._lock:
            try:
                if not self._tracker.is_complete(output):
                    return "a task executor that held some of its partitions was lost"
                holders = set(self._tracker.locations(output).values())
            except UnknownDataSetError:
                return "it has been released"
        for connection in self._connections:
            if connection.name not in holders:
                continue
            for part in self._parts_on(connection.name, output):
                found = self._damage_on(connection, part)
                if found is not None:
                    return found
        return None

    def _damage_on(self, connection: TaskExecutorConnection, output: OutputID) -> str | None:
        try:
            return connection.call(lambda gateway: gateway.damage(self.application, output))
        except TaskExecutorError as error:
            return str(error)

    def _parts_on(self, executor: str, output: OutputID) -> Collection[OutputID]:
        """The outputs that an executor holds of a dataset that is known by one of them."""
        return (output,)

    def rewritten(self, kept: KeptDataSet) -> str | None:
        # A task executor of its own doesn't serve what isn't as it was published.
        return None if self._spans_machines else rewritten(kept.directory, kept.manifest)

    def remove(self, kept: KeptDataSet) -> None:
        if kept.name is not None:
            self._release(OutputID.parse(kept.name))

    def pin(self, kept: KeptDataSet) -> KeptDataSet | None:
        if self._spans_machines:
            return None
        pinned = _partition_directory(kept).pin(kept.directory, kept.manifest)
        if pinned is None:
            return None
        return kept.model_copy(update={"directories": (str(pinned),), "name": None})

    def unpin(self, pinned: KeptDataSet) -> None:
        _partition_directory(pinned).remove(pinned.directory)

    def hit(self, kept: KeptDataSet) -> None:
        if kept.name is not None:
            output = OutputID.parse(kept.name)
            with self._lock:
                self._hits[output] = self._hits.get(output, 0) + 1

    def close(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.stop()
        for connection in self._connections:
            connection.close()

    def _connection(
        self, name: str, gateway: TaskExecutorGateway, lease_seconds: float, version: str
    ) -> TaskExecutorConnection:
        return TaskExecutorConnection(
            name,
            gateway,
            self.application,
            lease_seconds,
            version,
            self._executor_came_back,
            may_hang=self._spans_machines,
        )

    def _publication(self, files: int, number_of_partitions: int) -> Publication | None:
        """By which a later start finds the parts of what is published; None where none comes."""
        return None

    def _connect(self) -> None:
        failures: list[Exception] = []
        for connection in self._connections:
            self._tracker.executor_registered(connection.name)
            try:
                connection.connect()
            except (TaskExecutorError, StorageError) as error:
                failures.append(error)
                logger.warning("%s; retrying with each heartbeat", error)
        if len(failures) == len(self._connections):
            self.close()
            raise StorageError(
                ", ".join(connection.name for connection in self._connections),
                f"no task executor is available: {failures[0]}",
            ) from failures[0]

    def _finish(
        self,
        connection: TaskExecutorConnection,
        staged: StagedDataSet,
        output: OutputID,
        expected: Mapping[int, WrittenPartition] | None,
        number_of_partitions: int | None,
        first: int | None = 0,
    ) -> tuple[KeptPartition, ...]:
        """Has an executor take over what the tasks left there; compares it with what they say."""
        # Spark leaves no file of a task without rows, but for the first.
        indices = (
            None
            if expected is None
            else sorted(index for index, each in expected.items() if each.rows or index == first)
        )
        try:
            found = connection.call(
                lambda gateway: gateway.finish_output(
                    self.application, staged.job_id, output, indices, number_of_partitions
                )
            )
        except TaskExecutorError as error:
            raise LocationsIncompleteError(str(staged.dataset_id), str(error)) from error
        for partition in found:
            if expected is not None and expected[partition.index].rows != partition.rows:
                raise StorageError(
                    f"partition {partition.index} on {connection.name}",
                    f"its task wrote {expected[partition.index].rows} rows, but its file has "
                    f"{partition.rows}",
                )
        return found

    def _by_host(
        self, staged: StagedDataSet, written: Sequence[WrittenPartition]
    ) -> dict[TaskExecutorConnection, dict[int, WrittenPartition]]:
        """Which executor is beside each task that wrote; every executor has a part, if empty."""
        beside = {
            connection.description.host: connection
            for connection in self._connections
            if connection.is_up
        }
        parts: dict[TaskExecutorConnection, dict[int, WrittenPartition]] = {
            connection: {} for connection in beside.values()
        }
        for partition in written:
            connection = beside.get(partition.host)
            if connection is None:
                raise LocationsIncompleteError(
                    str(staged.dataset_id),
                    f"partition {partition.index} was written on {partition.host}, where no task "
                    f"executor responds (responding: {sorted(beside) or 'none'})",
                )
            parts[connection][partition.index] = partition
        return parts

    def _promote(
        self,
        staged: StagedDataSet,
        output: OutputID,
        manifests: Mapping[TaskExecutorConnection, Manifest],
        publication: Publication | None,
    ) -> None:
        for connection, manifest in manifests.items():
            try:
                connection.call(
                    lambda gateway, manifest=manifest: gateway.promote(  # type: ignore[misc]
                        self.application, staged.job_id, output, manifest, publication
                    )
                )
            except (TaskExecutorError, StorageError) as error:
                for each in manifests:
                    each.release([output])
                if isinstance(error, StorageError):
                    raise
                raise LocationsIncompleteError(str(staged.dataset_id), str(error)) from error

    def _track(
        self,
        job_id: JobID,
        output: OutputID,
        kept: KeptDataSet,
        names: Sequence[str],
        number: int,
    ) -> None:
        """Notes who has what; a partition without rows may have no file, and is there as well.

        Args:
            job_id: the job that produced it.
            output: what the dataset is known by.
            kept: the dataset.
            names: for each of its directories the executor.
            number: how many partitions it has.
        """
        holders = {
            partition.index: (names[holder], PartitionMetrics(partition.bytes, partition.rows))
            for partition, holder in zip(
                kept.manifest.partitions,
                kept.holders or (0,) * len(kept.manifest.partitions),
                strict=True,
            )
        }
        nothing = (names[0], PartitionMetrics(0, 0))
        ids = [ResultPartitionID(output, index) for index in range(number)]
        with self._lock:
            for partition_id in ids:
                executor, metrics = holders.get(partition_id.index, nothing)
                self._tracker.start_tracking_partition(
                    job_id, executor, TaskExecutorPartitionInfo(partition_id, metrics, number)
                )
            self._tracker.promote_job_partitions(job_id, ids)
            self._hits[output] = 1

    def _give_up(self, job_id: JobID, output: OutputID) -> None:
        for connection in self._connections:
            try:
                connection.call(
                    lambda gateway: gateway.fail_output(self.application, job_id, output)
                )
            except TaskExecutorError as error:
                logger.debug(
                    "%s: can't release %s before the job ends: %s", connection.name, output, error
                )

    def _release(self, output: OutputID) -> None:
        with self._lock:
            holders = self._tracker.stop_tracking_and_release_cluster_outputs([output])
            self._hits.pop(output, None)
        for connection in self._connections:
            if connection.name in holders:
                self._release_on(connection, [output])

    def _release_on(
        self, connection: TaskExecutorConnection, outputs: Collection[OutputID]
    ) -> None:
        parts = {part for output in outputs for part in self._parts_on(connection.name, output)}
        if parts:
            connection.release(parts)

    def _executor_came_back(
        self, connection: TaskExecutorConnection, left: Collection[OutputID]
    ) -> None:
        with self._lock:
            lost = self._tracker.datasets_on(connection.name) - set(left)
            released = self._tracker.stop_tracking_and_release_cluster_outputs(lost)
        if lost:
            logger.warning("task executor %s has lost %d datasets", connection.name, len(lost))
        for other in self._connections:
            if other is not connection:
                self._release_on(other, released.get(other.name, ()))

    def _all_hits(self) -> dict[OutputID, int]:
        with self._lock:
            return dict(self._hits)


def _kept(output: OutputID, manifests: Mapping[TaskExecutorConnection, Manifest]) -> KeptDataSet:
    """The whole dataset from the parts that the executors hold."""
    placed = sorted(
        (
            (partition, holder)
            for holder, manifest in enumerate(manifests.values())
            for partition in manifest.partitions
        ),
        key=lambda each: each[0].index,
    )
    first = next(iter(manifests.values()))
    roots = (connection.read_root for connection in manifests)
    return KeptDataSet(
        directories=tuple(f"{root.removeprefix('file:')}/{output.name}" for root in roots),
        manifest=first.model_copy(update={"partitions": tuple(each for each, _ in placed)}),
        holders=() if len(manifests) == 1 else tuple(holder for _, holder in placed),
        name=output.name,
    )


def _partition_directory(kept: KeptDataSet) -> PartitionDirectory:
    application = kept.directory.parent.parent

    def root() -> Path:
        if not application.is_dir():
            raise FileNotFoundError(f"application {application} was removed")
        return application

    return PartitionDirectory(root)

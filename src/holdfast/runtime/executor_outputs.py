"""What an application writes to its task executors: published, watched and released there."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timezone
from threading import RLock
from typing import Generic, TypeVar

from holdfast.errors import (
    LocationsIncompleteError,
    StorageError,
    TaskExecutorError,
    UnknownDataSetError,
)
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID, job_of_application
from holdfast.runtime.job_master_partition_tracker import JobMasterPartitionTracker
from holdfast.runtime.task_executor_connection import TaskExecutorConnection
from holdfast.storage.intact_partitions import intact_partitions
from holdfast.storage.intermediate_result_storage import StagedDataSet, WrittenPartition
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, KeptPartition, Manifest
from holdfast.storage.partition_directory import damage
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)

Connection = TypeVar("Connection", bound=TaskExecutorConnection)
Found = Mapping[TaskExecutorConnection, tuple[KeptPartition, ...]]
"""What executors have taken over of what tasks wrote beside them."""

logger = logging.getLogger(__name__)


class ExecutorOutputs(Generic[Connection]):
    """The outputs of one application on its task executors. Safe for use by several threads.

    Attributes:
        application: whose they are.
        spans_machines: whether executors are processes beside Spark's tasks.
        connections: to the executors.
        tracker: which executor holds what. To be used under `lock`.
        lock: guards the tracker.

    Args:
        application: whose they are.
        spans_machines: see above.
        connect: makes the connections, which are told what to call with the connection that was
            lost and the outputs that are left there.

    Source: FLINK-12612, "General Idea".
    """

    def __init__(
        self,
        application: ApplicationID,
        spans_machines: bool,
        connect: Callable[
            [Callable[[TaskExecutorConnection, Collection[OutputID]], None]], Sequence[Connection]
        ],
    ) -> None:
        self.application = application
        self.spans_machines = spans_machines
        self.tracker = JobMasterPartitionTracker()
        self.lock = RLock()
        self._hits: dict[OutputID, int] = {}
        self._parts: dict[OutputID, Mapping[str, Collection[OutputID]]] = {}
        self._completable: set[OutputID] = set()
        self.connections = connect(self._came_back)
        for connection in self.connections:
            self.tracker.executor_registered(connection.name)

    def stage(
        self, job_id: JobID, dataset_id: IntermediateDataSetID, part: OutputPart | None = None
    ) -> StagedDataSet:
        """A new directory for a new production of a dataset, the same on every executor's machine.

        Args:
            job_id: the job that writes there.
            dataset_id: what it is the result of.
            part: what of another production it makes, where that isn't all.

        Raises:
            StorageError: when it can't be made.
        """
        job_id = self.job_there(job_id)
        output = OutputID(dataset_id, uuid.uuid4().hex[:8])
        directories: dict[str, str] = {}
        failures: list[Exception] = []
        for connection in self.connections:
            try:
                connection.ensure_job(job_id)
                directories[connection.name] = connection.call(
                    lambda gateway: gateway.open_output(self.application, job_id, output, part)
                )
            except (TaskExecutorError, StorageError) as error:
                failures.append(error)
        if len(set(directories.values())) != 1:
            self.give_up(job_id, output)
            if failures and not directories:
                raise StorageError(str(output), str(failures[0])) from failures[0]
            raise StorageError(
                str(output), f"expected the same directory on all task executors, got {directories}"
            )
        (location,) = set(directories.values())
        return StagedDataSet(job_id, dataset_id, output.name, location)

    def finish(
        self,
        connection: TaskExecutorConnection,
        staged: StagedDataSet,
        expected: Mapping[int, WrittenPartition] | None,
        number_of_partitions: int | None,
        first: int | None = 0,
    ) -> tuple[KeptPartition, ...]:
        """Has an executor take over what the tasks left there; compares it with what they say.

        Args:
            connection: to the executor.
            staged: what was written.
            expected: what the tasks beside it say; None where they weren't asked.
            number_of_partitions: of the whole dataset, if that is known.
            first: the partition that has a file even without rows; None where none has.

        Raises:
            LocationsIncompleteError: when the executor is gone, or misses a partition.
            StorageError: when what lies there can't be read, or isn't what the tasks say.
        """
        output = OutputID.parse(staged.name)
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

    def finish_all(
        self,
        staged: StagedDataSet,
        written: Sequence[WrittenPartition] | None,
        number_of_partitions: int | None,
        *,
        first: int | None = 0,
    ) -> dict[TaskExecutorConnection, tuple[KeptPartition, ...]]:
        """Has all executors take over what the tasks left beside them.

        Args:
            staged: what was written.
            written: what the tasks say; None where they weren't asked.
            number_of_partitions: of the whole dataset, if that is known.
            first: as in `finish`.

        Raises:
            LocationsIncompleteError: when a task wrote where no executor is, or one misses a
                partition.
            StorageError: as `finish` does.
        """
        if written is not None and self.spans_machines:
            return {
                connection: self.finish(connection, staged, there, number_of_partitions, first)
                for connection, there in self.by_host(staged, written).items()
            }
        (connection,) = self.connections
        expected = None if written is None else {each.index: each for each in written}
        return {connection: self.finish(connection, staged, expected, number_of_partitions, first)}

    def by_host(
        self, staged: StagedDataSet, written: Sequence[WrittenPartition]
    ) -> dict[TaskExecutorConnection, dict[int, WrittenPartition]]:
        """Which executor is beside each task that wrote; every executor has a part, if empty.

        Raises:
            LocationsIncompleteError: when there is none beside one of them.
        """
        beside = {
            connection.description.host: connection
            for connection in self.connections
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

    def publish(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        found: Found,
        number_of_partitions: int | None,
        *,
        may_be_recovered: bool,
    ) -> KeptDataSet:
        """Makes what executors have taken over visible, as one dataset.

        Args:
            staged: what was written.
            description: what it is.
            found: what `finish` gave.
            number_of_partitions: of the whole; None: up to the last one that was found.
            may_be_recovered: whether a later start of the job may find its parts.

        Raises:
            LocationsIncompleteError: when an executor is gone.
            StorageError: when no task wrote anything, or it can't be published.
        """
        output = OutputID.parse(staged.name)
        if not any(found.values()):
            raise StorageError(staged.location, "no task wrote a partition, not even an empty one")
        created = datetime.now(timezone.utc).isoformat(timespec="seconds")
        manifests = {
            connection: Manifest(created=created, dataset=description, partitions=partitions)
            for connection, partitions in found.items()
            if partitions
        }
        indices = {partition.index for partitions in found.values() for partition in partitions}
        number = number_of_partitions or max(indices) + 1
        publication = Publication.of(len(indices), number) if may_be_recovered else None
        self.promote(staged, manifests, publication)
        kept = _kept(output, manifests)
        self.track(staged.job_id, output, kept, [each.name for each in manifests], number)
        return kept

    def promote(
        self,
        staged: StagedDataSet,
        manifests: Mapping[TaskExecutorConnection, Manifest],
        publication: Publication | None,
    ) -> None:
        """Makes the partitions that executors have taken over outlive their job.

        Raises:
            LocationsIncompleteError: when an executor is gone.
            StorageError: when it can't be published.
        """
        output = OutputID.parse(staged.name)
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

    def track(
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
            for partition, holder in kept.placed
        }
        nothing = (names[0], PartitionMetrics(0, 0))
        ids = [ResultPartitionID(output, index) for index in range(number)]
        with self.lock:
            for partition_id in ids:
                executor, metrics = holders.get(partition_id.index, nothing)
                self.tracker.start_tracking_partition(
                    job_id, executor, TaskExecutorPartitionInfo(partition_id, metrics, number)
                )
            self.tracker.promote_job_partitions(job_id, ids)
            self._hits[output] = 1
            if kept.manifest.dataset.layout is not None:
                self._completable.add(output)

    def is_made_of(self, output: OutputID, parts: Mapping[str, Collection[OutputID]]) -> None:
        """A dataset that is known by one output lies in others, or in several.

        Args:
            output: what it is known by.
            parts: for each executor the outputs that it holds of it.
        """
        self._parts[output] = parts

    def give_up(self, job_id: JobID, output: OutputID) -> None:
        """Releases an output that has not been promoted, where the executors can be reached."""
        for connection in self.connections:
            try:
                connection.call(
                    lambda gateway: gateway.fail_output(self.application, job_id, output)
                )
            except TaskExecutorError as error:
                logger.debug(
                    "%s: can't release %s before the job ends: %s", connection.name, output, error
                )

    def job_there(self, job_id: JobID) -> JobID:
        """What executors know a job of this application by.

        Args:
            job_id: the job. The ids of recoverable jobs are the same in each program.
        """
        return job_of_application(self.application, job_id)

    def end_job(self, job_id: JobID) -> None:
        """A job has ended: what it has not promoted goes. Nothing for an unknown one."""
        job_id = self.job_there(job_id)
        for connection in self.connections:
            connection.end_job(job_id)
        with self.lock:
            self.tracker.stop_tracking_partitions_for(job_id)

    def release(self, output: OutputID) -> None:
        """Releases a dataset that is known by an output, wherever parts of it lie."""
        with self.lock:
            holders = self.tracker.stop_tracking_and_release_cluster_outputs([output])
            self._hits.pop(output, None)
            self._completable.discard(output)
        for connection in self.connections:
            if connection.name in holders:
                self._release_on(connection, [output])
        self._parts.pop(output, None)

    def damage(self, kept: KeptDataSet) -> str | None:
        """What is wrong with a dataset, told without reading rows."""
        if kept.name is None:
            return damage(kept.directory, kept.manifest)
        output = OutputID.parse(kept.name)
        with self.lock:
            try:
                if not self.tracker.is_complete(output):
                    return "a task executor that held some of its partitions was lost"
                holders = set(self.tracker.locations(output).values())
            except UnknownDataSetError:
                return "it has been released"
        for connection in self.connections:
            if connection.name not in holders:
                continue
            for part in self._parts_on(connection.name, output):
                found = self._damage_on(connection, part)
                if found is not None:
                    return found
        return None

    def intact(self, kept: KeptDataSet) -> frozenset[int]:
        """The indices of a dataset's partitions that are as they were published."""
        if kept.name is None:
            return frozenset()
        if not self.spans_machines:
            return intact_partitions(kept)
        output = OutputID.parse(kept.name)
        located = self.located(output)
        good = {
            connection.name
            for connection in self.connections
            if connection.name in located.values()
            and all(
                self._damage_on(connection, part) is None
                for part in self._parts_on(connection.name, output)
            )
        }
        return frozenset(index for index, name in located.items() if name in good)

    def located(self, output: OutputID) -> dict[int, str]:
        """By index the name of the executor that has it, for those partitions that are there."""
        with self.lock:
            try:
                return self.tracker.locations(output)
            except UnknownDataSetError:
                return {}

    def _damage_on(self, connection: TaskExecutorConnection, output: OutputID) -> str | None:
        try:
            return connection.call(lambda gateway: gateway.damage(self.application, output))
        except TaskExecutorError as error:
            return str(error)

    def hit(self, kept: KeptDataSet) -> None:
        """A job reads a dataset."""
        if kept.name is not None:
            output = OutputID.parse(kept.name)
            with self.lock:
                self._hits[output] = self._hits.get(output, 0) + 1

    def hits_of(self, kept: KeptDataSet) -> int | None:
        """How often a dataset has been read; None when it has been released."""
        return None if kept.name is None else self._hits.get(OutputID.parse(kept.name))

    def hits(self) -> dict[OutputID, int]:
        """How often each output has been read."""
        with self.lock:
            return dict(self._hits)

    def _parts_on(self, executor: str, output: OutputID) -> Collection[OutputID]:
        """The outputs that an executor holds of a dataset that is known by one of them."""
        parts = self._parts.get(output)
        return (output,) if parts is None else parts.get(executor, ())

    def _release_on(
        self, connection: TaskExecutorConnection, outputs: Collection[OutputID]
    ) -> None:
        parts = {part for output in outputs for part in self._parts_on(connection.name, output)}
        if parts:
            connection.release(parts)

    def _came_back(self, connection: TaskExecutorConnection, left: Collection[OutputID]) -> None:
        there = set(left)
        with self.lock:
            lost = {
                output
                for output in self.tracker.datasets_on(connection.name)
                if not there.issuperset(self._parts_on(connection.name, output))
            }
            # Of these, those that are lost may be produced alone, and the others taken over.
            completable = lost & self._completable
            self.tracker.cluster_partitions_lost(connection.name, completable)
            released = self.tracker.stop_tracking_and_release_cluster_outputs(lost - completable)
        if lost:
            logger.warning("task executor %s has lost %d datasets", connection.name, len(lost))
        for other in self.connections:
            if other is not connection:
                self._release_on(other, released.get(other.name, ()))


def _kept(output: OutputID, manifests: Mapping[TaskExecutorConnection, Manifest]) -> KeptDataSet:
    """The whole dataset from the parts that the executors hold."""
    parts = [
        (f"{connection.read_root.removeprefix('file:')}/{output.name}", manifest)
        for connection, manifest in manifests.items()
    ]
    return KeptDataSet.of_parts(parts, output.name)

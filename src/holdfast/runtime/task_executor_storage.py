"""Keeps results with task executors: the one in this process, or those of a cluster."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from holdfast.errors import LocationsIncompleteError, StorageError, TaskExecutorError
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.runtime.completed_data_set import CompletedDataSet
from holdfast.runtime.executor_outputs import ExecutorOutputs, Found
from holdfast.runtime.executor_storage import ExecutorStorage
from holdfast.runtime.heartbeats import Heartbeats
from holdfast.runtime.lying_partition import LyingPartition
from holdfast.runtime.task_executor_connection import TaskExecutorConnection
from holdfast.storage.intermediate_result_storage import (
    StagedDataSet,
    WrittenPartition,
)
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, KeptPartition
from holdfast.storage.row_layout import Remainder
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway
from holdfast.taskexecutor.outputs.staged_files import committed_files
from holdfast.taskexecutor.partitions.partition_info import OutputID, ResultPartitionID

logger = logging.getLogger(__name__)


class TaskExecutorStorage(ExecutorStorage[TaskExecutorConnection]):
    """The default storage: partitions lie where the tasks that made them ran.

    Source: FLIP-36, "Default table service"; FLINK-12612.

    Args:
        executors: by name or address, each reached through its gateway.
        application: whose results these are.
        lease_seconds: how long executors keep them without hearing from this process.
        heartbeat_seconds: how often they do; None where the executor goes with this process.
        version: of Holdfast.

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
    ) -> None:
        spans_machines = heartbeat_seconds is not None

        def connections(
            lost: Callable[[TaskExecutorConnection, Collection[OutputID]], None],
        ) -> list[TaskExecutorConnection]:
            return [
                TaskExecutorConnection(
                    name,
                    gateway,
                    application,
                    lease_seconds,
                    version,
                    lost,
                    may_hang=spans_machines,
                )
                for name, gateway in executors.items()
            ]

        outputs = ExecutorOutputs(application, spans_machines, connections)
        super().__init__(outputs)
        _connect(outputs.connections)
        self._heartbeats = (
            None
            if heartbeat_seconds is None
            else Heartbeats(outputs.connections, heartbeat_seconds, outputs.hits)
        )

    @property
    def application(self) -> ApplicationID:
        """Whose results these are."""
        return self._outputs.application

    @property
    def connections(self) -> Sequence[TaskExecutorConnection]:
        """The connections to the executors."""
        return self._outputs.connections

    def publish(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None = None,
    ) -> KeptDataSet:
        number = None if written is None else len(written)
        found = self._outputs.finish_all(staged, written, number)
        return self._outputs.publish(staged, description, found, number, may_be_recovered=False)

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
            return self._outputs.publish(
                staged, description, found, number_of_partitions, may_be_recovered=False
            )
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
        # What has no rows needs no file, but a dataset needs one.
        first = min((each.partition_id.index for each in partitions), default=0)
        linked = [each for each in partitions if each.rows or each.partition_id.index == first]
        by_host = self._outputs.by_host(staged, [each.written for each in linked])
        for connection in by_host:
            host = connection.description.host
            there = [each.partition_id for each in linked if each.host == host]
            if there:
                self._link(connection, staged, source, there)
        return {
            connection: self._outputs.finish(connection, staged, there, number_of_partitions, first)
            for connection, there in by_host.items()
        }

    def _link(
        self,
        connection: TaskExecutorConnection,
        staged: StagedDataSet,
        source: ApplicationID,
        there: Sequence[ResultPartitionID],
        numbers: Sequence[int] | None = None,
    ) -> None:
        output = OutputID.parse(staged.name)
        try:
            connection.call(
                lambda gateway: gateway.link_output(
                    self.application, staged.job_id, output, source, there, numbers
                )
            )
        except TaskExecutorError as error:
            raise LocationsIncompleteError(str(staged.dataset_id), str(error)) from error

    def publish_completed(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None,
        left: KeptDataSet,
        remainder: Remainder,
    ) -> KeptDataSet:
        layout, name = left.manifest.dataset.layout, left.name
        if layout is None or name is None:
            raise StorageError(str(name), "it isn't known which rows its partitions hold")
        made = _number_made(staged) if written is None else len(written)
        whole = CompletedDataSet(left, layout, remainder, made)
        found = self._finish_completed(staged, written, OutputID.parse(name), whole)
        partitions = [each for there in found.values() for each in there]
        wrong = whole.what_is_wrong(partitions)
        if wrong is not None:
            raise StorageError(name, f"its lost partitions can't be produced alone: {wrong}")
        described = description.model_copy(
            update={"layout": whole.new_layout({each.index for each in partitions})}
        )
        return self._outputs.publish(
            staged, described, found, whole.number_of_partitions, may_be_recovered=False
        )

    def _finish_completed(
        self,
        staged: StagedDataSet,
        written: Sequence[WrittenPartition] | None,
        source: OutputID,
        whole: CompletedDataSet,
    ) -> Found:
        """Has the executors link what they have of it, and take over what tasks have written."""
        connections = {each.name: each for each in self._outputs.connections}
        located = self._outputs.located(source)
        taken: defaultdict[str, dict[int, KeptPartition]] = defaultdict(dict)
        for number, partition in whole.taken.items():
            taken[located.get(partition.index, "")][number] = partition
        by_host = None if written is None else self._outputs.by_host(staged, written)
        for name, there in taken.items():
            connection = connections.get(name)
            if connection is None:
                raise StorageError(source.name, "some of what was left of it was lost since")
            ids = [ResultPartitionID(source, each.index) for each in there.values()]
            self._link(connection, staged, self.application, ids, list(there))
            if by_host is not None:
                host = connection.description.host
                by_host.setdefault(connection, {}).update(
                    (number, WrittenPartition(number, host, each.rows))
                    for number, each in there.items()
                )
        if by_host is None:
            return self._outputs.finish_all(staged, None, None)
        number = whole.number_of_partitions
        return {
            connection: self._outputs.finish(connection, staged, there, number)
            for connection, there in by_host.items()
        }

    def discard(self, staged: StagedDataSet) -> None:
        self._outputs.give_up(staged.job_id, OutputID.parse(staged.name))

    def end_job(self, job_id: JobID) -> None:
        self._outputs.end_job(job_id)

    def remove(self, kept: KeptDataSet) -> None:
        if kept.name is not None:
            self._outputs.release(OutputID.parse(kept.name))

    def close(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.stop()
        for connection in self._outputs.connections:
            connection.close()


def _number_made(staged: StagedDataSet) -> int:
    """How many tasks have written on this machine, as far as their files tell."""
    return max(committed_files(staged.directory), default=-1) + 1


def _connect(connections: Sequence[TaskExecutorConnection]) -> None:
    failures: list[Exception] = []
    for connection in connections:
        try:
            connection.connect()
        except (TaskExecutorError, StorageError) as error:
            failures.append(error)
            logger.warning("%s; retrying with each heartbeat", error)
    if len(failures) == len(connections):
        for connection in connections:
            connection.close()
        raise StorageError(
            ", ".join(connection.name for connection in connections),
            f"no task executor is available: {failures[0]}",
        ) from failures[0]

"""Keeps the partitions of one job beyond its driver, and finds them again for its next start."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from holdfast.errors import (
    LocationsIncompleteError,
    StaleEpochError,
    StorageError,
    TaskExecutorError,
    UnknownDataSetError,
)
from holdfast.ids import JobID
from holdfast.runtime.executor_outputs import ExecutorOutputs, Found
from holdfast.runtime.executor_storage import ExecutorStorage
from holdfast.runtime.heartbeats import Heartbeats
from holdfast.runtime.lying_partition import LyingPartition
from holdfast.runtime.recovery.previous_workers import await_previous_workers
from holdfast.runtime.recovery.recovered_data_set import (
    FoundPart,
    FoundProduction,
    RecoveredDataSet,
    RecoveredPartition,
    productions,
)
from holdfast.runtime.recovery.recovery_connection import RecoveryConnection
from holdfast.runtime.task_executor_connection import TaskExecutorConnection
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.storage.intermediate_result_storage import (
    StagedDataSet,
    WrittenPartition,
)
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, KeptPartition, Manifest
from holdfast.storage.linked_data_set import link_data_set
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.outputs.recovered_output import RecoveredOutput
from holdfast.taskexecutor.partitions.partition_info import (
    PARTITIONS_LIMIT,
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim

logger = logging.getLogger(__name__)


class RecoveryStorage(ExecutorStorage[RecoveryConnection]):
    """The partitions of one job, which every start of it takes over from the one before.

    From its making on nothing that an earlier start of the job does counts at the task executors.
    Once a newer start has taken over, whatever would write, publish or look something up raises
    StaleEpochError; what would only release is passed over.

    Args:
        executors: by name or address, each reached through its gateway.
        claim: the job and the epoch of this start.
        retention_seconds: how long executors keep a job's partitions after its last sign of life.
        heartbeat_seconds: how often this process gives one.
        version: of Holdfast.
        wait_for: the names of the executors that earlier starts knew, see `known_executors`.
        timeout_seconds: how long these are waited for.
        spans_machines: whether executors are processes beside Spark's tasks.

    Raises:
        StaleEpochError: when a newer start of the job has taken over.
        StorageError: when no executor can be reached.

    Source: FLIP-383, "The Whole Workflow of Job Recovery".
    """

    def __init__(
        self,
        executors: Mapping[str, TaskExecutorGateway],
        claim: RecoveryClaim,
        *,
        retention_seconds: float,
        heartbeat_seconds: float,
        version: str,
        wait_for: Collection[str] = (),
        timeout_seconds: float = 30.0,
        spans_machines: bool = True,
    ) -> None:
        self._claim = claim
        self._tracked: tuple[RecoveredPartition, ...] = ()
        self._recovered: dict[OutputID, RecoveredDataSet] = {}
        # What can be completed.
        self._found: dict[OutputID, FoundProduction] = {}
        self._staged: dict[str, OutputPart] = {}

        def connections(
            lost: Callable[[TaskExecutorConnection, Collection[OutputID]], None],
        ) -> list[RecoveryConnection]:
            return [
                RecoveryConnection(
                    name, gateway, claim, retention_seconds, version, lost, may_hang=spans_machines
                )
                for name, gateway in executors.items()
            ]

        outputs = ExecutorOutputs(claim.application, spans_machines, connections)
        super().__init__(outputs)
        connected = _connect(outputs.connections, wait_for, timeout_seconds)
        self._take_in(
            productions(
                FoundPart(connection.name, connection.read_root, recovered)
                for connection in connected
                for recovered in connection.found
            )
        )
        self._heartbeats = Heartbeats(outputs.connections, heartbeat_seconds, outputs.hits)

    @property
    def known_executors(self) -> tuple[str, ...]:
        """The names of the executors that keep partitions for this start, to be waited for by the
        next one."""
        return tuple(each.name for each in self._outputs.connections if each.is_registered)

    def shuffle_directory(self) -> Path | None:
        """Where the job's map tasks leave what they write for shuffles, and earlier starts' have.

        On a cluster it is that of the task executor on each task's machine; None where these have
        different ones, or some can't be reached.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        try:
            directories = {
                connection.call(lambda gateway: gateway.open_shuffles(self._claim.application))
                for connection in self._outputs.connections
            }
        except (TaskExecutorError, StorageError) as error:
            logger.warning("what shuffles write is not kept: %s", error)
            return None
        if len(directories) != 1:
            logger.warning(
                "what shuffles write is not kept: expected the same directory on all task "
                "executors, got %s",
                sorted(directories),
            )
            return None
        return Path(*directories)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the machines where earlier starts may have left something."""
        return tuple(
            each.description.host for each in self._outputs.connections if each.is_registered
        )

    def get_all_partition_with_metrics(self) -> tuple[RecoveredPartition, ...]:
        """The partitions that earlier starts have left, as they were found at this one's begin.

        Each is known by the output that its vertex was first run for, also where an output of its
        own made up what was missing. Partitions without rows are among them where their whole
        dataset is there.

        Source: FLIP-383, `ShuffleMaster.getAllPartitionWithMetrics`.
        """
        return self._tracked

    def recovered_outputs(self) -> Mapping[OutputID, RecoveredDataSet]:
        """The same by outputs."""
        return self._recovered

    def stage_missing(
        self,
        job_id: JobID,
        salvaged: OutputID,
        missing: Sequence[int],
        number_of_partitions: int,
    ) -> StagedDataSet:
        """A new directory for the missing partitions of an output that was recovered in part.

        To be published, or discarded, like any other.

        Args:
            job_id: the job that makes them.
            salvaged: the output, from `recovered_outputs`.
            missing: for each task that will write there, by its place, the partition that it makes.
            number_of_partitions: of the whole dataset.

        Raises:
            StorageError: when the output was not recovered, or the directory can't be made.
            ValueError: when nothing is missing, or some partition twice, or one beyond the number.
        """
        part = OutputPart.missing_of(salvaged, missing, number_of_partitions)
        self._production(salvaged)
        staged = self._outputs.stage(job_id, salvaged.dataset_id, part)
        self._staged[staged.name] = part
        return staged

    def publish(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None = None,
        *,
        number_of_partitions: int | None = None,
    ) -> KeptDataSet:
        """Makes a fully written dataset visible, in one atomic step for each executor.

        What `stage_missing` gave is published together with what it completes, as one dataset
        known by the output that it completes.

        Args:
            staged: what has been written.
            description: what it is.
            written: what the tasks say, by their places; needed where the storage spans machines.
            number_of_partitions: how many tasks wrote, where `written` doesn't tell: Spark leaves
                no file of a task without rows, so those at the end would not be known of.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
            LocationsIncompleteError: when the location of some partition can't be collected.
            StorageError: when it can't be published; it is then still to be discarded.
        """
        for connection in self._outputs.connections:
            connection.look_again()
        part = self._staged.get(staged.name)
        if part is not None:
            return self._publish_missing(staged, description, written, part)
        number = number_of_partitions if written is None else len(written)
        found = self._outputs.finish_all(staged, written, number)
        return self._outputs.publish(staged, description, found, number, may_be_recovered=True)

    def publish_salvaged(
        self,
        job_id: JobID,
        salvaged: OutputID,
        description: DataSetDescription,
        number_of_partitions: int,
    ) -> KeptDataSet:
        """Publishes an output of which all partitions were recovered, and that only wasn't whole.

        Args:
            job_id: the job that uses it.
            salvaged: the output, from `recovered_outputs`.
            description: what it is.
            number_of_partitions: of the dataset; those that aren't there have no rows.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
            LocationsIncompleteError: when an executor that holds some of it is gone.
            StorageError: when the output was not recovered, or can't be published.
        """
        for connection in self._outputs.connections:
            connection.look_again()
        production = self._production(salvaged)
        job_there = self._outputs.job_there(job_id)
        return self._publish_together(job_there, production, description, number_of_partitions)

    def link_into(self, kept: KeptDataSet, into: TaskExecutorStorage, job_id: JobID) -> KeptDataSet:
        """Publishes a dataset of this storage in another one too, without a copy of its rows.

        Each of the two then has a life of its own: what a job was recovered from goes with it,
        and what it has cached stays.

        Args:
            kept: the dataset.
            into: keeps what outlives jobs, with the same task executors or on the same machine.
            job_id: for which job it is published there.

        Returns:
            where it lies in that storage.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
            LocationsIncompleteError: when an executor that holds some of it is gone.
            StorageError: when it can't be had twice.

        Source: FLIP-36, "Step 1: Execute JOB_1"; FLIP-383, "The Whole Workflow of Job Recovery".
        """
        try:
            if not self.spans_machines:
                return link_data_set(kept, into, job_id)
            number = self._number_of_whole(kept)
            description, lying = kept.manifest.dataset, self._lying(kept)
            source = self._claim.application
            return into.publish_linked(job_id, description, source, lying, number)
        except StorageError:
            # Who has been taken over hears that from its own executors, not from the other's.
            self.damage(kept)
            raise

    def discard(self, staged: StagedDataSet) -> None:
        self._staged.pop(staged.name, None)
        with suppress(StaleEpochError):
            self._outputs.give_up(staged.job_id, OutputID.parse(staged.name))

    def end_job(self, job_id: JobID) -> None:
        with suppress(StaleEpochError):
            self._outputs.end_job(job_id)

    def remove(self, kept: KeptDataSet) -> None:
        if kept.name is not None:
            with suppress(StaleEpochError):
                self._outputs.release(OutputID.parse(kept.name))

    def release_all(self) -> None:
        """The job has ended: everything that was kept for it goes. Nothing the second time.

        What can't be reached goes when the retention is over.
        """
        self._heartbeats.stop()
        for connection in self._outputs.connections:
            with suppress(StaleEpochError):
                connection.close()

    def close(self) -> None:
        self.release_all()

    def leave(self) -> None:
        """Ends without releasing anything, so that the job's next start finds it."""
        self._heartbeats.stop()
        for connection in self._outputs.connections:
            connection.leave()

    def _take_in(self, found: Mapping[OutputID, FoundProduction]) -> None:
        """Tracks what was found, and tells of it as it was found."""
        whole: dict[OutputID, FoundProduction] = {}
        for output, production in found.items():
            published = production.whole()
            if published is not None:
                whole[output] = published
                self._release_parts(set(production.parts) - set(published.parts))
            self._found[output] = published or production
            self._outputs.is_made_of(output, self._found[output].outputs_by_executor())
            self._start_tracking(self._found[output], is_whole=published is not None)
        tracked = self._outputs.tracker.get_all_partition_with_metrics(self._claim.job_id)
        self._tracked = tuple(
            RecoveredPartition(partition_id, executor, metrics)
            for partition_id, (executor, metrics) in tracked.items()
        )
        present: defaultdict[OutputID, list[int]] = defaultdict(list)
        for each in self._tracked:
            present[each.partition_id.output].append(each.partition_id.index)
        for output, production in self._found.items():
            self._recovered[output] = RecoveredDataSet(
                output=output,
                kept=production.kept() if output in whole else None,
                present=frozenset(present[output]),
                number_of_partitions=production.number_of_partitions(),
            )
        for output in whole:
            ids = [ResultPartitionID(output, index) for index in present[output]]
            self._outputs.tracker.promote_job_partitions(self._claim.job_id, ids)

    def _start_tracking(self, production: FoundProduction, *, is_whole: bool) -> None:
        placed, number = production.placed(), production.number_of_partitions()
        holders = {
            index: (part.executor, PartitionMetrics(partition.bytes, partition.rows))
            for index, (part, partition) in placed.items()
        }
        if is_whole and number is not None:
            # Spark leaves no file of a task without rows.
            nothing = (production.parts[0].executor, PartitionMetrics(0, 0))
            holders = {index: holders.get(index, nothing) for index in range(number)}
        for index, (executor, metrics) in holders.items():
            partition_id = ResultPartitionID(production.output, index)
            info = TaskExecutorPartitionInfo(partition_id, metrics, number or PARTITIONS_LIMIT)
            self._outputs.tracker.start_tracking_partition(self._claim.job_id, executor, info)

    def _production(self, output: OutputID) -> FoundProduction:
        production = self._found.get(output)
        if production is None:
            raise StorageError(str(output), "expected a recovered output")
        return production

    def _number_of_whole(self, kept: KeptDataSet) -> int:
        """How many partitions a dataset has, those without a file included."""
        name = str(kept.name)
        with self._outputs.lock:
            try:
                output = OutputID.parse(name)
                if self._outputs.tracker.is_complete(output):
                    return len(self._outputs.tracker.locations(output))
            except (UnknownDataSetError, ValueError) as error:
                raise StorageError(name, "expected a dataset that is kept for this job") from error
        raise LocationsIncompleteError(
            name, "a task executor that held some of its partitions was lost"
        )

    def _lying(self, kept: KeptDataSet) -> list[LyingPartition]:
        """For each partition that has a file, of which output it is and who has it."""
        roots = {each.read_root: each for each in self._outputs.connections if each.is_registered}
        by_path = {root.removeprefix("file:"): each for root, each in roots.items()}
        lying = []
        for partition, location in zip(kept.manifest.partitions, kept.locations, strict=True):
            root, name, _ = location.rsplit("/", 2)
            if root not in by_path:
                raise LocationsIncompleteError(str(kept.name), f"no task executor serves {root}")
            partition_id = ResultPartitionID(OutputID.parse(name), partition.index)
            host = by_path[root].description.host
            lying.append(LyingPartition(partition_id, host, partition.rows))
        return lying

    def _publish_missing(
        self,
        staged: StagedDataSet,
        description: DataSetDescription,
        written: Sequence[WrittenPartition] | None,
        part: OutputPart,
    ) -> KeptDataSet:
        originals, number = part.originals or (), part.number_of_partitions or 0
        production = self._production(part.of)
        if description.is_ordered:
            raise StorageError(
                str(part.of), "the order of its rows depends on the tasks that produced them"
            )
        if written is not None:
            if sorted(each.index for each in written) != list(range(len(originals))):
                raise StorageError(
                    str(part.of),
                    f"{len(written)} tasks wrote partitions, expected {len(originals)}",
                )
            written = [replace(each, index=originals[each.index]) for each in written]
        found = self._outputs.finish_all(staged, written, number, first=None)
        kept = self._publish_together(staged.job_id, production, description, number, staged, found)
        self._staged.pop(staged.name, None)
        return kept

    def _publish_together(
        self,
        job_id: JobID,
        production: FoundProduction,
        description: DataSetDescription,
        number: int,
        staged: StagedDataSet | None = None,
        made: Found | None = None,
    ) -> KeptDataSet:
        """Publishes what was found of a production, and what has been made of it since, as one."""
        created = datetime.now(timezone.utc).isoformat(timespec="seconds")
        pieces = list(production.parts)
        manifests: dict[TaskExecutorConnection, Manifest] = {}
        for connection, partitions in (made or {}).items():
            if staged is not None and partitions:
                manifests[connection] = Manifest(
                    created=created, dataset=description, partitions=partitions
                )
                pieces.append(_made(connection, staged, production.output, partitions))
        together = FoundProduction(production.output, tuple(pieces))
        indices = together.placed().keys()
        if not all(0 <= index < number for index in indices):
            raise StorageError(
                str(production.output), f"it has {max(indices) + 1} partitions, expected {number}"
            )
        publication = Publication.of(len(indices), number)
        for part in production.parts:
            manifest = Manifest(
                created=created, dataset=description, partitions=part.recovered.partitions
            )
            self._promote_recovered(job_id, part, manifest, publication)
        if staged is not None:
            self._outputs.promote(staged, manifests, publication)
        kept, names = together.placed_as(created, description)
        with self._outputs.lock:
            self._found.pop(production.output, None)
            self._outputs.is_made_of(production.output, together.outputs_by_executor())
            self._outputs.tracker.stop_tracking_and_release_job_partitions(
                ResultPartitionID(production.output, index) for index in production.placed()
            )
        self._outputs.track(job_id, production.output, kept, names, number)
        return kept

    def _promote_recovered(
        self, job_id: JobID, part: FoundPart, manifest: Manifest, publication: Publication
    ) -> None:
        connection = next(each for each in self._outputs.connections if each.name == part.executor)
        output = part.recovered.output
        try:
            connection.ensure_job(job_id)
            connection.call(
                lambda gateway: gateway.promote_recovered(
                    self._claim.application, job_id, output, manifest, publication
                )
            )
        except TaskExecutorError as error:
            raise LocationsIncompleteError(str(part.recovered.part_of), str(error)) from error

    def _release_parts(self, parts: Collection[FoundPart]) -> None:
        for connection in self._outputs.connections:
            outputs = {part.recovered.output for part in parts if part.executor == connection.name}
            if outputs:
                connection.release(outputs)


def _connect(
    connections: Sequence[RecoveryConnection], wait_for: Collection[str], timeout_seconds: float
) -> list[RecoveryConnection]:
    failures = await_previous_workers(connections, wait_for, timeout_seconds)
    for name, failure in failures.items():
        logger.warning("continuing without task executor %s: %s", name, failure)
    if len(failures) == len(connections):
        raise StorageError(
            ", ".join(failures),
            f"no task executor is available: {next(iter(failures.values()))}",
        )
    return [connection for connection in connections if connection.name not in failures]


def _made(
    connection: TaskExecutorConnection,
    staged: StagedDataSet,
    whole: OutputID,
    partitions: tuple[KeptPartition, ...],
) -> FoundPart:
    output = OutputID.parse(staged.name)
    recovered = RecoveredOutput(output, whole, None, partitions, None, None)
    return FoundPart(connection.name, connection.read_root, recovered)

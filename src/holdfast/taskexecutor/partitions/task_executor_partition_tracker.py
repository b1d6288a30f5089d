"""Which partitions a task executor is responsible for: those of jobs and those of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import attrgetter
from threading import Lock

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.taskexecutor.partitions.cluster_partition_report import (
    ClusterPartitionReport,
    ClusterPartitionReportEntry,
)
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)
from holdfast.taskexecutor.partitions.result_partition_table import ResultPartitionTable
from holdfast.taskexecutor.partitions.shuffle_environment import ShuffleEnvironment


class TaskExecutorPartitionTracker:
    """The finished partitions of a task executor. Thread-safe.

    A *job partition* is released with its job; one that was promoted is a *cluster partition* and
    stays until its dataset is released. Whoever takes a partition out of the book releases it, so
    each is released once; the environment is called outside of the lock.

    Args:
        shuffle_environment: releases the partitions themselves.

    Source: FLINK-12612, "General Idea".
    """

    def __init__(self, shuffle_environment: ShuffleEnvironment) -> None:
        self._shuffle_environment = shuffle_environment
        self._jobs = ResultPartitionTable[JobID]()
        self._cluster = ResultPartitionTable[IntermediateDataSetID]()
        # A partition is never seen in neither table, or in both, while it is promoted.
        self._lock = Lock()

    def start_tracking_partition(self, job_id: JobID, info: TaskExecutorPartitionInfo) -> None:
        """Takes over a job's finished partition: it is this executor's to release.

        Args:
            job_id: the job that produced it.
            info: the partition.

        Raises:
            DuplicateRegistrationError: when the partition is tracked, or its output is of another
                job.
            MalformedRequestError: when its output has another number of partitions.
        """
        with self._lock:
            self._cluster.check_addition(info)
            self._jobs.start_tracking(job_id, info)

    def check_addition(self, job_id: JobID, info: TaskExecutorPartitionInfo) -> None:
        """Sees to it that a partition could be tracked now. Its metrics don't matter.

        Args:
            job_id: the job that is to produce it.
            info: the partition.

        Raises:
            DuplicateRegistrationError: as `start_tracking_partition` does.
            MalformedRequestError: as `start_tracking_partition` does.
        """
        with self._lock:
            self._cluster.check_addition(info)
            self._jobs.check_addition(info, job_id)

    def start_tracking_cluster_partition(self, info: TaskExecutorPartitionInfo) -> None:
        """Takes over a cluster partition that an earlier run of this executor has left behind.

        Args:
            info: the partition.

        Raises:
            DuplicateRegistrationError: when the partition is tracked.
            MalformedRequestError: when its output has another number of partitions.
        """
        with self._lock:
            self._jobs.check_addition(info)
            self._cluster.start_tracking(info.partition_id.dataset_id, info)

    def stop_tracking_and_release_job_partitions(self, ids: Iterable[ResultPartitionID]) -> None:
        """Releases partitions of jobs.

        Args:
            ids: which; what is unknown, or a cluster partition, is passed over.
        """
        with self._lock:
            taken = self._jobs.stop_tracking_partitions(ids)
        self._release(taken)

    def stop_tracking_and_release_job_partitions_for(self, job_id: JobID) -> None:
        """Releases all finished partitions that a job has at this point in time.

        Args:
            job_id: the job; nothing happens for an unknown one.
        """
        with self._lock:
            taken = self._jobs.stop_tracking(job_id)
        self._release(taken)

    def promote_job_partitions(self, ids: Collection[ResultPartitionID]) -> None:
        """Makes cluster partitions of job partitions: all of them, or none.

        Args:
            ids: which partitions.

        Raises:
            UnknownPartitionError: when one of them is not a job's.
        """
        with self._lock:
            self._jobs.move(ids, self._cluster, owner=attrgetter("dataset_id"))

    def stop_tracking_and_release_cluster_partitions(
        self, dataset_ids: Iterable[IntermediateDataSetID]
    ) -> None:
        """Releases the cluster partitions of datasets, whichever outputs they are of.

        Args:
            dataset_ids: which datasets; unknown ones are passed over.
        """
        with self._lock:
            taken = [
                partition_id
                for dataset_id in dataset_ids
                for partition_id in self._cluster.stop_tracking(dataset_id)
            ]
        self._release(taken)

    def stop_tracking_and_release_cluster_outputs(self, outputs: Iterable[OutputID]) -> None:
        """Releases the cluster partitions of outputs.

        Args:
            outputs: which outputs; unknown ones are passed over.
        """
        with self._lock:
            taken = self._cluster.stop_tracking_outputs(outputs)
        self._release(taken)

    def stop_tracking_and_release_all_cluster_partitions(self) -> None:
        """Releases every cluster partition."""
        with self._lock:
            taken = self._cluster.stop_tracking_all()
        self._release(taken)

    def create_cluster_partition_report(self) -> ClusterPartitionReport:
        """What this executor holds beyond the life of a job."""
        return ClusterPartitionReport(
            tuple(
                ClusterPartitionReportEntry(
                    output.dataset_id,
                    tuple(sorted(infos, key=attrgetter("partition_id.index"))),
                    infos[0].number_of_partitions,
                )
                for output, infos in sorted(self.cluster_partitions().items())
            )
        )

    def is_tracking_partitions_for(self, job_id: JobID) -> bool:
        """Whether a job has finished partitions here."""
        with self._lock:
            return self._jobs.has_tracked_partitions(job_id)

    def job_partitions(self, job_id: JobID) -> tuple[TaskExecutorPartitionInfo, ...]:
        """A job's finished partitions, in the order in which they finished.

        Args:
            job_id: the job; an unknown one has none.
        """
        with self._lock:
            return self._jobs.tracked(job_id)

    def cluster_partitions(self) -> dict[OutputID, tuple[TaskExecutorPartitionInfo, ...]]:
        """All cluster partitions, by output."""
        with self._lock:
            return self._cluster.tracked_outputs()

    def _release(self, ids: Collection[ResultPartitionID]) -> None:
        if ids:
            self._shuffle_environment.release_partitions_locally(ids)

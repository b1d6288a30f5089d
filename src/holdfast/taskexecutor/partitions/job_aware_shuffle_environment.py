"""Keeps the book on partitions while tasks make them, and decides whose they are afterwards."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from threading import Lock

from holdfast.errors import (
    DuplicateRegistrationError,
    MalformedRequestError,
    TaskExecutorError,
    UnknownJobError,
)
from holdfast.ids import JobID
from holdfast.taskexecutor.partitions.notifying_writer import NotifyingResultPartitionWriter
from holdfast.taskexecutor.partitions.partition_info import (
    PARTITIONS_LIMIT,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)
from holdfast.taskexecutor.partitions.result_partition_table import ResultPartitionTable
from holdfast.taskexecutor.partitions.shuffle_environment import (
    ResultPartitionWriter,
    ShuffleEnvironment,
)
from holdfast.taskexecutor.partitions.task_executor_partition_tracker import (
    TaskExecutorPartitionTracker,
)


class JobAwareShuffleEnvironment:
    """A shuffle environment that knows which jobs want their partitions kept. Thread-safe.

    Tasks make partitions through the writers that it hands out, which tell it what becomes of each.
    A partition in progress is its task's; a finished one is the tracker's, unless its job is not
    active: then it is released at once.

    Args:
        backing: has the partitions themselves.
        tracker: has the book on finished ones; it releases them in the same `backing`.

    Source: FLINK-12612.
    """

    def __init__(self, backing: ShuffleEnvironment, tracker: TaskExecutorPartitionTracker) -> None:
        self._backing = backing
        self._tracker = tracker
        self._in_progress = ResultPartitionTable[JobID]()
        self._active_jobs: set[JobID] = set()
        self._active_jobs_lock = Lock()

    def mark_job_active(self, job_id: JobID) -> None:
        """Keeps what the job's tasks finish from now on.

        Args:
            job_id: the job.

        Raises:
            DuplicateRegistrationError: when it is active.
        """
        with self._active_jobs_lock:
            if job_id in self._active_jobs:
                raise DuplicateRegistrationError(f"job {job_id.hex}", "Use a unique id.")
            self._active_jobs.add(job_id)

    def mark_job_inactive(self, job_id: JobID) -> None:
        """Releases at once what the job's tasks finish from now on.

        What they have finished before stays: `release_all_finished_partitions_for` comes next.

        Args:
            job_id: the job.

        Raises:
            UnknownJobError: when it is not active.
        """
        with self._active_jobs_lock:
            if job_id not in self._active_jobs:
                raise UnknownJobError(job_id.hex)
            self._active_jobs.remove(job_id)

    def is_job_active(self, job_id: JobID) -> bool:
        """Whether what the job's tasks finish is kept."""
        with self._active_jobs_lock:
            return job_id in self._active_jobs

    def create_result_partition_writers(
        self, job_id: JobID, ids: Collection[ResultPartitionID], number_of_partitions: int
    ) -> list[ResultPartitionWriter]:
        """Writers for a task's partitions, in their order. Nothing is set up yet.

        The job need not be active: a task may start, or end, after its job was given up.

        Args:
            job_id: the job that the task is of.
            ids: the partitions it will make.
            number_of_partitions: of the whole output, wherever they are made.

        Raises:
            MalformedRequestError: when a partition is beyond the number of partitions.
        """
        for partition_id in ids:
            if not partition_id.index < number_of_partitions <= PARTITIONS_LIMIT:
                raise MalformedRequestError(
                    f"to write partition {partition_id}",
                    f"expected an index below the number of partitions, {number_of_partitions}",
                )
        writers = self._backing.create_result_partition_writers(job_id, ids)
        return [
            NotifyingResultPartitionWriter(job_id, number_of_partitions, writer, listener=self)
            for writer in writers
        ]

    def release_finished_partitions(self, ids: Iterable[ResultPartitionID]) -> None:
        """Releases finished partitions of jobs, as someone outside has asked for.

        Args:
            ids: which; those in progress are left to their tasks, unknown ones passed over.
        """
        self._tracker.stop_tracking_and_release_job_partitions(ids)

    def release_all_finished_partitions_for(self, job_id: JobID) -> None:
        """Releases all partitions that a job has finished at this point in time.

        Args:
            job_id: the job; those in progress are left to its tasks.
        """
        self._tracker.stop_tracking_and_release_job_partitions_for(job_id)

    def has_partitions(self, job_id: JobID) -> bool:
        """Whether a job has any partition here, in progress or finished, not promoted."""
        # In this order, as a partition goes from the first book to the second.
        return self._in_progress.has_tracked_partitions(
            job_id
        ) or self._tracker.is_tracking_partitions_for(job_id)

    def partitions_in_progress(self, job_id: JobID) -> tuple[ResultPartitionID, ...]:
        """The partitions that a job's tasks are making."""
        return tuple(info.partition_id for info in self._in_progress.tracked(job_id))

    def partition_set_up(self, job_id: JobID, info: TaskExecutorPartitionInfo) -> None:
        """Implements `PartitionListener`."""
        self._in_progress.start_tracking(job_id, info)
        try:
            self._tracker.check_addition(job_id, info)
        except TaskExecutorError:
            self.partition_failed(info.partition_id)
            raise

    def partition_finished(self, job_id: JobID, info: TaskExecutorPartitionInfo) -> None:
        """Implements `PartitionListener`."""
        ids = [info.partition_id]
        try:
            self._tracker.start_tracking_partition(job_id, info)
        except TaskExecutorError:
            self._backing.release_partitions_locally(ids)
            raise
        finally:
            self._in_progress.stop_tracking_partitions(ids)
        # Tracked first and looked afterwards: either this sees that the job is not active, or
        # whoever made it so finds the partition. Both may try: the book gives it to one.
        if not self.is_job_active(job_id):
            self._tracker.stop_tracking_and_release_job_partitions(ids)

    def partition_failed(self, partition_id: ResultPartitionID) -> None:
        """Implements `PartitionListener`."""
        self._in_progress.stop_tracking_partitions([partition_id])

    def finished_partition_failed(self, partition_id: ResultPartitionID) -> None:
        """Implements `PartitionListener`."""
        self._tracker.stop_tracking_and_release_job_partitions([partition_id])

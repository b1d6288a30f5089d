"""A partition writer that tells what becomes of its partition."""

from __future__ import annotations

from enum import Enum, auto
from typing import Protocol

from holdfast.errors import DuplicateRegistrationError, UnknownPartitionError
from holdfast.ids import JobID
from holdfast.taskexecutor.partitions.partition_info import (
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)
from holdfast.taskexecutor.partitions.shuffle_environment import ResultPartitionWriter


class PartitionListener(Protocol):
    """Is told what becomes of partitions, by the threads of the tasks that make them."""

    def partition_set_up(self, job_id: JobID, info: TaskExecutorPartitionInfo) -> None:
        """A partition is about to be set up, and in progress from now on.

        Raises:
            DuplicateRegistrationError: when there is such a partition; it is not set up.
            MalformedRequestError: when it contradicts what is known; it is not set up.
        """

    def partition_finished(self, job_id: JobID, info: TaskExecutorPartitionInfo) -> None:
        """A partition in progress has been finished; its release is the listener's from now on."""

    def partition_failed(self, partition_id: ResultPartitionID) -> None:
        """A partition in progress is no more."""

    def finished_partition_failed(self, partition_id: ResultPartitionID) -> None:
        """The task has failed that had finished this partition: it is not wanted any more."""


class _State(Enum):
    CREATED = auto()
    IN_PROGRESS = auto()
    FINISHED = auto()
    FAILED = auto()


class NotifyingResultPartitionWriter:
    """Wraps a writer and tells a listener of each step. It belongs to one task's thread.

    Args:
        job_id: the job that the task is of.
        number_of_partitions: of the whole output.
        writer: makes the partition.
        listener: is told.

    Source: FLINK-12612, "General Idea".
    """

    def __init__(
        self,
        job_id: JobID,
        number_of_partitions: int,
        writer: ResultPartitionWriter,
        listener: PartitionListener,
    ) -> None:
        self._job_id = job_id
        self._number_of_partitions = number_of_partitions
        self._writer = writer
        self._listener = listener
        self._state = _State.CREATED

    @property
    def partition_id(self) -> ResultPartitionID:
        """The partition that it makes."""
        return self._writer.partition_id

    def setup(self) -> None:
        """Makes room for the partition. From here on it is in progress.

        Raises:
            DuplicateRegistrationError: when there is such a partition.
            MalformedRequestError: when its output has another number of partitions.
        """
        if self._state is not _State.CREATED:
            raise DuplicateRegistrationError(
                f"partition {self.partition_id}", "Create another writer for another attempt."
            )
        self._listener.partition_set_up(self._job_id, self._info(PartitionMetrics(0, 0)))
        try:
            self._writer.setup()
        except BaseException:
            self._listener.partition_failed(self.partition_id)
            raise
        self._state = _State.IN_PROGRESS

    def finish(self) -> PartitionMetrics:
        """Completes the partition, whose release is no more the task's from here on.

        Returns:
            How large it has become.

        Raises:
            UnknownPartitionError: when it is not in progress.
        """
        if self._state is not _State.IN_PROGRESS:
            raise UnknownPartitionError(
                str(self.partition_id), "one that is set up and neither finished nor failed"
            )
        metrics = self._writer.finish()
        self._state = _State.FINISHED
        self._listener.partition_finished(self._job_id, self._info(metrics))
        return metrics

    def fail(self, cause: str | None = None) -> None:
        """Gives the partition up and releases what there is of it.

        Args:
            cause: what made the task fail, if it is known.
        """
        state, self._state = self._state, _State.FAILED
        if state is _State.IN_PROGRESS:
            try:
                self._writer.fail(cause)
            finally:
                self._listener.partition_failed(self.partition_id)
        elif state is _State.FINISHED:
            self._listener.finished_partition_failed(self.partition_id)

    def _info(self, metrics: PartitionMetrics) -> TaskExecutorPartitionInfo:
        return TaskExecutorPartitionInfo(
            self._writer.partition_id, metrics, self._number_of_partitions
        )

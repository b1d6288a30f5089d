"""Which task executor holds which partition of which dataset."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from holdfast.errors import (
    DuplicateRegistrationError,
    MalformedRequestError,
    UnknownDataSetError,
    UnknownPartitionError,
    UnknownTaskExecutorError,
)
from holdfast.ids import JobID
from holdfast.runtime.packed_metrics import PACKED_BITS, pack, unpack
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)


@dataclass(frozen=True, slots=True)
class _Executor:
    executor_id: str
    number: int


class _Output:
    """An output's partitions by index: the number of the executor, then the packed metrics."""

    __slots__ = (
        "cluster_partitions",
        "holders",
        "job_id",
        "job_partitions",
        "number_of_partitions",
        "output",
        "promoted",
    )

    def __init__(self, output: OutputID, job_id: JobID, number_of_partitions: int) -> None:
        self.output = output
        # None once the job's partitions are not tracked any more.
        self.job_id: JobID | None = job_id
        self.number_of_partitions = number_of_partitions
        self.job_partitions: dict[int, int] = {}
        self.cluster_partitions: dict[int, int] = {}
        # By the number of the executor how many of both it has. Kept here, and not beside each
        # executor, so that a release stays in one place of the memory.
        self.holders: dict[int, int] = {}
        # It may have cluster partitions, or have had some before they were lost.
        self.promoted = False

    def is_complete(self) -> bool:
        tracked = len(self.job_partitions) + len(self.cluster_partitions)
        return tracked == self.number_of_partitions


class JobMasterPartitionTracker:
    """Which task executor holds which partition, by job and output. Pure, without lock.

    An output is complete when all of its partitions are tracked, as a job's or as the cluster's.
    An output that has lost partitions stays, incomplete, until what is left of it is released.

    Every operation costs in proportion to the partitions that it names; only what an executor held
    is looked for among all outputs, and in those that it had a part of.

    Source: FLINK-12612; Flink's class of the same name; FLIP-36, failure paragraph.
    """

    def __init__(self) -> None:
        self._executors: dict[str, _Executor] = {}
        self._executor_numbers: dict[int, _Executor] = {}
        self._outputs: dict[OutputID, _Output] = {}
        # The values are the keys of an ordered set.
        self._jobs: dict[JobID, dict[_Output, None]] = {}

    def executor_registered(self, executor_id: str) -> None:
        """A task executor holds partitions from now on, and none yet.

        Args:
            executor_id: its id.

        Raises:
            DuplicateRegistrationError: when it is registered.
        """
        if executor_id in self._executors:
            raise DuplicateRegistrationError(
                f"task executor {executor_id}",
                "Register each task executor once.",
            )
        executor = _Executor(executor_id, len(self._executors) + 1)
        self._executors[executor_id] = executor
        self._executor_numbers[executor.number] = executor

    def start_tracking_partition(
        self, job_id: JobID, executor_id: str, info: TaskExecutorPartitionInfo
    ) -> None:
        """A job's partition has been finished on an executor.

        Args:
            job_id: the job that produced it.
            executor_id: where it lies.
            info: the partition.

        Raises:
            UnknownTaskExecutorError: when the executor is not registered.
            DuplicateRegistrationError: when the partition is tracked, on whichever executor, or its
                output is of another job.
            MalformedRequestError: when its output has another number of partitions.
        """
        executor = self._executor(executor_id)
        partition_id = info.partition_id
        index = partition_id.index
        output = self._outputs.get(partition_id.output)
        if output is None:
            output = self._new_output(job_id, info)
        else:
            _check_addition(output, job_id, info)
        output.job_partitions[index] = executor.number << PACKED_BITS | pack(info.metrics)
        output.holders[executor.number] = output.holders.get(executor.number, 0) + 1

    def stop_tracking_and_release_job_partitions(
        self, ids: Iterable[ResultPartitionID]
    ) -> dict[str, list[ResultPartitionID]]:
        """Forgets partitions of jobs.

        Args:
            ids: which; what is unknown, or a cluster partition, is passed over.

        Returns:
            for each executor the partitions that are to be released there.
        """
        to_release: dict[str, list[ResultPartitionID]] = {}
        for partition_id in ids:
            output = self._outputs.get(partition_id.output)
            if output is None:
                continue
            packed = output.job_partitions.pop(partition_id.index, None)
            if packed is None:
                continue
            executor = self._take_from_executor(output, packed)
            to_release.setdefault(executor.executor_id, []).append(partition_id)
            if not output.promoted and not output.job_partitions:
                self._forget(output)
        return to_release

    def stop_tracking_partitions_for(self, job_id: JobID) -> dict[str, list[ResultPartitionID]]:
        """Forgets the partitions of a job that has ended, but not those that were promoted.

        Args:
            job_id: the job; an unknown one has none.

        Returns:
            for each executor the partitions that are to be released there.
        """
        to_release: dict[str, list[ResultPartitionID]] = {}
        for output in tuple(self._jobs.get(job_id, ())):
            for index, packed in output.job_partitions.items():
                executor = self._take_from_executor(output, packed)
                partition_id = ResultPartitionID(output.output, index)
                to_release.setdefault(executor.executor_id, []).append(partition_id)
            output.job_partitions.clear()
            if output.promoted:
                self._detach_from_job(output)
            else:
                self._forget(output)
        return to_release

    def promote_job_partitions(self, job_id: JobID, ids: Collection[ResultPartitionID]) -> None:
        """Makes cluster partitions of a job's: all of them, or none.

        Args:
            job_id: the job.
            ids: which of its partitions.

        Raises:
            UnknownPartitionError: when one of them is not this job's.
        """
        for partition_id in ids:
            output = self._outputs.get(partition_id.output)
            if (
                output is None
                or output.job_id != job_id
                or partition_id.index not in output.job_partitions
            ):
                raise UnknownPartitionError(
                    str(partition_id), f"a partition that job {job_id.hex} has finished"
                )
        for partition_id in ids:
            output = self._outputs[partition_id.output]
            # The same partition may be named twice.
            packed = output.job_partitions.pop(partition_id.index, None)
            if packed is not None:
                output.cluster_partitions[partition_id.index] = packed
                output.promoted = True

    def stop_tracking_and_release_cluster_outputs(
        self, outputs: Iterable[OutputID]
    ) -> dict[str, list[OutputID]]:
        """Forgets the cluster partitions of outputs.

        Args:
            outputs: which outputs; unknown ones are passed over.

        Returns:
            for each executor the outputs that are to be released there.
        """
        to_release: dict[str, list[OutputID]] = {}
        for name in outputs:
            output = self._outputs.get(name)
            if output is None or not output.promoted:
                continue
            holders = {
                self._take_from_executor(output, packed).executor_id: None
                for packed in output.cluster_partitions.values()
            }
            for executor_id in holders:
                to_release.setdefault(executor_id, []).append(name)
            output.cluster_partitions.clear()
            output.promoted = False
            if not output.job_partitions:
                self._forget(output)
        return to_release

    def cluster_partitions_lost(self, executor_id: str, outputs: Iterable[OutputID]) -> None:
        """An executor has lost what it held of outputs: they are incomplete, and the rest stays.

        Args:
            executor_id: which executor.
            outputs: which outputs; what is unknown, or not promoted, is passed over.

        Raises:
            UnknownTaskExecutorError: when it is not registered.
        """
        number = self._executor(executor_id).number
        for name in outputs:
            output = self._outputs.get(name)
            if output is None or not output.promoted:
                continue
            lost = [
                index
                for index, packed in output.cluster_partitions.items()
                if packed >> PACKED_BITS == number
            ]
            for index in lost:
                self._take_from_executor(output, output.cluster_partitions.pop(index))

    def locations(self, output: OutputID) -> dict[int, str]:
        """Where the partitions of an output lie.

        Args:
            output: which output.

        Returns:
            by index the executor, in their order; without those that are lost or not finished.

        Raises:
            UnknownDataSetError: when nothing is known of the output.
        """
        known = self._output(output)
        return {
            index: self._executor_numbers[packed >> PACKED_BITS].executor_id
            for index, packed in sorted(
                (*known.job_partitions.items(), *known.cluster_partitions.items())
            )
        }

    def is_complete(self, output: OutputID) -> bool:
        """Whether all partitions of an output are tracked.

        Args:
            output: which output.

        Raises:
            UnknownDataSetError: when nothing is known of the output.
        """
        return self._output(output).is_complete()

    def datasets_on(self, executor_id: str) -> frozenset[OutputID]:
        """The outputs that an executor holds partitions of.

        Args:
            executor_id: which executor.

        Raises:
            UnknownTaskExecutorError: when it is not registered.
        """
        number = self._executor(executor_id).number
        return frozenset(
            output.output for output in self._outputs.values() if number in output.holders
        )

    def get_all_partition_with_metrics(
        self, job_id: JobID
    ) -> dict[ResultPartitionID, tuple[str, PartitionMetrics]]:
        """A job's partitions, without those that were promoted.

        Args:
            job_id: the job; an unknown one has none.

        Returns:
            for each partition the executor that holds it, and how large it is.
        """
        return {
            ResultPartitionID(output.output, index): (
                self._executor_numbers[packed >> PACKED_BITS].executor_id,
                unpack(packed),
            )
            for output in self._jobs.get(job_id, ())
            for index, packed in output.job_partitions.items()
        }

    def _executor(self, executor_id: str) -> _Executor:
        executor = self._executors.get(executor_id)
        if executor is None:
            raise UnknownTaskExecutorError(executor_id)
        return executor

    def _output(self, output: OutputID) -> _Output:
        known = self._outputs.get(output)
        if known is None:
            raise UnknownDataSetError(
                output.name, "an output whose partitions are tracked and have not been released"
            )
        return known

    def _new_output(self, job_id: JobID, info: TaskExecutorPartitionInfo) -> _Output:
        name = info.partition_id.output
        output = _Output(name, job_id, info.number_of_partitions)
        self._outputs[name] = output
        self._jobs.setdefault(job_id, {})[output] = None
        return output

    def _take_from_executor(self, output: _Output, packed: int) -> _Executor:
        number = packed >> PACKED_BITS
        if output.holders[number] == 1:
            del output.holders[number]
        else:
            output.holders[number] -= 1
        return self._executor_numbers[number]

    def _detach_from_job(self, output: _Output) -> None:
        if output.job_id is None:
            return
        others = self._jobs[output.job_id]
        del others[output]
        if not others:
            del self._jobs[output.job_id]
        output.job_id = None

    def _forget(self, output: _Output) -> None:
        self._detach_from_job(output)
        del self._outputs[output.output]


def _check_addition(output: _Output, job_id: JobID, info: TaskExecutorPartitionInfo) -> None:
    index = info.partition_id.index
    if output.job_id != job_id:
        raise DuplicateRegistrationError(
            f"output {output.output}",
            "Its partitions belong to another job: produce them as a new attempt.",
        )
    if index in output.job_partitions or index in output.cluster_partitions:
        raise DuplicateRegistrationError(
            f"partition {info.partition_id}",
            "Release it first, or produce it as a new attempt.",
        )
    if output.number_of_partitions != info.number_of_partitions:
        raise MalformedRequestError(
            f"to track partition {info.partition_id}",
            f"its output has {output.number_of_partitions} partitions, and this says "
            f"{info.number_of_partitions}",
        )

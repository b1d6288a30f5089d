"""Which partitions a task executor is responsible for: those of jobs and those of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from threading import RLock

from holdfast.errors import DuplicateRegistrationError
from holdfast.ids import JobID
from holdfast.storage.kept_dataset import KeptPartition, Manifest
from holdfast.taskexecutor.outputs.output import Output, OutputState
from holdfast.taskexecutor.partitions.partition_info import OutputID


class TaskExecutorPartitionTracker:
    """The outputs of one application, and which of its jobs want theirs kept. Thread-safe.

    The partitions of an output are in progress while Spark's tasks write them, *job partitions*
    once these have finished, released with their job, and *cluster partitions* once promoted,
    until the output is released. All partitions of an output take each step at once.

    Whoever stops the tracking of an output is given it, and nobody else is: so each is removed
    once. Nothing is read, written or waited for in here.

    Source: FLINK-12612, "General Idea", "What about concurrency?".
    """

    def __init__(self) -> None:
        self._outputs: dict[OutputID, Output] = {}
        # By job, the keys of an ordered set.
        self._finished: dict[JobID, dict[OutputID, None]] = {}
        self._active_jobs: set[JobID] = set()
        self._lock = RLock()

    def mark_job_active(self, job_id: JobID) -> None:
        """Keeps what the job's tasks finish from now on."""
        with self._lock:
            self._active_jobs.add(job_id)

    def mark_job_inactive(self, job_id: JobID) -> None:
        """Keeps nothing more that the job's tasks finish.

        What they have finished stays: `stop_tracking_job_partitions_for` comes next.
        """
        with self._lock:
            self._active_jobs.discard(job_id)

    def is_job_active(self, job_id: JobID) -> bool:
        """Whether what the job's tasks finish is kept."""
        with self._lock:
            return job_id in self._active_jobs

    def start_tracking(self, output: Output) -> None:
        """Takes an output in, in whatever state it is but finished.

        Raises:
            DuplicateRegistrationError: when there is such an output.
        """
        with self._lock:
            if output.output_id in self._outputs:
                raise DuplicateRegistrationError(
                    f"output {output.output_id}", "Produce it as a new attempt."
                )
            self._outputs[output.output_id] = output

    def start_tracking_partitions(
        self, output: Output, partitions: Sequence[KeptPartition], number_of_partitions: int
    ) -> bool:
        """Takes over an open output's finished partitions: they are this executor's to release.

        Args:
            output: the output.
            partitions: those that lie here, by index.
            number_of_partitions: of the whole dataset.

        Returns:
            False when its job is not active, or it has been given up: it is tracked no more.
        """
        with self._lock:
            if self._outputs.get(output.output_id) is not output:
                return False
            if output.job_id not in self._active_jobs:
                del self._outputs[output.output_id]
                return False
            output.partitions = tuple(partitions)
            output.number_of_partitions = number_of_partitions
            output.state = OutputState.FINISHED
            self._finished.setdefault(output.job_id, {})[output.output_id] = None
            return True

    def promote(self, output: Output, directory: Path, manifest: Manifest) -> bool:
        """Makes cluster partitions of an output's job partitions, or of what was recovered of it.

        Args:
            output: the output.
            directory: where it lies from now on.
            manifest: what explains it.

        Returns:
            False when it has been released before.
        """
        with self._lock:
            if self._outputs.get(output.output_id) is not output:
                return False
            self._no_longer_the_job_s(output)
            output.promoted(directory, manifest)
            return True

    def stop_tracking(self, output: Output) -> bool:
        """Forgets an output.

        Returns:
            whether it was tracked.
        """
        with self._lock:
            return bool(self._take([output]))

    def stop_tracking_job_partitions_for(self, job_id: JobID) -> list[Output]:
        """Forgets all outputs that a job has finished at this point in time, and gives them."""
        with self._lock:
            return self._take([self._outputs[each] for each in self._finished.get(job_id, ())])

    def stop_tracking_cluster_partitions(
        self, outputs: Collection[OutputID] | None = None
    ) -> list[Output]:
        """Forgets outputs whose partitions outlive their jobs, and gives them.

        Args:
            outputs: which; unknown ones, and those of jobs, are passed over. What was recovered of
                half-done ones goes as well. None: all that are promoted, and no others.
        """
        with self._lock:
            if outputs is None:
                return self._take(self._in(OutputState.PROMOTED))
            found = [self._outputs[each] for each in set(outputs) if each in self._outputs]
            released = (OutputState.PROMOTED, OutputState.PARTIAL)
            return self._take([each for each in found if each.state in released])

    def is_tracking_partitions_for(self, job_id: JobID) -> bool:
        """Whether a job has finished partitions here that are not promoted."""
        with self._lock:
            return any(self._outputs[each].partitions for each in self._finished.get(job_id, ()))

    def get(self, output_id: OutputID) -> Output | None:
        """An output; None for an unknown one."""
        return self._outputs.get(output_id)

    def is_tracking(self, output: Output, *states: OutputState) -> bool:
        """Whether an output is in one of these states, and nobody has stopped its tracking."""
        return output.state in states and self._outputs.get(output.output_id) is output

    def all(self, state: OutputState | None = None) -> list[Output]:
        """All outputs, or those that have come this far."""
        with self._lock:
            return list(self._outputs.values()) if state is None else self._in(state)

    def knows(self, name: str) -> bool:
        """Whether a directory of this name belongs to an output."""
        try:
            return OutputID.parse(name) in self._outputs
        except ValueError:
            return False

    def _in(self, state: OutputState) -> list[Output]:
        return [output for output in self._outputs.values() if output.state is state]

    def _take(self, outputs: Collection[Output]) -> list[Output]:
        taken = [each for each in outputs if self._outputs.get(each.output_id) is each]
        for output in taken:
            del self._outputs[output.output_id]
            self._no_longer_the_job_s(output)
        return taken

    def _no_longer_the_job_s(self, output: Output) -> None:
        finished = self._finished.get(output.job_id)
        if finished is not None:
            finished.pop(output.output_id, None)
            if not finished:
                del self._finished[output.job_id]

"""What Spark's tasks say of the partitions that they wrote, and where they ran."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from holdfast.storage.intermediate_result_storage import WrittenPartition

_DRAIN_MS = 30_000
_ALL = 2**31 - 1
_SUCCESS = "SUCCESS"


class WriteJob:
    """A Spark job that writes, told apart from other jobs by a tag of its own.

    Args:
        spark: the session that runs it.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tag = f"holdfast-{uuid.uuid4().hex}"

    @contextmanager
    def tagged(self) -> Iterator[None]:
        """Spark jobs that this thread starts inside belong to it."""
        context = self._spark.sparkContext
        context.addJobTag(self._tag)
        try:
            yield
        finally:
            context.removeJobTag(self._tag)

    def written(self) -> tuple[WrittenPartition, ...]:
        """The partitions by index, each as the one task says that succeeded in writing it.

        Raises:
            LookupError: when Spark has forgotten of the job already, or hasn't heard of its end.
        """
        context: Any = self._spark.sparkContext._jsc.sc()
        # Spark tells of its tasks by a queue, in its own time.
        context.listenerBus().waitUntilEmpty(_DRAIN_MS)
        store = context.statusStore()
        jobs = _listed(store.jobsList(None))
        ours = [job for job in jobs if job.jobTags().contains(self._tag)]
        if not ours:
            raise LookupError("Spark has no record of the job that wrote it")
        # What writes comes last, after the jobs of the stages and subqueries before it.
        writing = max(ours, key=lambda job: job.jobId())
        stage = max(_listed(writing.stageIds()))
        partitions: dict[int, WrittenPartition] = {}
        for attempt in _listed(store.stageData(stage, False, None, False, None)):
            for task in _listed(store.taskList(stage, attempt.attemptId(), _ALL)):
                if task.status() == _SUCCESS:
                    index = task.partitionId()
                    partitions[index] = WrittenPartition(index, task.host(), _rows(task))
        if sorted(partitions) != list(range(len(partitions))) or not partitions:
            raise LookupError("Spark has no record of some of the tasks that wrote it")
        return tuple(partitions[index] for index in sorted(partitions))


def _rows(task: Any) -> int:
    metrics = task.taskMetrics()
    if metrics.isEmpty():
        raise LookupError(f"Spark has no metrics of task {task.taskId()}")
    return int(metrics.get().outputMetrics().recordsWritten())


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]

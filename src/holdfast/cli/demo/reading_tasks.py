"""How near to their data the tasks ran that read kept partitions, as Spark itself tells it."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment
from holdfast.cli.demo.answer import Answer, ask
from holdfast.cli.demo.story import Question
from holdfast.runtime.vertex_outcome import VertexOutcome

_DRAIN_MS = 30_000
_ALL = 2**31 - 1
_SUCCESS = "SUCCESS"


class ReadingTasks:
    """Asks questions, and remembers which Spark jobs answered them from kept data alone.

    Args:
        spark: the session.
        env: the environment whose tables are asked.
    """

    def __init__(self, spark: SparkSession, env: Environment) -> None:
        self._spark = spark
        self._env = env
        self._tags: set[str] = set()

    def ask(self, question: Question, shared: DataFrame) -> Answer:
        """Asks a question, see `holdfast.cli.demo.answer.ask`."""
        context = self._spark.sparkContext
        tag = f"holdfast-demo-{uuid.uuid4().hex}"
        context.addJobTag(tag)
        try:
            answer = ask(question, shared)
        finally:
            context.removeJobTag(tag)
        result = self._env.last_job_result
        kept = [v.outcome for v in result.vertices if v.dataset_id is not None] if result else []
        # What a job reads that keeps something first are the sources, which lie on no node.
        if kept and set(kept) == {VertexOutcome.READ}:
            self._tags.add(tag)
        return answer

    def localities(self) -> Counter[str]:
        """How many tasks that read ran at each of Spark's levels: NODE_LOCAL, ANY and others."""
        context: Any = self._spark.sparkContext._jsc.sc()
        # Spark tells of its tasks by a queue, in its own time.
        context.listenerBus().waitUntilEmpty(_DRAIN_MS)
        store = context.statusStore()
        stages = {
            stage
            for job in _listed(store.jobsList(None))
            if any(job.jobTags().contains(tag) for tag in self._tags)
            for stage in _listed(job.stageIds())
        }
        return Counter(
            task.taskLocality()
            for stage in stages
            for attempt in _listed(store.stageData(stage, False, None, False, None))
            if attempt.inputBytes() > 0 or attempt.inputRecords() > 0
            for task in _listed(store.taskList(stage, attempt.attemptId(), _ALL))
            if task.status() == _SUCCESS
        )


def _listed(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]

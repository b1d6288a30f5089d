"""The settings of Spark by which the data of a recoverable job is dealt to tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from pyspark.sql import SparkSession

from holdfast.graph.task_sizes import PlanEffort, may_be_split_anew, task_sizes
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.session_inputs import SessionInputs
from holdfast.spark.recovery.split_signature import dealing
from holdfast.spark.session_settings import session_under

_FILES = "spark.sql.files."
_MOST_OF_FILES = _FILES + "maxPartitionBytes"
_COST_OF_FILE = _FILES + "openCostInBytes"
_SMALL_FILES = 32
_MOST_SHUFFLED = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
# By what Spark called it before.
_MOST_SHUFFLED_ONCE = "spark.sql.adaptive.shuffle.targetPostShuffleInputSize"
_SHUFFLED_TO = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
# By default, each map task of a shuffle to 200 partitions or fewer writes a file for each of them.
_MANY = 256
_SPARK_S_MOST = {_MOST_OF_FILES: 128 << 20, _MOST_SHUFFLED: 64 << 20}


@dataclass(frozen=True, slots=True)
class TaskDealing:
    """By which settings a job's data is dealt to tasks, so that a kill costs little.

    They are the same in each start of a job, as map tasks and partitions that an earlier start has
    left fit only among those of the very same tasks.

    Attributes:
        settings: of Spark; none where it is left to Spark.
        shows: how files are split shows in the partitions of the job's answer.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    shows: bool = True

    def of_vertex(self, root: CanonicalNode) -> dict[str, str]:
        """Those for what is kept until the job ends.

        Args:
            root: what is kept.
        """
        return dict(self.settings) if _may_be_dealt_anew(root) else {}

    def of_kept(self, root: CanonicalNode) -> dict[str, str]:
        """Those for what stays: a shuffle's rows are in as few partitions as Spark puts them in.

        Args:
            root: what is kept.
        """
        return self._of_map_tasks() if _may_be_dealt_anew(root) else {}

    def of_answer(self, root: CanonicalNode, *, written: bool) -> dict[str, str]:
        """Those for the job's answer.

        Args:
            root: the answer.
            written: as many files are written as it has partitions.
        """
        if not _may_be_dealt_anew(root):
            return {}
        if not written:
            return dict(self.settings)
        return {} if self.shows else self._of_map_tasks()

    def _of_map_tasks(self) -> dict[str, str]:
        return {key: value for key, value in self.settings.items() if key != _MOST_SHUFFLED}


def task_dealing(
    spark: SparkSession, inputs: SessionInputs, effort: PlanEffort, task_time: timedelta
) -> TaskDealing:
    """By which settings a job's data is dealt to tasks in its first start.

    Args:
        spark: the session whose cores run the job.
        inputs: the settings that it runs under. What the user has set stays as it is.
        effort: what the job's plan reads and does.
        task_time: what a task is expected to take at most; 0 leaves it to Spark.
    """
    seconds = task_time.total_seconds()
    if not seconds:
        return TaskDealing()
    sizes = task_sizes(effort, seconds, spark.sparkContext.defaultParallelism)
    settings: dict[str, str] = {}
    given = inputs.settings.keys()
    if sizes.files < _SPARK_S_MOST[_MOST_OF_FILES] and _MOST_OF_FILES not in given:
        # With the number of cores, by which Spark goes as well: the next start may have others.
        settings |= dealing(spark, session_under(spark, inputs))
        settings[_MOST_OF_FILES] = str(sizes.files)
        if _COST_OF_FILE not in given:
            # A task reads as many small files as one of Spark's does.
            settings[_COST_OF_FILE] = str(sizes.files // _SMALL_FILES)
        if given.isdisjoint((_SHUFFLED_TO, "spark.sql.shuffle.partitions")):
            settings[_SHUFFLED_TO] = str(_MANY)
    if sizes.shuffled < _SPARK_S_MOST[_MOST_SHUFFLED] and given.isdisjoint(
        (_MOST_SHUFFLED, _MOST_SHUFFLED_ONCE)
    ):
        settings[_MOST_SHUFFLED] = str(sizes.shuffled)
    return TaskDealing(settings, effort.files_make_partitions)


def _may_be_dealt_anew(root: CanonicalNode) -> bool:
    # What is doubted may tell its tasks as well.
    return may_be_split_anew(root) and not root.all_doubts()

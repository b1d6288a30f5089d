"""What an environment runs its jobs with, with recovery as without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.spark.catalyst_bridge import CatalystBridge
from holdfast.spark.recovery.retained_shuffles import is_retainable
from holdfast.spark.spark_vertex_runner import SparkVertexRunner
from holdfast.storage.intermediate_result_storage import IntermediateResultStorage


@dataclass(frozen=True, slots=True)
class JobEngine:
    """What an environment runs its jobs with.

    Attributes:
        spark: the session.
        bridge: reads and rewrites its plans.
        runner: runs plans, and keeps what outlives jobs.
        storage: where it keeps that.
        keeping: the same runner over another storage.
    """

    spark: SparkSession
    bridge: CatalystBridge
    runner: SparkVertexRunner
    storage: TaskExecutorStorage
    keeping: Callable[[IntermediateResultStorage], SparkVertexRunner]

    @property
    def keeps_shuffles(self) -> bool:
        """Whether what shuffles write can be kept for a job's next start."""
        return is_retainable(self.spark, spans_machines=self.storage.spans_machines)

"""What a driver of the third act tells about its job when it has ended."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from holdfast import JobExecutionResult
from holdfast.ids import JobID
from holdfast.runtime.execution_graph import ExecutionVertex
from holdfast.runtime.partitions import BlockingPersistentResultPartitionMeta


class DriverReport(BaseModel):
    """How the job went.

    Attributes:
        seconds: from building the query until its rows were written.
        job_id: 32 digits; None on plain Spark, as with all that follows.
        name: the action that was called.
        net_runtime: of the job, in seconds.
        vertices: what became of each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: float
    job_id: str | None = None
    name: str = ""
    net_runtime: float = 0.0
    vertices: tuple[ExecutionVertex, ...] = ()

    @classmethod
    def of(cls, seconds: float, result: JobExecutionResult | None) -> DriverReport:
        """What is told of a job.

        Args:
            seconds: how long it took.
            result: what its environment says; None on plain Spark.
        """
        if result is None:
            return cls(seconds=seconds)
        return cls(
            seconds=seconds,
            job_id=result.job_id.hex,
            name=result.name,
            net_runtime=result.net_runtime,
            vertices=result.vertices,
        )

    @property
    def result(self) -> JobExecutionResult | None:
        """What the environment has said; None on plain Spark."""
        if self.job_id is None:
            return None
        return JobExecutionResult(
            JobID(self.job_id),
            self.name,
            self.net_runtime,
            BlockingPersistentResultPartitionMeta(),
            self.vertices,
        )

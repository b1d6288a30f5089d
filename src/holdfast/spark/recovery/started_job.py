"""A job that has begun, or goes on: what runs it from here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql.classic.dataframe import DataFrame

from holdfast.ids import JobVertexID
from holdfast.runtime.execution_graph import ArchivedExecutionGraph, ExecutionVertex
from holdfast.runtime.job_master import JobMaster, JobRequest
from holdfast.runtime.job_result import JobResult
from holdfast.runtime.partitions import BlockingPersistentResultPartitionMeta
from holdfast.runtime.recovery.job_sink import SinkStart
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.recovery.passing_journal import PassingJournal


@dataclass(frozen=True, slots=True)
class StartedJob:
    """A start of a job.

    Attributes:
        request: what to run.
        master: runs it.
        sink_start: what its sinks have to know.
        check: raises when another start has taken over.
        already_done: an earlier run of the program has ended this very job, so that it is not to be
            run: its sinks are told to forget it, and that is all.
    """

    request: JobRequest[Query]
    master: JobMaster[Query, DataFrame]
    sink_start: SinkStart
    check: Callable[[], None]
    already_done: bool = False

    @classmethod
    def unrecorded(
        cls, request: JobRequest[Query], master: JobMaster[Query, DataFrame]
    ) -> StartedJob:
        """A job that can't be recovered."""
        return cls(request, master, SinkStart(request.job_id, 1, PassingJournal()), lambda: None)


def done_before(job: StartedJob) -> JobResult:
    """The result of a job whose rows an earlier start has written."""
    name, job_id = job.request.name, job.sink_start.job_id
    vertex = ExecutionVertex(JobVertexID.random(), name, None, VertexOutcome.RECOVERED)
    return JobResult(
        ArchivedExecutionGraph(job_id, name, (vertex,), BlockingPersistentResultPartitionMeta()),
        net_runtime=0.0,
    )

"""How a job ended, as the JobMaster reports it."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.runtime.execution_graph import ArchivedExecutionGraph


@dataclass(frozen=True, slots=True)
class JobResult:
    """Source: FLINK-12406, "the locations flow in this path".

    Attributes:
        execution_graph: what ran.
        net_runtime: from submission to the end, in seconds.
        is_as_written: it has failed over what was kept unasked, and was run as it was written.
        is_refused: Spark has refused its plan over what is kept, and taken it without.
        losses: kept data that turned out to be lost on the way; the job was resubmitted then.
    """

    execution_graph: ArchivedExecutionGraph
    net_runtime: float
    losses: tuple[str, ...] = ()
    is_as_written: bool = False
    is_refused: bool = False

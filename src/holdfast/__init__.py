"""Keeps the intermediate results of Spark jobs and finds them again."""

from holdfast.api.cached_table import CachedTable
from holdfast.api.environment import CachedDataSet, Environment
from holdfast.api.job_execution_result import JobExecutionResult
from holdfast.api.table import Table
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.execution_graph import ExecutionVertex, VertexOutcome
from holdfast.runtime.partitions import (
    BlockingPersistentResultPartitionMeta,
    ResultPartitionDescriptor,
)
from holdfast.version import __version__

__all__ = [
    "BlockingPersistentResultPartitionMeta",
    "CachedDataSet",
    "CachedTable",
    "Environment",
    "ExecutionVertex",
    "IntermediateDataSetID",
    "JobExecutionResult",
    "JobID",
    "ResultPartitionDescriptor",
    "Table",
    "VertexOutcome",
    "__version__",
]

"""Keeps the intermediate results of Spark jobs and finds them again."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

if TYPE_CHECKING:
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

# Found when they are asked for: Spark's Python workers import this package for the functions of a
# stream alone, and the rest would take each of them longer than many a job does.
_HOMES = {
    "BlockingPersistentResultPartitionMeta": "runtime.partitions",
    "CachedDataSet": "api.environment",
    "CachedTable": "api.cached_table",
    "Environment": "api.environment",
    "ExecutionVertex": "runtime.execution_graph",
    "IntermediateDataSetID": "ids",
    "JobExecutionResult": "api.job_execution_result",
    "JobID": "ids",
    "ResultPartitionDescriptor": "runtime.partitions",
    "Table": "api.table",
    "VertexOutcome": "runtime.execution_graph",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Keeps the intermediate results of Spark jobs and finds them again."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.api.attachment import attach, detach
    from holdfast.api.cached_data_set import CachedDataSet
    from holdfast.api.cached_data_stream import CachedDataStream
    from holdfast.api.cached_table import CachedTable
    from holdfast.api.closeable_iterator import CloseableIterator
    from holdfast.api.data_stream import DataStream
    from holdfast.api.data_stream_sink import DataStreamSink
    from holdfast.api.environment import Environment
    from holdfast.api.job_execution_result import JobExecutionResult
    from holdfast.api.keyed_stream import KeyedStream
    from holdfast.api.notebook import load_ipython_extension, unload_ipython_extension
    from holdfast.api.table import Table
    from holdfast.functions.encoder import Encoder
    from holdfast.functions.file_source import FileSource, StreamFormat
    from holdfast.functions.function import Function
    from holdfast.functions.keyed_process_function import KeyedProcessFunction
    from holdfast.functions.output_tag import OutputTag
    from holdfast.functions.process_function import ProcessFunction
    from holdfast.functions.record_functions import (
        FilterFunction,
        FlatMapFunction,
        KeySelector,
        MapFunction,
        ReduceFunction,
    )
    from holdfast.functions.runtime_context import RuntimeContext
    from holdfast.functions.sink import FileSink, PrintSink, Sink
    from holdfast.functions.source import NumberSequenceSource, Source
    from holdfast.functions.state_descriptors import (
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )
    from holdfast.functions.type_information import TypeInformation, Types
    from holdfast.functions.watermark_strategy import WatermarkStrategy
    from holdfast.graph.stream.execution_plan import ExecutionPlan
    from holdfast.ids import IntermediateDataSetID, JobID
    from holdfast.runtime.execution_graph import ExecutionVertex
    from holdfast.runtime.partitions import (
        BlockingPersistentResultPartitionMeta,
        ResultPartitionDescriptor,
    )
    from holdfast.runtime.vertex_outcome import VertexOutcome

__all__ = [
    "BlockingPersistentResultPartitionMeta",
    "CachedDataSet",
    "CachedDataStream",
    "CachedTable",
    "CloseableIterator",
    "DataStream",
    "DataStreamSink",
    "Encoder",
    "Environment",
    "ExecutionPlan",
    "ExecutionVertex",
    "FileSink",
    "FileSource",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "IntermediateDataSetID",
    "JobExecutionResult",
    "JobID",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStream",
    "ListStateDescriptor",
    "MapFunction",
    "MapStateDescriptor",
    "NumberSequenceSource",
    "OutputTag",
    "PrintSink",
    "ProcessFunction",
    "ReduceFunction",
    "ReducingStateDescriptor",
    "ResultPartitionDescriptor",
    "RuntimeContext",
    "Sink",
    "Source",
    "StreamFormat",
    "Table",
    "TypeInformation",
    "Types",
    "ValueStateDescriptor",
    "VertexOutcome",
    "WatermarkStrategy",
    "__version__",
    "attach",
    "detach",
    "load_ipython_extension",
    "unload_ipython_extension",
]

# Found when they are asked for: Spark's Python workers import this package for the functions of a
# stream alone, and the rest would take each of them longer than many a job does.
_HOMES = {
    "BlockingPersistentResultPartitionMeta": "runtime.partitions",
    "CachedDataSet": "api.cached_data_set",
    "CachedDataStream": "api.cached_data_stream",
    "CachedTable": "api.cached_table",
    "CloseableIterator": "api.closeable_iterator",
    "DataStream": "api.data_stream",
    "DataStreamSink": "api.data_stream_sink",
    "Encoder": "functions.encoder",
    "Environment": "api.environment",
    "ExecutionPlan": "graph.stream.execution_plan",
    "ExecutionVertex": "runtime.execution_graph",
    "FileSink": "functions.sink",
    "FileSource": "functions.file_source",
    "FilterFunction": "functions.record_functions",
    "FlatMapFunction": "functions.record_functions",
    "Function": "functions.function",
    "IntermediateDataSetID": "ids",
    "JobExecutionResult": "api.job_execution_result",
    "JobID": "ids",
    "KeySelector": "functions.record_functions",
    "KeyedProcessFunction": "functions.keyed_process_function",
    "KeyedStream": "api.keyed_stream",
    "ListStateDescriptor": "functions.state_descriptors",
    "MapFunction": "functions.record_functions",
    "MapStateDescriptor": "functions.state_descriptors",
    "NumberSequenceSource": "functions.source",
    "OutputTag": "functions.output_tag",
    "PrintSink": "functions.sink",
    "ProcessFunction": "functions.process_function",
    "ReduceFunction": "functions.record_functions",
    "ReducingStateDescriptor": "functions.state_descriptors",
    "ResultPartitionDescriptor": "runtime.partitions",
    "RuntimeContext": "functions.runtime_context",
    "Sink": "functions.sink",
    "Source": "functions.source",
    "StreamFormat": "functions.file_source",
    "Table": "api.table",
    "TypeInformation": "functions.type_information",
    "Types": "functions.type_information",
    "ValueStateDescriptor": "functions.state_descriptors",
    "VertexOutcome": "runtime.execution_graph",
    "attach": "api.attachment",
    "detach": "api.attachment",
    "load_ipython_extension": "api.notebook",
    "WatermarkStrategy": "functions.watermark_strategy",
    "unload_ipython_extension": "api.notebook",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""The base classes of user functions on streams."""

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
from holdfast.functions.state import ListState, MapState, ReducingState, ValueState
from holdfast.functions.state_descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from holdfast.functions.type_information import TypeInformation, Types
from holdfast.functions.watermark_strategy import WatermarkStrategy

__all__ = [
    "Encoder",
    "FileSink",
    "FileSource",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedProcessFunction",
    "ListState",
    "ListStateDescriptor",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "NumberSequenceSource",
    "OutputTag",
    "PrintSink",
    "ProcessFunction",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RuntimeContext",
    "Sink",
    "Source",
    "StreamFormat",
    "TypeInformation",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
    "WatermarkStrategy",
]

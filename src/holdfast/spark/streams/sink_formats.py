"""Where the records of a job's last passes go: to the driver, to a person's sink, into files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark import TaskContext as SparkTaskContext

from holdfast.functions.sink import Sink
from holdfast.spark.streams.frames import Hello
from holdfast.spark.streams.record_sender import RecordSender
from holdfast.streaming.batch_size import BatchSize, take
from holdfast.streaming.contexts import TaskContext
from holdfast.streaming.memory_gauge import MemoryGauge
from holdfast.streaming.outputs import OutputFormat
from holdfast.streaming.sealing import SealKey
from holdfast.streaming.subtask import Subtask
from holdfast.streaming.user_functions import OpenedFunctions, failing_as

__all__ = [
    "LINES",
    "LINES_SCHEMA",
    "SentOutput",
    "SinkOutput",
    "TextOutput",
    "task_attempt",
    "task_index",
]

LINES = "value"
LINES_SCHEMA = pa.schema([(LINES, pa.string())])
"""The column that all sinks have, so that one query can hold them all."""

_TEXT_BYTES = 256 << 10


def task_index() -> int:
    """The index of the task that this runs in; 0 where it runs in none."""
    context = SparkTaskContext.get()
    return 0 if context is None else context.partitionId()


def task_attempt() -> tuple[int, int]:
    """The index of the task that this runs in, and a number that no other attempt of it has."""
    context = SparkTaskContext.get()
    return (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())


@dataclass(frozen=True)
class SentOutput(OutputFormat):
    """Records that the driver asks for.

    Args:
        address: where it listens.
        key: by which it knows its tasks.
    """

    schema: ClassVar[pa.Schema] = LINES_SCHEMA

    address: tuple[str, int]
    key: SealKey

    def write(
        self, records: Iterator[Any], operator: str, subtask: Subtask, gauge: MemoryGauge
    ) -> Iterator[pa.RecordBatch]:
        context = SparkTaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        hello = Hello(task_index(), attempt)
        with closing(RecordSender(self.address, self.key, hello, operator)) as sender:
            sender.send(records)
        return iter(())


@dataclass(frozen=True)
class SinkOutput(OutputFormat):
    """Records that a person's own sink writes.

    Args:
        name: of the sink.
        sink: writes them.
    """

    schema: ClassVar[pa.Schema] = LINES_SCHEMA

    name: str
    sink: Sink

    def open(self, functions: OpenedFunctions, subtask: Subtask) -> None:
        functions.open(self.name, self.sink, TaskContext(self.name, subtask))

    def write(
        self, records: Iterator[Any], operator: str, subtask: Subtask, gauge: MemoryGauge
    ) -> Iterator[pa.RecordBatch]:
        write = self.sink.write
        with failing_as(self.name):
            for record in records:
                write(record)
        return iter(())


@dataclass(frozen=True)
class TextOutput(OutputFormat):
    """Lines of text: each row holds several of them.

    Args:
        name: of the sink.
        encoder: makes a line of a record.
    """

    schema: ClassVar[pa.Schema] = LINES_SCHEMA

    name: str
    encoder: Callable[[Any], str]

    def write(
        self, records: Iterator[Any], operator: str, subtask: Subtask, gauge: MemoryGauge
    ) -> Iterator[pa.RecordBatch]:
        size = BatchSize(_TEXT_BYTES)
        while taken := take(records, size.records):
            with failing_as(self.name):
                lines = [self.encoder(record) for record in taken]
                text = "\n".join(lines)
            size.learn(len(lines), len(text))
            yield pa.RecordBatch.from_arrays([pa.array([text], pa.string())], schema=LINES_SCHEMA)

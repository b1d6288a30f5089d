"""Sink: the target of a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.functions.function import Function

__all__ = ["FileSink", "FileSinkBuilder", "PrintSink", "Sink"]

_MODES = ("error", "overwrite", "append")


class Sink(Function, ABC):
    """Writes records in the tasks: each subtask has its own copy.

    `open` is called once on it, before the first record; `close` once, after the last record or
    after a failure. If Spark reruns a task, its records are written again.

    Source: FLIP-143, "Unified Sink API", without transactions.

    >>> class Appending(Sink):
    ...     def __init__(self, path):
    ...         self.path = path
    ...     def open(self, runtime_context):
    ...         self.file = open(f"{self.path}-{runtime_context.get_index_of_this_subtask()}", "a")
    ...     def write(self, value):
    ...         print(value, file=self.file)
    ...     def close(self):
    ...         self.file.close()
    """

    @abstractmethod
    def write(self, value: Any) -> None:
        """Writes a record.

        Args:
            value: a record.
        """


@dataclass(frozen=True, slots=True)
class PrintSink:
    """Prints each record as a line of this process's standard output.

    Attributes:
        prefix: printed before each record, as `prefix> record`, unless empty.

    Source: PyFlink, `DataStream.print`.
    """

    prefix: str = ""

    def line(self, value: Any) -> str:
        """What is printed of a record.

        >>> PrintSink("sums").line(3)
        'sums> 3'
        """
        return f"{self.prefix}> {value}" if self.prefix else str(value)


@dataclass(frozen=True, slots=True)
class FileSink:
    """Writes each record as a line of text, a file for each subtask that has records.

    Spark writes the files: they appear all together, after the last record.

    Attributes:
        path: a directory on any file system that Spark writes to.
        encoder: converts a record to a line, without line ending.
        mode: what to do if the directory exists: `error`, `overwrite` or `append`.
        compression: `gzip`, `bzip2`, `lz4`, `snappy`, `deflate` or None.

    Raises:
        ValueError: when the path is empty or not a string, or the mode is none of these.

    Source: PyFlink, `pyflink.datastream.connectors.file_system.FileSink`.

    >>> FileSink("words").mode
    'error'
    """

    path: str
    encoder: Callable[[Any], str] = str
    mode: Literal["error", "overwrite", "append"] = "error"
    compression: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path:
            raise ValueError(
                f"path of a FileSink is {self.path!r}: expected a directory, as a string"
            )
        if self.mode not in _MODES:
            raise ValueError(
                f"mode of a FileSink is {self.mode!r}: expected one of {', '.join(_MODES)}"
            )
        if not callable(self.encoder):
            raise ValueError(
                f"encoder of a FileSink is {self.encoder!r}: expected a function that converts a "
                "record to a line"
            )

    @staticmethod
    def for_row_format(base_path: str, encoder: Callable[[Any], str]) -> FileSinkBuilder:
        """Begins a sink that writes record by record, as PyFlink builds it.

        Args:
            base_path: a directory on any file system that Spark writes to.
            encoder: converts a record to a line, such as `Encoder.simple_string_encoder()`.

        Raises:
            ValueError: when the path is empty or not a string, or the encoder is not callable.

        >>> FileSink.for_row_format("words", str).build() == FileSink("words")
        True
        """
        return FileSinkBuilder(FileSink(base_path, encoder))


@dataclass(frozen=True, slots=True)
class FileSinkBuilder:
    """A file sink that is being built.

    Attributes:
        sink: what it has become so far.

    Source: PyFlink, `pyflink.datastream.connectors.file_system.FileSink.RowFormatBuilder`.
    """

    sink: FileSink

    def build(self) -> FileSink:
        """The sink."""
        return self.sink

"""How the sinks of a job are run, each over a DataFrame of its own."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import InvalidStreamArgumentError
from holdfast.functions.sink import FileSink, PrintSink, Sink
from holdfast.spark.interruptible import over_before_clearing
from holdfast.spark.streams.background_action import BackgroundAction
from holdfast.spark.streams.record_receiver import RecordReceiver
from holdfast.spark.streams.sink_formats import SentOutput, SinkOutput, TextOutput
from holdfast.streaming.outputs import OutputFormat

__all__ = ["CollectRun", "SinkRun", "is_on_this_machine", "run_of"]

_LOOPBACK = "127.0.0.1"


class SinkRun(ABC):
    """A sink that is about to be run."""

    @property
    @abstractmethod
    def output(self) -> OutputFormat:
        """What the sink's pass makes of the records."""

    @abstractmethod
    def run(self, frame: DataFrame, path: str | None = None) -> None:
        """Runs it.

        Args:
            frame: what comes out of the sink's pass.
            path: an empty directory of this machine for its files to be written to; None where
                they go to the sink's own place, or it writes none.
        """

    def close(self) -> None:
        """Releases what the sink holds in this process. Does nothing the second time."""
        return


class CollectRun:
    """Takes a stream's records in this process.

    Args:
        spark: the session.
        eager: they are wanted as fast as they come.
    """

    def __init__(self, spark: SparkSession, *, eager: bool = False) -> None:
        self._spark = spark
        self._receiver = _receiver(spark, eager)
        self._action: BackgroundAction | None = None

    @property
    def output(self) -> OutputFormat:
        """What the pass makes of the records."""
        return SentOutput(self._receiver.address, self._receiver.key)

    def records(self, frame: DataFrame) -> Iterator[Any]:
        """The records, as they are taken. The Spark job starts with the first.

        Args:
            frame: what comes out of the pass.
        """
        self.start(frame)
        yield from self.started_records()

    def start(self, frame: DataFrame) -> None:
        """Starts the Spark job; one that runs already is ended.

        Args:
            frame: what comes out of the pass.
        """
        self.stop()
        self._action = BackgroundAction(self._spark, frame.collect, self._receiver.wake)

    def started_records(self) -> Iterator[Any]:
        """The records of the Spark job that was started, as they are taken."""
        try:
            yield from self._receiver.records(self.is_over, self._running_tasks)
        finally:
            self.stop()

    def is_over(self) -> bool:
        """Whether the Spark job has ended, or none was started.

        Raises:
            Exception: what it has failed with.
        """
        return self._action is None or self._action.is_over()

    def is_in_last_stage(self) -> bool:
        """Whether the stages before the last one of the Spark job have ended.

        Raises:
            Exception: what it has failed with.
        """
        return self.is_over() or self._receiver.is_called()

    def stop(self) -> None:
        """Ends the Spark job, if there is one; another may begin."""
        action, self._action = self._action, None
        self._receiver.dismiss()
        if action is not None:
            action.end()

    def _running_tasks(self) -> int:
        return 0 if self._action is None else self._action.running_tasks()

    def close(self) -> None:
        """Ends the Spark job, and closes the channel. Does nothing the second time."""
        self.stop()
        self._receiver.close()


class _PrintRun(SinkRun):
    def __init__(self, spark: SparkSession, sink: PrintSink) -> None:
        self._sink = sink
        self._collect = CollectRun(spark, eager=True)
        self._printed = 0

    @property
    def output(self) -> OutputFormat:
        return self._collect.output

    def run(self, frame: DataFrame, path: str | None = None) -> None:
        with closing(self._collect.records(frame)) as records:  # type: ignore[type-var]
            for number, record in enumerate(records):
                # A job that is resubmitted doesn't print again what has been printed.
                if number >= self._printed:
                    print(self._sink.line(record), file=sys.stdout)
                    self._printed += 1

    def close(self) -> None:
        self._collect.close()


class _FileRun(SinkRun):
    def __init__(self, spark: SparkSession, name: str, sink: FileSink) -> None:
        self._spark = spark
        self._name = name
        self._sink = sink

    @property
    def output(self) -> OutputFormat:
        return TextOutput(self._name, self._sink.encoder)

    def run(self, frame: DataFrame, path: str | None = None) -> None:
        if path is not None:
            self._write(frame, f"file:{path}", "append")
            return
        with self._left_as_it_was():
            self._write(frame, self._sink.path, self._sink.mode)

    def _write(self, frame: DataFrame, target: str, mode: str) -> None:
        frame.write.mode(mode).text(target, self._sink.compression or "none", "\n")

    @contextmanager
    def _left_as_it_was(self) -> Iterator[None]:
        """Where a write fails, removes the empty directory that it leaves, at which a job that is
        resubmitted would fail."""
        jvm: Any = self._spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(self._sink.path)
        files = path.getFileSystem(self._spark.sparkContext._jsc.hadoopConfiguration())
        is_new = not files.exists(path)
        try:
            with over_before_clearing():
                yield
        except BaseException:
            with suppress(Py4JError):
                if is_new and not files.listFiles(path, True).hasNext():
                    files.delete(path, True)
            raise


class _OwnSinkRun(SinkRun):
    def __init__(self, name: str, sink: Sink) -> None:
        self._name = name
        self._sink = sink

    @property
    def output(self) -> OutputFormat:
        return SinkOutput(self._name, self._sink)

    def run(self, frame: DataFrame, path: str | None = None) -> None:
        frame.collect()


def run_of(spark: SparkSession, sink: object, name: str) -> SinkRun:
    """How a sink is run.

    Args:
        spark: the session.
        sink: what the API has handed over.
        name: the sink's name, for people.

    Raises:
        InvalidStreamArgumentError: when it is no sink.
    """
    match sink:
        case PrintSink():
            return _PrintRun(spark, sink)
        case FileSink():
            return _FileRun(spark, name, sink)
        case Sink():
            return _OwnSinkRun(name, sink)
    raise InvalidStreamArgumentError(
        "sink_to()", sink, "a FileSink or an instance of a subclass of Sink"
    )


def is_on_this_machine(spark: SparkSession) -> bool:
    """Whether all tasks run on the driver's machine.

    Args:
        spark: the session.
    """
    return (spark.sparkContext.master or "").startswith("local")


def _receiver(spark: SparkSession, eager: bool) -> RecordReceiver:
    """Listens where Spark's own driver does; on one machine to nobody else."""
    if is_on_this_machine(spark):
        return RecordReceiver(_LOOPBACK, eager=eager)
    settings = spark.sparkContext.getConf()
    host = settings.get("spark.driver.host", _LOOPBACK) or _LOOPBACK
    bound = settings.get("spark.driver.bindAddress", host) or host
    return RecordReceiver(bound, eager=eager, known_as=host)

"""A Spark job that answers, and keeps a stream on the way."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import StorageError
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.reasons import Why
from holdfast.runtime.job_master import JobRequest
from holdfast.runtime.vertex_runner import KeptDataLost, NotKeptError
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.streams.compiler import BATCH_COLUMNS
from holdfast.spark.streams.sink_formats import task_attempt
from holdfast.spark.streams.sink_runs import CollectRun
from holdfast.spark.streams.tee_plan import TeePlan
from holdfast.spark.streams.tee_receipts import TeeReceipts
from holdfast.storage.intermediate_result_storage import StagedDataSet
from holdfast.storage.kept_dataset import DataSetDescription
from holdfast.streaming.own_pickle import OwnPickle
from holdfast.streaming.sealing import SEALED_SCHEMA
from holdfast.streaming.tee import Tee, TeeReceipt

__all__ = ["TeeJob"]

# What the storage removes before it publishes, and with it what an attempt still writes.
_IN_PROGRESS = "_temporary"


class TeeJob:
    """Runs a job whose first stage keeps a stream while its records go on to the next stage.

    Each attempt of a task writes a file of its own. Only files of attempts that Spark calls
    successful are moved to where they are published, and only when there is just one of each
    partition: then its records are those that the next stage gets.

    Args:
        spark: the session.
        bridge: rewrites its plans.
        request: the job.
        plan: what is kept, and who reads it.
        run: takes the job's records.
        runnable: a query as it is to be run.
    """

    def __init__(
        self,
        spark: SparkSession,
        bridge: CatalystBridge,
        request: JobRequest[Query],
        plan: TeePlan,
        run: CollectRun,
        runnable: Callable[[DataFrame], DataFrame],
    ) -> None:
        self._spark = spark
        self._bridge = bridge
        self._request = request
        self._plan = plan
        self._run = run
        self._runnable = runnable
        self._receipts: TeeReceipts | None = None
        self._partitions = 0
        self._kept: IntermediateDataSetID | None = None
        self.running: DataFrame | None = None
        """What runs, while nobody has asked for its records."""

    def keeps(self, query: Query) -> bool:
        """Whether a query is the one whose result is kept on the way.

        Args:
            query: what is to be kept.
        """
        return query.root.digest == self._plan.kept.query.root.digest

    def write(
        self, plan: Any, description: DataSetDescription, staged: StagedDataSet, compression: str
    ) -> bool:
        """Starts the job, and keeps the stream, see `holdfast.spark.spark_vertex_runner.Write`.

        The job runs on when the stream can't be kept.

        Raises:
            NotKeptError: when not every partition was written once.
            StorageError: when the partitions can't be moved to where they are published.
            pyspark.errors.PySparkException: what the Spark job has failed with.
        """
        if self._receipts is not None or not _is_plain(description):
            return False
        directory = staged.directory.absolute() / _IN_PROGRESS
        self._receipts = receipts = TeeReceipts(self._spark)
        try:
            directory.mkdir(mode=0o700)
            frame = self._frame(plan, str(directory), compression, receipts)
            teed = _executed_tee(frame)
        except OSError as error:
            raise StorageError(str(directory), str(error)) from error
        except (Py4JError, PySparkException):
            return False
        if teed is None:
            return False
        self._run.start(frame)
        try:
            self._partitions = _partitions_of(teed)
            written = receipts.wait(self._partitions, self._run.is_in_last_stage)
        except BaseException:
            self._run.stop()
            raise
        self.running = frame
        self._promote(written, directory, staged.directory)
        self._kept = staged.dataset_id
        return True

    def records(self) -> Iterator[Any]:
        """The records of the job that runs, as they are taken.

        Raises:
            KeptDataLost: when Spark has run a task a second time after its partition was published,
                so that the records may be others than those that are kept.
        """
        self.running = None
        yield from self._run.started_records()
        receipts = 0 if self._receipts is None else self._receipts.count()
        if self._kept is not None and receipts != self._partitions:
            raise KeptDataLost({self._kept: "a task that had written it was rerun"})

    def close(self) -> None:
        """Releases what is held for the job. Does nothing the second time."""
        if self._receipts is not None:
            self._receipts.close()

    def _frame(
        self, plan: Any, directory: str, compression: str, receipts: TeeReceipts
    ) -> DataFrame:
        """The job's query with one pass in place of the two that keep the stream and read it."""
        kept, consumer = self._plan.kept, self._plan.consumer
        tee = Tee(
            kept.run, OwnPickle(consumer), directory, compression, task_attempt, receipts.report
        )
        source = self._bridge.dataframe(plan.children().apply(0))
        made: Any = source.mapInArrow(tee, BATCH_COLUMNS)
        teed = made._jdf.queryExecution().analyzed()
        reader = self._request.query.reading.node(self._plan.reader.handle)
        replacement = reader.copy(
            teed.functionExpr(), reader.output(), teed.child(), reader.isBarrier(), reader.profile()
        )
        substituted = self._bridge.substitute(
            self._request.query, {self._plan.reader.handle: replacement}
        )
        return self._runnable(self._bridge.dataframe(substituted))

    def _promote(self, written: list[TeeReceipt], directory: Path, published: Path) -> None:
        indices = sorted(each.partition for each in written)
        if not indices or indices != list(range(self._partitions)):
            raise NotKeptError(Why.NOT_ONCE.of())
        for each in written:
            if each.failure is not None:
                raise NotKeptError(Why.NOT_WRITTEN.of(each.partition, each.failure))
        name = uuid.uuid4().hex
        try:
            for each in written:
                # Like Spark's writer: no file without rows, but for the first.
                if each.rows or each.partition == 0:
                    target = published / f"part-{each.partition:05d}-{name}.parquet"
                    os.rename(directory / each.file, target)
        except OSError as error:
            raise StorageError(str(published), f"a partition is missing: {error}") from error


def _is_plain(description: DataSetDescription) -> bool:
    """Whether a stream's files have just the columns of its batches."""
    return (
        not description.is_ordered
        and [column.kept_as for column in description.columns] == SEALED_SCHEMA.names
    )


def _executed_tee(frame: DataFrame) -> Any:
    """The tee in Spark's physical plan; None where it can't be seen before it runs."""
    waiting = [frame._jdf.queryExecution().executedPlan()]
    while waiting:
        node = waiting.pop()
        if node.nodeName() == "MapInArrow" and node.func().name() == Tee.__name__:
            return node
        children = node.children()
        waiting.extend(children.apply(index) for index in range(children.size()))
    return None


def _partitions_of(teed: Any) -> int:
    """How many tasks run the tee; 0 where its input can't be had, as the job itself will tell."""
    try:
        return int(teed.child().execute().getNumPartitions())
    except (Py4JError, PySparkException):
        return 0

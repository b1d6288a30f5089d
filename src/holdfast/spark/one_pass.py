"""A vertex whose result is kept by the Spark job that answers, while its rows flow on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import LocationsIncompleteError, StorageError
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Why
from holdfast.runtime.execution_events import VertexProduced
from holdfast.runtime.vertex_runner import NotKeptError, Production
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.interruptible import over_before_clearing
from holdfast.spark.java_classes import new_object
from holdfast.spark.job_description import described
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.partition_reader import file_schema
from holdfast.spark.partition_writer import PartitionWriter
from holdfast.spark.per_context import PerContext
from holdfast.spark.task_classes import ship
from holdfast.spark.task_costs import measured_cpu
from holdfast.storage.intermediate_result_storage import (
    IntermediateResultStorage,
    StagedDataSet,
    WrittenPartition,
)
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet

_JAVA_CLASS = "RowTee"
_MILLISECONDS = 1000.0


@dataclass(frozen=True, slots=True)
class TeedRows:
    """A plan whose rows are written as they are asked for.

    Attributes:
        plan: the JVM's plan, with the rows of the one that it was made of.
        sink: the driver's end of it, in the JVM.
    """

    plan: Any
    sink: Any

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        plan: Any,
        session: Any,
        writing: Any,
        writer: PartitionWriter,
        description: DataSetDescription,
        staged: StagedDataSet,
    ) -> TeedRows:
        """Prepares it. Runs nothing.

        Args:
            spark: a session of the context that runs it.
            plan: the JVM's plan, analyzed, for `session`.
            session: the JVM's session that is going to run it, and nothing else.
            writing: the JVM's session whose settings say how files are written.
            writer: writes results otherwise.
            description: how the plan's columns are kept.
            staged: where the files go.

        Raises:
            UnsupportedSparkError: when the JVM's Spark isn't one whose rows can be written so.
            py4j.protocol.Py4JError: when Spark refuses some of it.
            OSError: when there is no place for the tasks' classes.
        """
        tee = _tees.of(spark)
        ship(spark, _JAVA_CLASS)
        jvm = JvmMembers.of(spark)
        options = jvm.hash_map()
        for key, value in writer.options(description).items():
            options.put(key, value)
        renamed = [
            str(index)
            for index, column in enumerate(description.columns)
            if column.kept_type != column.type
        ]
        sink = tee.sink(
            writing,
            plan,
            jvm.type_from_json(file_schema(description)),
            f" {' '.join(renamed)} ",
            description.filler_column is not None,
            options,
            str(staged.directory.absolute()),
        )
        tee.extend(session)
        return cls(tee.over(plan, sink), sink)


_tees: PerContext[Any] = PerContext(lambda spark: new_object(spark, _JAVA_CLASS))


class OnePass:
    """What a job does in one pass, see `holdfast.runtime.vertex_runner.TeedVertex`.

    Args:
        spark: the session.
        storage: where results are kept.
        production: of the result.
        description: how it is kept.
        staged: where its partitions are written.
        sink: the driver's end of it, in the JVM.
        dataframe: asks for the rows.
        check: makes sure that the rows that were written are those that were to be.
        known: what is known of the result, given the JVM's plan that has run.
        alone: keeps the result in a job of its own, where no task has had any of its rows to write.
    """

    def __init__(
        self,
        spark: SparkSession,
        storage: IntermediateResultStorage,
        production: Production[Query],
        description: DataSetDescription,
        staged: StagedDataSet,
        sink: Any,
        dataframe: DataFrame,
        check: Callable[[CanonicalNode], None],
        known: Callable[[Any], DataSetDescription],
        alone: Callable[[], KeptDataSet],
    ) -> None:
        self.dataframe = dataframe
        self.seconds = 0.0
        self._cpu_seconds: float | None = None
        self._spark = spark
        self._storage = storage
        self._production = production
        self._description = description
        self._staged = staged
        self._sink = sink
        self._check = check
        self._known = known
        self._alone = alone
        self._started = time.time()

    @contextmanager
    def running(self) -> Iterator[None]:
        """The answer is computed inside; after an error, nothing of what was written stays."""
        purpose = f"keeps {self._staged.dataset_id}: {self._description.computes}"
        self._started = time.time()
        try:
            with (
                measured_cpu(self._spark) as cpu_seconds,
                over_before_clearing(),
                described(self._spark, purpose, added=True),
            ):
                yield
                self._cpu_seconds = cpu_seconds()
        except BaseException:
            self._storage.discard(self._staged)
            raise

    def keep(self) -> KeptDataSet:
        """Publishes what was written, if it is whole.

        Raises:
            NotKeptError: when it isn't, or can't be published.
        """
        try:
            if self._sink.partitions() == 0:
                self._storage.discard(self._staged)
                kept = self._alone()
            else:
                written = self._written()
                self._check(self._production.query.root)
                description = self._known(self._sink.plan())
                spans_machines = self._storage.spans_machines
                kept = self._storage.publish(
                    self._staged, description, written if spans_machines else None
                )
        except BaseException as error:
            self._storage.discard(self._staged)
            if isinstance(error, LocationsIncompleteError):
                raise NotKeptError(Why.FAILED.of(error), incomplete=True) from error
            if isinstance(error, (StorageError, LookupError)):
                raise NotKeptError(Why.FAILED.of(error)) from error
            raise
        self._production.listeners.publish(
            VertexProduced(self._production.dataset_id, kept, cpu_seconds=self._cpu_seconds)
        )
        return kept

    def _written(self) -> tuple[WrittenPartition, ...]:
        """The partitions by index, each as the one attempt says that succeeded in writing it."""
        receipts = [line.split("\t", 4) for line in str(self._sink.receipts()).splitlines()]
        written = sorted(
            (WrittenPartition(int(index), host, int(rows)) for index, host, rows, _, _ in receipts),
            key=attrgetter("index"),
        )
        indices = [each.index for each in written]
        partitions = int(self._sink.partitions())
        expected = range(partitions)
        if partitions < 0 or not set(indices).issuperset(expected):
            raise NotKeptError(Why.NOT_ALL_ROWS.of(), is_expected=True)
        if indices != [*expected]:
            raise NotKeptError(Why.NOT_ONCE.of())
        for index, _, _, _, failure in receipts:
            if failure:
                raise NotKeptError(Why.NOT_WRITTEN.of(index, failure))
        ended = max(int(line[3]) for line in receipts) / _MILLISECONDS
        self.seconds = max(0.0, ended - self._started)
        return tuple(written)

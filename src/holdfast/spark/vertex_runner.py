"""Runs the vertices of a job on Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import LocationsIncompleteError, StorageError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.plan.canonical_plan import CanonicalNode, FileVersion
from holdfast.plan.substitution import find_matches
from holdfast.runtime.vertex_runner import (
    KeptDataLost,
    NotKeptError,
    Reads,
    SubstitutionRefusedError,
)
from holdfast.spark.batch_settings import settings_of_batches
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.failures import broken_seals, is_of_stream_task, names_any, reason
from holdfast.spark.partition_reader import PartitionReader
from holdfast.spark.partition_writer import PartitionWriter, describe
from holdfast.spark.production_steps import ProductionSteps
from holdfast.spark.refusals import is_refusal
from holdfast.spark.written_partitions import WriteJob
from holdfast.storage.intermediate_result_storage import (
    IntermediateResultStorage,
    StagedDataSet,
    WrittenPartition,
)
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet

_LOCAL = "file:"

Write = Callable[[Any, DataSetDescription, StagedDataSet, str], bool]
"""Another way of writing the partitions of a plan that reads nothing kept, on one machine: given
the JVM's plan, what it computes, where the partitions go, and Parquet's name of a codec. It tells
whether it has; otherwise Spark's own writer does."""


class SparkVertexRunner:
    """The engine behind `holdfast.runtime.vertex_runner.VertexRunner`.

    Args:
        spark: the session that runs the vertices.
        bridge: reads and rewrites its plans.
        storage: where results are kept.
        compression: Parquet's name of a codec.
    """

    def __init__(
        self,
        spark: SparkSession,
        bridge: CatalystBridge,
        storage: IntermediateResultStorage,
        compression: str,
    ) -> None:
        self._spark = spark
        self._bridge = bridge
        self._storage = storage
        self._reader = PartitionReader(spark)
        self._writer = PartitionWriter(spark, compression)

    def substituted(self, query: Query, root: CanonicalNode, reads: Reads) -> DataFrame:
        """The query as a DataFrame in which everything kept is read. Runs nothing.

        Raises:
            SubstitutionRefusedError: when Spark doesn't take the plan.
        """
        try:
            plan = self._plan(query, root, reads, below_root=False)
            if plan is not query.plan:
                return self._bridge.dataframe(plan)
        except Exception as error:
            raise SubstitutionRefusedError(reason(error)) from error
        return self._bridge.dataframe(query.plan)

    def produce(
        self,
        query: Query,
        job_id: JobID,
        dataset_id: IntermediateDataSetID,
        name: str,
        reads: Reads,
        write: Write | None = None,
        steps: ProductionSteps | None = None,
    ) -> KeptDataSet:
        """Computes a query and keeps its result.

        Args:
            query: what to compute.
            job_id: whose vertex it is.
            dataset_id: what the result is.
            name: what it computes, for people.
            reads: what is read instead of being computed.
            write: another way of writing it.
            steps: what is done in another way for this production; what it raises over the plan
                that it puts in the place of the query's is raised here.

        Raises:
            NotKeptError: when the result could not be kept: the storage failed, or a source file
                changed since it was listed, so that the rows are not those of the digest.
        """
        description = describe(
            str(dataset_id.hex),
            name,
            query.plan.schema().json(),
            query.root.ordered,
            self._spark.version,
        )
        steps = steps or ProductionSteps(self._storage)
        try:
            plan = self._plan(query, query.root, reads, below_root=True)
        except (PySparkException, Py4JError) as error:
            raise NotKeptError(reason(error)) from error
        plan = steps.prepared(plan)
        try:
            staged = steps.stage(plan, job_id, dataset_id, description)
        except (StorageError, PySparkException, Py4JError) as error:
            raise NotKeptError(reason(error)) from error
        if isinstance(staged, KeptDataSet):
            return staged
        try:
            may_differ = plan is query.plan and not self._storage.spans_machines
            written = None
            if not (write and may_differ and self._written(write, plan, description, staged)):
                written = self._write(
                    steps.written(plan), description, staged, query.root, steps.settings()
                )
            changed = self._changed_source(query.root)
            if changed is not None:
                raise NotKeptError(f"{changed} changed after it was listed")
            kept = steps.publish(staged, description, written)
        except BaseException as error:
            self._storage.discard(staged)
            if isinstance(error, LocationsIncompleteError):
                raise NotKeptError(str(error), incomplete=True) from error
            if isinstance(error, (StorageError, LookupError)):
                raise NotKeptError(str(error)) from error
            # Spark names the directory then too, as the writer is what asks for the rows.
            if is_of_stream_task(error):
                raise
            if names_any(error, [str(staged.directory)]) or is_refusal(error):
                raise NotKeptError(reason(error)) from error
            raise
        finally:
            if self._storage.spans_machines:
                _remove_if_empty(staged.directory)
        return kept

    def _written(
        self, write: Write, plan: Any, description: DataSetDescription, staged: StagedDataSet
    ) -> bool:
        with self._described(description.computes, staged.dataset_id):
            return write(plan, description, staged, self._writer.compression)

    def _write(
        self,
        plan: Any,
        description: DataSetDescription,
        staged: StagedDataSet,
        root: CanonicalNode,
        settings: Mapping[str, str],
    ) -> tuple[WrittenPartition, ...] | None:
        directory, observed = staged.directory, is_observed(root)
        if description.seal is not None:
            settings = {**settings, **settings_of_batches(root)}
        with self._described(description.computes, staged.dataset_id):
            if not self._storage.spans_machines:
                self._writer.write(plan, description, directory, settings, observed=observed)
                return None
            job = WriteJob(self._spark)
            with job.tagged():
                self._writer.write(plan, description, directory, settings, observed=observed)
            return job.written()

    @contextmanager
    def watching(self, kept: Mapping[IntermediateDataSetID, KeptDataSet]) -> Iterator[None]:
        """Tells errors inside that come from reading kept data from those of the query itself.

        Raises:
            KeptDataLost: instead of an error that comes from the loss of one of `kept`.
            SubstitutionRefusedError: instead of one that Spark raises over a plan before it runs
                it. The person's own plan has been analyzed, so its errors of this kind are over.
        """
        try:
            yield
        except (GeneratorExit, NotKeptError, KeptDataLost, SubstitutionRefusedError):
            raise
        except Exception as error:
            damages = {}
            broken = broken_seals(error)
            for dataset_id, dataset in kept.items():
                damage = self._storage.damage(dataset)
                if damage is None and names_any(error, dataset.directories):
                    damage = reason(error)
                if dataset.manifest.dataset.seal in broken:
                    damage = "a batch fails the check of its seal"
                if damage is not None:
                    damages[dataset_id] = damage
            if damages:
                raise KeptDataLost(damages) from error
            if kept and is_refusal(error):
                raise SubstitutionRefusedError(reason(error)) from error
            raise

    def _plan(self, query: Query, root: CanonicalNode, reads: Reads, *, below_root: bool) -> Any:
        replacements = {}
        matches = find_matches(root, lambda node: reads(node) is not None, below_root=below_root)
        for node in matches:
            kept = reads(node)
            if kept is not None:
                replacements[node.handle] = self._reader.plan(
                    kept, query.reading.node(node.handle), node.output
                )
        return self._bridge.substitute(query, replacements)

    @contextmanager
    def _described(self, name: str, dataset_id: IntermediateDataSetID) -> Iterator[None]:
        """Shows in Spark's UI what the vertex's jobs are for."""
        context = self._spark.sparkContext
        before = context.getLocalProperty("spark.job.description")
        context.setLocalProperty("spark.job.description", f"Holdfast keeps {dataset_id}: {name}")
        try:
            yield
        finally:
            context._jsc.setLocalProperty("spark.job.description", before)

    def _changed_source(self, root: CanonicalNode) -> str | None:
        """A file that isn't the version that the plan listed; Spark reads whatever it is now."""
        for file in root.source_files():
            if self._version(file) != file:
                return file[0]
        return None

    def _version(self, file: FileVersion) -> FileVersion | None:
        try:
            # Hadoop's text of a path is no URL: nothing in it is escaped.
            if file[0].startswith(_LOCAL):
                status = os.stat(file[0].removeprefix(_LOCAL))
                # Hadoop counts the modification time in whole milliseconds.
                return (file[0], status.st_size, status.st_mtime_ns // 1_000_000)
            jvm: Any = self._spark.sparkContext._jvm
            path = jvm.org.apache.hadoop.fs.Path(file[0])
            settings = self._spark._jsparkSession.sessionState().newHadoopConf()
            found = path.getFileSystem(settings).getFileStatus(path)
            return (file[0], found.getLen(), found.getModificationTime())
        except Exception:
            return None


def _remove_if_empty(directory: Path) -> None:
    """Removes what Spark's committer leaves on the driver's machine, where no task has written."""
    staging = directory.parent
    with suppress(OSError):
        # Not the directory that all applications share: that is the person's.
        for path in (directory, staging, staging.parent):
            path.rmdir()


def is_observed(root: CanonicalNode) -> bool:
    """Whether somebody waits for metrics that are collected inside the query."""
    return any(node.operator == "CollectMetrics" for node in root.walk())

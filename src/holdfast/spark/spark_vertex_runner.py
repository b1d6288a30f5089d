"""Runs the vertices of a job on Spark."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import LocationsIncompleteError, StorageError, UnsupportedSparkError
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Why
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.substitution import Match, examine
from holdfast.plan.terms import digests
from holdfast.runtime.execution_events import VertexProduced, VertexStarted
from holdfast.runtime.vertex_runner import (
    KeptDataLost,
    NotKeptError,
    Production,
    Reads,
    SubstitutionRefusedError,
)
from holdfast.spark.batch_settings import settings_of_batches
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.dropped_handles import tell_of_dropped_handles
from holdfast.spark.failures import (
    broken_seals,
    is_cancelled,
    is_of_stream_task,
    may_be_of_reading,
    names_any,
    reason,
)
from holdfast.spark.interruptible import over_before_clearing
from holdfast.spark.java_classes import new_object
from holdfast.spark.job_description import described
from holdfast.spark.one_pass import OnePass, TeedRows
from holdfast.spark.partial_loss import LostPartitions
from holdfast.spark.partition_merger import PartitionMerger
from holdfast.spark.partition_reader import PartitionReader, reading_session, why_unreadable
from holdfast.spark.partition_writer import WRITE_SETTINGS, PartitionWriter, describe
from holdfast.spark.plan_errors import is_refusal
from holdfast.spark.production_steps import ProductionSteps
from holdfast.spark.row_layouts import executed_layout, number_of_partitions
from holdfast.spark.session_settings import of_hadoop, session_inputs, session_under
from holdfast.spark.source_versions import SourceVersions
from holdfast.spark.task_costs import measured_cpu
from holdfast.spark.written_partitions import WriteJob
from holdfast.storage.intermediate_result_storage import (
    IntermediateResultStorage,
    StagedDataSet,
    WrittenPartition,
)
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet
from holdfast.storage.partition_directory import write_empty_partitions
from holdfast.storage.row_layout import RowLayout

logger = logging.getLogger(__name__)

_NOTHING: Mapping[int, Any] = {}

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
        merges: small partitions are merged.
    """

    def __init__(
        self,
        spark: SparkSession,
        bridge: CatalystBridge,
        storage: IntermediateResultStorage,
        compression: str,
        *,
        merges: bool = True,
    ) -> None:
        self._spark = spark
        self._bridge = bridge
        self._storage = storage
        self._reader = PartitionReader(spark)
        self._writer = PartitionWriter(spark, compression)
        self._merger = PartitionMerger(spark, self._writer)
        self._merges = merges
        self._sources = SourceVersions(spark)
        self._live: Any = None

    def substituted(self, query: Query, root: CanonicalNode, reads: Reads) -> DataFrame:
        """The query as a DataFrame in which everything kept is read. Runs nothing.

        Raises:
            SubstitutionRefusedError: when Spark doesn't take the plan.
        """

        def made() -> DataFrame:
            return self._substituted(query, root, reads, self._reader)

        matches = [] if query.last_run is None else _matches(root, reads)
        if query.last_run is None or not matches or any(each.in_barrier for each, _ in matches):
            return made()
        read = tuple(
            (each.node.handle, kept.name, kept.directories, kept.manifest.created)
            for each, kept in matches
        )
        return query.last_run.lend(read, made)

    def handed_out(
        self,
        query: Query,
        root: CanonicalNode,
        reads: Reads,
        name: str,
        *,
        is_run_later: bool = False,
    ) -> DataFrame:
        """The query as a DataFrame that goes to where its jobs aren't seen.

        Raises:
            SubstitutionRefusedError: when Spark doesn't take the plan.
        """
        # Whatever is made of a scan, an RDD as well, holds the session that it has been made in.
        session = reading_session(self._spark)
        if self._live is None:
            try:
                self._live = new_object(self._spark, "CollectedObjects")
            except UnsupportedSparkError as error:
                # What it reads could be removed too early, or never.
                raise SubstitutionRefusedError(str(error)) from error
        self._live.watch(session, name)
        reader = PartitionReader(self._spark, session)
        made = self._substituted(query, root, reads, reader, is_part=True)
        return self._listed_later(query, made) if is_run_later else made

    def unsubstituted(self, query: Query) -> DataFrame:
        """The query as a DataFrame in which nothing kept is read. Runs nothing."""
        made = self._substituted(query, query.root, lambda _: None, self._reader)
        return self._listed_later(query, made)

    def _listed_later(self, query: Query, made: DataFrame) -> DataFrame:
        plan = made._jdf.queryExecution().analyzed()
        later = self._bridge.listed_later(query, plan)
        return made if later is plan else self._bridge.dataframe(later)

    def collected(self, thorough: bool) -> list[str]:
        """The names of handed-out plans that nobody has any more; each one once."""
        if self._live is None:
            return []
        if thorough:
            tell_of_dropped_handles(self._spark)
        return str(self._live.gone(thorough)).split()

    def _substituted(
        self,
        query: Query,
        root: CanonicalNode,
        reads: Reads,
        reader: PartitionReader,
        *,
        is_part: bool = False,
    ) -> DataFrame:
        try:
            plan = self._plan(query, root, reads, reader, below_root=False, is_part=is_part)
            if plan is not query.plan:
                return self._bridge.dataframe(plan)
        except SubstitutionRefusedError:
            raise
        except Exception as error:
            raise SubstitutionRefusedError(reason(error)) from error
        if query.dataframe is None or not query.reading.is_as_written:
            return self._bridge.dataframe(query.plan)
        # Of the same DataFrame, Spark has the shuffles that it has run for it before.
        return query.dataframe

    def produce(self, production: Production[Query], write: Write | None = None) -> KeptDataSet:
        """Computes a query and keeps its result, see `VertexRunner.produce`.

        Args:
            production: what to compute.
            write: another way of writing it.

        Raises:
            NotKeptError: when the result could not be kept.
        """
        production.listeners.publish(VertexStarted(production.dataset_id, production.name))
        with measured_cpu(self._spark) as cpu_seconds:
            completed = self._completed(production)
            kept = completed or self.keep(production, write)
            # A job that answers on the way still runs, and its tasks do more than that.
            taken = None if write or completed else cpu_seconds()
        left = production.left
        over = None if completed is None or left is None else taken_over(left, completed)
        production.listeners.publish(
            VertexProduced(production.dataset_id, kept, cpu_seconds=taken, taken_over=over)
        )
        return kept

    def _completed(self, production: Production[Query]) -> KeptDataSet | None:
        """What is left of a dataset, with its lost partitions produced; None: all is to be."""
        left = production.left
        layout = None if left is None else left.manifest.dataset.layout
        if left is None or layout is None or not is_distributed_alike(production.query.root):
            return None
        indices = [partition.index for partition in left.manifest.partitions]
        remainder = layout.remainder(indices, self._storage.intact(left))
        if remainder is None:
            return None
        steps = LostPartitions(
            self._spark, self._storage, left, layout, remainder, _read(production)
        )
        try:
            return self.keep(production, steps=steps)
        except NotKeptError as error:
            if error.incomplete:
                # Tasks ran where no task executor is, as they would again.
                raise
            why = str(error)
        except Exception as error:
            if not self.may_be_answered(error):
                raise
            # Should the whole fail as well, its error is the one to be seen.
            why = reason(error)
        logger.debug("%s is produced as a whole: %s", production.dataset_id, why)
        return None

    def keep(
        self,
        production: Production[Query],
        write: Write | None = None,
        steps: ProductionSteps | None = None,
    ) -> KeptDataSet:
        """Computes a query and keeps its result; publishes nothing.

        Args:
            production: what to compute.
            write: another way of writing it.
            steps: what is done in another way for this production; what it raises over the plan
                that it puts in the place of the query's is raised here.

        Raises:
            NotKeptError: when the result could not be kept: the storage failed, or a source file
                or a setting changed, so that the rows are not those of the digest.
        """
        query, inputs, dataset_id = production.query, production.inputs, production.dataset_id
        description = self._description(production)
        steps = steps or ProductionSteps(self._storage)
        try:
            session = self._session(query.root, inputs, description, steps.settings())
            read = self._plan(query, query.root, production.reads, self._reader, below_root=True)
            detached = self._bridge.detached(read, session)
        except (PySparkException, Py4JError, UnsupportedSparkError) as error:
            raise NotKeptError(Why.FAILED.of(reason(error))) from error
        plan = steps.prepared(detached)
        try:
            if plan is not detached:
                # What was added to leaves, the optimizer has taken out.
                plan = self._bridge.detached(plan, session)
            staged = steps.stage(plan, session, production.job_id, dataset_id, description)
        except (StorageError, PySparkException, Py4JError) as error:
            raise NotKeptError(Why.FAILED.of(reason(error))) from error
        if isinstance(staged, KeptDataSet):
            return staged
        try:
            may_differ = read is query.plan and not self._storage.spans_machines
            written = run = None
            with over_before_clearing():
                if not (write and may_differ and self._written(write, plan, description, staged)):
                    run, written = self._write(steps.written(plan), session, description, staged)
            self._check_inputs(query.root, session, inputs)
            if steps.writes_everything:
                description = self._known(run, session, staged, description, production)
            kept = steps.publish(staged, description, written)
        except BaseException as error:
            self._storage.discard(staged)
            if isinstance(error, LocationsIncompleteError):
                raise NotKeptError(Why.FAILED.of(error), incomplete=True) from error
            if isinstance(error, (StorageError, LookupError)):
                raise NotKeptError(Why.FAILED.of(error)) from error
            # Spark names the directory then too, as the writer is what asks for the rows.
            if is_of_stream_task(error):
                raise
            if names_any(error, [staged.location]) or is_refusal(error):
                raise NotKeptError(Why.FAILED.of(reason(error))) from error
            raise
        finally:
            if self._storage.spans_machines:
                _remove_if_empty(staged.directory)
        return kept

    def teed(
        self, production: Production[Query], query: Query, root: CanonicalNode
    ) -> OnePass | None:
        """A query that keeps the result of one of its parts while it is answered.

        It runs in a session of its own under the job's settings, as productions do, and the part is
        a fresh copy. See `holdfast.runtime.vertex_runner.HandingOutRunner.teed`.

        Raises:
            NotKeptError: when the result can't be kept.
        """
        description = self._description(production)
        part, inputs = production.query, production.inputs
        if description.seal is not None:
            return None
        try:
            session = session_under(self._spark, inputs)
            writing = session_under(self._spark, inputs, WRITE_SETTINGS)
            read = self._plan(part, part.root, production.reads, self._reader, below_root=True)
            detached = self._bridge.detached(read, session)
            if detached.equals(part.plan):
                return None
            staged = self._storage.stage(production.job_id, production.dataset_id)
        except StorageError as error:
            raise NotKeptError(Why.FAILED.of(reason(error))) from error
        except (PySparkException, Py4JError, UnsupportedSparkError) as error:
            logger.debug("%s is not kept in one pass: %s", production.dataset_id, reason(error))
            return None
        try:
            rows = TeedRows.of(
                self._spark, detached, session, writing, self._writer, description, staged
            )
            plan = self._plan(
                query,
                root,
                production.reads,
                self._reader,
                below_root=False,
                made={part.root.handle: rows.plan},
            )
            dataframe = self._bridge.dataframe(plan, session)
        except BaseException as error:
            self._storage.discard(staged)
            if isinstance(error, (PySparkException, Py4JError, UnsupportedSparkError, OSError)):
                logger.debug("%s is not kept in one pass: %s", production.dataset_id, reason(error))
                return None
            raise
        production.listeners.publish(VertexStarted(production.dataset_id, production.name))
        return OnePass(
            self._spark,
            self._storage,
            production,
            description,
            staged,
            rows.sink,
            dataframe,
            lambda root: self._check_inputs(root, session, inputs),
            lambda plan: self._known(plan, session, staged, description, production),
            lambda: self.keep(production),
        )

    def _description(self, production: Production[Query]) -> DataSetDescription:
        root = production.query.root
        return describe(
            str(production.dataset_id.hex),
            production.name,
            production.query.plan.schema().json(),
            root.ordered,
            self._spark.version,
            digests(root.columns),
            ambiguous=root.ambiguous,
        )

    def _check_inputs(self, root: CanonicalNode, session: Any, inputs: SessionInputs) -> None:
        """Makes sure that what was read is what the digest stands for."""
        changed = self._sources.changed(root.source_files())
        if changed is not None:
            raise NotKeptError(Why.SOURCE_CHANGED.of(changed))
        self._check_settings(session, inputs)

    def _written(
        self, write: Write, plan: Any, description: DataSetDescription, staged: StagedDataSet
    ) -> bool:
        with described(self._spark, f"keeps {staged.dataset_id}: {description.computes}"):
            return write(plan, description, staged, self._writer.compression)

    def _session(
        self,
        root: CanonicalNode,
        inputs: SessionInputs,
        description: DataSetDescription,
        settings: Mapping[str, str],
    ) -> Any:
        """The JVM's session that runs a production: one of its own, whose settings stay."""
        if is_observed(root):
            # Spark reports what it has collected in the user's own session alone.
            self._check_settings(self._spark._jsparkSession, inputs)
            return self._spark._jsparkSession
        if description.seal is not None:
            settings = {**settings, **settings_of_batches(root)}
        return session_under(self._spark, inputs, {**WRITE_SETTINGS, **settings})

    def _check_settings(self, session: Any, inputs: SessionInputs) -> None:
        """Makes sure that what a production shares with others is set as its job has found it."""
        shared = session == self._spark._jsparkSession
        now = session_inputs(self._spark)
        if now != inputs if shared else of_hadoop(now) != of_hadoop(inputs):
            raise NotKeptError(Why.SETTING_CHANGED.of())

    def _write(
        self, plan: Any, session: Any, description: DataSetDescription, staged: StagedDataSet
    ) -> tuple[Any, tuple[WrittenPartition, ...] | None]:
        """Gives the plan as it has run, and what the tasks say where the storage asks for it."""
        with described(self._spark, f"keeps {staged.dataset_id}: {description.computes}"):
            if not self._storage.spans_machines:
                return self._writer.write(plan, session, description, staged.location), None
            job = WriteJob(self._spark)
            with job.tagged():
                run = self._writer.write(plan, session, description, staged.location)
            return run, job.written()

    def _known(
        self,
        plan: Any,
        session: Any,
        staged: StagedDataSet,
        description: DataSetDescription,
        production: Production[Query],
    ) -> DataSetDescription:
        """What is known of a result once its rows are written.

        Raises:
            NotKeptError: when they can't be read as they were written.
        """
        # What other machines have written isn't seen from here.
        if not self._storage.spans_machines:
            why = why_unreadable(self._spark, session, staged.location, description)
            if why is not None:
                raise NotKeptError(Why.FAILED.of(why))
        layout = self._layout(plan, session, description, production)
        # A stream's partitions are those of its subtasks.
        if not self._storage.spans_machines and description.seal is None:
            inputs = production.inputs
            groups = self._merger.merge(staged, description, inputs) if self._merges else ()
            if groups:
                layout = None if layout is None else layout.merged(groups)
            else:
                self._write_empty(plan, staged)
        return description.model_copy(update={"layout": layout})

    def _write_empty(self, plan: Any, staged: StagedDataSet) -> None:
        """Writes the partitions without rows, for which Spark's writer leaves no files."""
        if plan is None:
            return
        try:
            write_empty_partitions(staged.directory, number_of_partitions(self._spark, plan))
        except (OSError, PySparkException, Py4JError, UnsupportedSparkError) as error:
            logger.debug("%s has no files for empty partitions: %s", staged.name, reason(error))

    def _layout(
        self,
        run: Any,
        session: Any,
        description: DataSetDescription,
        production: Production[Query],
    ) -> RowLayout | None:
        if description.is_ordered or description.seal is not None:
            return None
        if run is None or not is_distributed_alike(production.query.root):
            return None
        try:
            return executed_layout(self._spark, run, session, _read(production))
        except (PySparkException, Py4JError) as error:
            # It is there; should it be lost, all of it is produced again.
            logger.debug("the layout of %s isn't known: %s", production.dataset_id, reason(error))
            return None

    @contextmanager
    def answering(
        self, name: str, kept: Mapping[IntermediateDataSetID, KeptDataSet]
    ) -> Iterator[None]:
        """Says in Spark's UI what the answer of a job is read from, see `VertexRunner.answering`.

        Args:
            name: the action.
            kept: what it reads.
        """
        if not kept:
            yield
            return
        read = ", ".join(map(str, kept))
        with described(self._spark, f"answers {name}, reads {read}", added=True):
            yield

    @contextmanager
    def watching(self, kept: Mapping[IntermediateDataSetID, KeptDataSet]) -> Iterator[None]:
        """Tells errors inside that come from reading kept data from those of the query itself.

        Raises:
            KeptDataLost: instead of an error that comes from the loss of one of `kept`.
            SubstitutionRefusedError: instead of one that Spark raises over a plan before it runs
                it, as the plan that the user wrote has been analyzed and raises none; and instead
                of one that may come from reading what was kept, though nothing is missing of it.
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
            if kept and may_be_of_reading(error):
                raise SubstitutionRefusedError(reason(error), tuple(kept)) from error
            raise

    def may_be_answered(self, error: Exception) -> bool:
        """Whether a query may have an answer although a part of it, computed alone, has none.

        Spark computes neither columns nor rows that a query has no use for, and so meets no error
        that is in these. What a stream's functions raise ends the job at once.
        """
        of_query = isinstance(error, (PySparkException, Py4JError))
        return of_query and not is_cancelled(error) and not is_of_stream_task(error)

    def _plan(
        self,
        query: Query,
        root: CanonicalNode,
        reads: Reads,
        reader: PartitionReader,
        *,
        below_root: bool,
        is_part: bool = False,
        made: Mapping[int, Any] = _NOTHING,
    ) -> Any:
        """The query's plan with kept results in it.

        Args:
            is_part: what is above the plan isn't known, and may depend on its partitions.
        """
        replacements = {}
        for match in examine(
            root,
            lambda node: node.handle in made or reads(node) is not None,
            below_root=below_root,
        ):
            if match.node.handle in made:
                replacements[match.node.handle] = made[match.node.handle]
                continue
            kept = reads(match.node)
            if kept is None or match.obstacle is not None:
                continue
            if match.in_barrier:
                self._check_barrier(kept)
            node = _below_hints(match.node)
            replacements[node.handle] = reader.plan(
                kept,
                query.reading.node(node.handle),
                node.output,
                digests(node.columns),
                as_partitioned=is_part or match.partitions_seen,
            )
        return self._bridge.substitute(query, replacements)

    def _check_barrier(self, kept: KeptDataSet) -> None:
        """Makes sure that a barrier stage runs over kept partitions as over those computed.

        Raises:
            SubstitutionRefusedError: when it may not.
        """
        indices = [partition.index for partition in kept.manifest.partitions]
        if indices != list(range(len(indices))):
            raise SubstitutionRefusedError(
                "a barrier stage has one task per partition, and not every partition has a file"
            )
        context: Any = self._spark.sparkContext._jsc.sc()
        profile = context.resourceProfileManager().defaultResourceProfile()
        slots = context.maxNumConcurrentTasks(profile)
        if len(indices) > slots:
            raise SubstitutionRefusedError(
                f"a barrier stage over {len(indices)} kept partitions has only {slots} slots"
            )


def _below_hints(node: CanonicalNode) -> CanonicalNode:
    """The node that aliases and hints stand for: hints say how it is joined."""
    while len(node.children) == 1:
        (child,) = node.children
        if child.operator != node.operator or child.rows is not node.rows:
            break
        if child.columns is not node.columns:
            break
        node = child
    return node


def _matches(
    root: CanonicalNode, reads: Reads, *, below_root: bool = False
) -> list[tuple[Match, KeptDataSet]]:
    """The nodes that are read instead of being computed, and what is read for each."""
    found = [
        (match, reads(match.node))
        for match in examine(root, lambda node: reads(node) is not None, below_root=below_root)
        if match.obstacle is None
    ]
    return [(match, kept) for match, kept in found if kept is not None]


def _remove_if_empty(directory: Path) -> None:
    """Removes what Spark's committer leaves on the driver's machine, where no task has written."""
    staging = directory.parent
    with suppress(OSError):
        # Not the directory that all applications share: that is the person's.
        for path in (directory, staging, staging.parent):
            path.rmdir()


def is_distributed_alike(root: CanonicalNode) -> bool:
    """Whether another run of a plan may give each partition the rows that it has.

    What is observed is to be observed over all rows.
    """
    alike = not (root.ambiguous or root.ordered or root.layout is not None)
    return alike and not root.all_doubts() and not is_observed(root)


def taken_over(left: KeptDataSet, completed: KeptDataSet) -> int:
    """How many partitions of a dataset are those that were left of it."""
    there = {(partition.version, partition.footer) for partition in left.manifest.partitions}
    return sum(
        (partition.version, partition.footer) in there
        for partition in completed.manifest.partitions
    )


def _read(production: Production[Query]) -> tuple[KeptDataSet, ...]:
    """The kept results that a production reads, or may read."""
    root = production.query.root
    below = (production.reads(node) for node in root.walk() if node is not root)
    return tuple({id(kept): kept for kept in below if kept is not None}.values())


def is_observed(root: CanonicalNode) -> bool:
    """Whether somebody waits for metrics that are collected inside the query."""
    return any(node.operator == "CollectMetrics" for node in root.walk())

"""Runs the jobs of streams on Spark: what the API of streams stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from holdfast.functions.sink import FileSink
from holdfast.graph.stream.intermediate_dataset_descriptor import IntermediateDataSetDescriptor
from holdfast.graph.stream.stream_graph import SinkWrite
from holdfast.graph.stream.stream_graph_generator import StreamGraphGenerator
from holdfast.graph.stream.stream_job_graph_generator import StreamJobGraphGenerator
from holdfast.graph.stream.transformations import (
    CacheTransformation,
    PhysicalTransformation,
    SinkTransformation,
    Transformation,
)
from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.runtime.job_master import JobMaster, JobRequest
from holdfast.runtime.job_result import JobResult
from holdfast.runtime.recovery.job_sink import write_once
from holdfast.runtime.vertex_runner import VertexRunner
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.spark.batch_settings import settings_of_batches
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.recovery.recoverable_jobs import RecoverableJobs
from holdfast.spark.recovery.started_job import StartedJob, done_before
from holdfast.spark.session_settings import session_inputs, session_under
from holdfast.spark.spark_vertex_runner import SparkVertexRunner
from holdfast.spark.streams.cached_streams import CachedStreams, SharedStream, caches_before
from holdfast.spark.streams.collected_records import CollectedRecords
from holdfast.spark.streams.compiler import Flow, KeptRead, StreamCompiler
from holdfast.spark.streams.file_job_sink import job_sink_of
from holdfast.spark.streams.sink_formats import LINES
from holdfast.spark.streams.sink_runs import CollectRun, SinkRun, is_on_this_machine, run_of
from holdfast.spark.streams.stream_job_digest import stream_identity
from holdfast.spark.streams.stream_sealing import StreamSealing
from holdfast.spark.streams.table_formats import RowOutput
from holdfast.spark.streams.task_errors import told_as_themselves
from holdfast.spark.streams.tee_job import TeeJob
from holdfast.spark.streams.tee_plan import tee_plan
from holdfast.spark.streams.teeing_runner import TeeingVertexRunner

__all__ = ["StreamExecutor"]

_LINE_COLUMNS = StructType([StructField(LINES, StringType())])


class StreamExecutor:
    """Runs streams on Spark. Safe for use by several threads, one job each.

    Source: FLIP-205, "DataStream -> Stream Graph" to "Runtime".

    Args:
        spark: the session.
        bridge: reads and rewrites its plans.
        manager: what is cached and what is kept.
        master: runs jobs.
        sealing: what the batches of cached streams are sealed with.
        recoverable: runs them so that they outlive their driver; None where they don't.
    """

    def __init__(
        self,
        spark: SparkSession,
        bridge: CatalystBridge,
        manager: CacheServiceManager[Query],
        master: JobMaster[Query, DataFrame],
        sealing: StreamSealing,
        recoverable: RecoverableJobs | None = None,
    ) -> None:
        self._spark = spark
        self._bridge = bridge
        self._master = master
        self._recoverable = recoverable
        self._caches = CachedStreams(
            spark,
            bridge,
            manager,
            sealing=sealing,
            blocking=recoverable is not None,
        )

    def execute(
        self, job_name: str, sinks: Sequence[SinkTransformation], default_parallelism: int
    ) -> JobResult:
        """Runs sinks as one job.

        What is lost of kept data is computed again, and sinks that have not ended by then are run
        again. What user functions raise is raised, once.

        Args:
            job_name: what the person calls it.
            sinks: at least one.
            default_parallelism: of what has none of its own.

        Raises:
            NoSinksError: when there are no sinks.
            StreamTaskError: what a task has failed with: OperatorFailedError where a person's
                function has raised.
        """
        with told_as_themselves(), ExitStack() as stack:
            flows, _, shared = self._flows(sinks, default_parallelism)
            runs: list[SinkRun] = []
            frames = []
            for name, sink, flow in flows:
                run = run_of(self._spark, sink, name)
                stack.callback(run.close)
                runs.append(run)
                frames.append(flow.to(run.output, _LINE_COLUMNS))
            temporary = stack.enter_context(self._caches.sharing(shared, sinks))
            request = self._request(job_name, self._united(frames))
            targets = self._targets(flows)
            with self._started(request, flows, temporary, targets) as job:
                result = self._run(job, runs, targets)
        self._caches.refresh(sinks)
        return _without(result, temporary)

    def _run(
        self, job: StartedJob, runs: Sequence[SinkRun], targets: Sequence[DirectorySink | None]
    ) -> JobResult:
        """Runs the sinks of a job that have not ended in an earlier start of it."""
        waiting = [] if job.already_done else list(range(len(runs)))

        def act(substituted: DataFrame) -> None:
            parts = self._parts(substituted, job.request, len(runs))
            while waiting:
                index = waiting[0]
                write = partial(runs[index].run, parts[index])
                target = targets[index]
                if target is None:
                    write()
                else:
                    write_once(target, job.sink_start, job.check, write)
                del waiting[0]

        if not waiting:
            return done_before(job)
        # What has been written can't be taken back, so that nothing is checked afterwards.
        _, result = job.master.run(job.request, act, before_retry=lambda: None)
        return result

    def collect(
        self,
        transformation: Transformation,
        job_name: str,
        default_parallelism: int,
        on_result: Callable[[JobResult], object],
    ) -> CollectedRecords:
        """A stream's records, one by one. The job starts with the first, and ends with `close()`.

        Args:
            transformation: the stream.
            job_name: what the person calls the job.
            default_parallelism: of what has none of its own.
            on_result: told how the job went, once all records have been taken.
        """
        parallelism = _parallelism(transformation)
        sink = SinkTransformation(transformation, None, "Collect", parallelism)
        return CollectedRecords(self._collected(sink, job_name, default_parallelism, on_result))

    def _collected(
        self,
        sink: SinkTransformation,
        job_name: str,
        default_parallelism: int,
        on_result: Callable[[JobResult], object],
    ) -> Iterator[Any]:
        with told_as_themselves(), ExitStack() as stack:
            ((_, _, flow),), compiler, shared = self._flows([sink], default_parallelism)
            run = CollectRun(self._spark)
            stack.callback(run.close)
            temporary = stack.enter_context(self._caches.sharing(shared, [sink]))
            frame = flow.to(run.output, _LINE_COLUMNS)
            request = self._request(job_name, frame)
            job = stack.enter_context(self._started(request, [("", None, flow)], temporary, []))
            request, master = job.request, job.master
            tee = None
            if self._recoverable is None:
                tee = self._tee(request, compiler.kept_reads, run)
            if tee is not None:
                stack.callback(tee.close)
                master = master.with_runner(lambda runner: _teeing(runner, tee))

            def act(substituted: DataFrame) -> Iterator[Any]:
                if tee is not None and tee.running is not None:
                    return tee.records()
                return run.records(self._parts(substituted, request, 1)[0])

            records = master.stream(request, act)
            with closing(records):  # type: ignore[type-var]
                for record, result in records:
                    if result is None:
                        yield record
            assert result is not None
        self._caches.refresh([sink])
        on_result(_without(result, temporary))

    # -- caches -----------------------------------------------------------------------------------

    def invalidate(self, cache: CacheTransformation, default_parallelism: int) -> None:
        """Drops what is kept of a stream; the next job looks at its sources anew, and keeps it.

        Args:
            cache: the stream.
            default_parallelism: of what has none of its own.
        """
        self._caches.invalidate(cache, default_parallelism)

    def forget(self, cache: CacheTransformation) -> None:
        """Drops what is kept of a stream, which is no longer cached.

        Args:
            cache: the stream.
        """
        self._caches.forget(cache)

    def prolong(self, cache: CacheTransformation, lifetime: float | None) -> None:
        """A cached stream is to stay for so long after its last use, or for longer.

        Args:
            cache: the stream.
            lifetime: in seconds; None: as long as the program runs.
        """
        self._caches.prolong(cache, lifetime)

    def descriptor(self, cache: CacheTransformation) -> IntermediateDataSetDescriptor | None:
        """How to read a stream, if it is kept at this moment.

        Args:
            cache: the stream.
        """
        return self._caches.descriptor(cache)

    def refresh(self, transformations: Iterable[Transformation]) -> None:
        """Tells each cache among the transformations, and before them, what is kept of it.

        Args:
            transformations: where to begin.
        """
        self._caches.refresh(transformations)

    # -- tables -----------------------------------------------------------------------------------

    def to_dataframe(
        self, transformation: Transformation, schema: StructType | str, default_parallelism: int
    ) -> DataFrame:
        """A table of a stream's records. Runs nothing.

        Args:
            transformation: the stream.
            schema: the table's columns.
            default_parallelism: of what has none of its own.
        """
        columns = _columns_of(schema)
        parallelism = _parallelism(transformation)
        sink = SinkTransformation(transformation, None, "Table", parallelism)
        ((_, _, flow),), _, _ = self._flows([sink], default_parallelism)
        return flow.to(RowOutput(columns.json()), columns)

    # -- jobs -------------------------------------------------------------------------------------

    def _flows(
        self, sinks: Sequence[SinkTransformation], default_parallelism: int
    ) -> tuple[list[tuple[str, object, Flow]], StreamCompiler, list[SharedStream]]:
        """For each sink its name, the sink, and the pass of which it is the end."""
        for cache in caches_before(sinks):
            self._caches.compile(cache, default_parallelism)
        self._caches.refresh(sinks)
        graph = StreamJobGraphGenerator(
            StreamGraphGenerator(default_parallelism, sinks).generate()
        ).generate()
        compiler, shared = self._caches.compiler(graph, default_parallelism)
        flows = [
            (vertex.tail.name, vertex.tail.what.sink, compiler.flow(vertex))
            for vertex in graph.vertices
            if isinstance(vertex.tail.what, SinkWrite)
        ]
        return flows, compiler, shared

    def _targets(self, flows: Sequence[tuple[str, object, Flow]]) -> list[DirectorySink | None]:
        """For each sink what publishes its records exactly once, where jobs are recovered."""
        if self._recoverable is None:
            return [None] * len(flows)
        return [
            job_sink_of(self._spark, sink, name, ordinal) if isinstance(sink, FileSink) else None
            for ordinal, (name, sink, _) in enumerate(flows)
        ]

    def _started(
        self,
        request: JobRequest[Query],
        flows: Sequence[tuple[str, object, Flow]],
        temporary: Iterable[IntermediateDataSetID],
        targets: Iterable[DirectorySink | None],
    ) -> AbstractContextManager[StartedJob]:
        """Begins a job, or goes on with it."""
        if self._recoverable is None:
            return nullcontext(StartedJob.unrecorded(request, self._master))
        identity = stream_identity(
            self._bridge, request.inputs, [(sink, flow) for _, sink, flow in flows], temporary
        )
        sinks = [target for target in targets if target is not None]
        return self._recoverable.started(request, sinks=sinks, stream=identity)

    def _tee(
        self, request: JobRequest[Query], reads: Iterable[KeptRead], run: CollectRun
    ) -> TeeJob | None:
        """How the job can answer while it keeps what it is the first to need."""
        if not is_on_this_machine(self._spark):
            return None
        plan = tee_plan(
            request.root, reads, self._caches.to_be_kept(request.inputs), self._caches.is_cached
        )
        if plan is None:
            return None
        return TeeJob(
            self._spark,
            self._bridge,
            request,
            plan,
            run,
            lambda frame: self._parts(frame, request, 1)[0],
        )

    def _request(self, job_name: str, frame: DataFrame) -> JobRequest[Query]:
        query = self._bridge.query(frame)
        return JobRequest(job_name, query, query.root, session_inputs(self._spark))

    def _united(self, frames: list[DataFrame]) -> DataFrame:
        """One query that holds those of all sinks, each as a child of its root."""
        if len(frames) == 1:
            return frames[0]
        jvm = JvmMembers.of(self._spark)
        plans = [frame._jdf.queryExecution().analyzed() for frame in frames]
        return self._bridge.dataframe(jvm.union(jvm.to_seq(plans), False, False))

    def _parts(
        self, substituted: DataFrame, request: JobRequest[Query], count: int
    ) -> list[DataFrame]:
        """The queries of the sinks, as they are to be run."""
        plan = substituted._jdf.queryExecution().analyzed()
        plans = [plan]
        if count > 1:
            plans = [plan.children().apply(index) for index in range(count)]
        jvm = JvmMembers.of(self._spark)
        session = session_under(self._spark, request.inputs, settings_of_batches(request.root))
        return [DataFrame(jvm.of_rows(session, each), self._spark) for each in plans]


def _columns_of(schema: StructType | str) -> StructType:
    """A table's columns, as Spark takes them: a single type is a table of one column."""
    parsed = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    if isinstance(parsed, StructType):
        return parsed
    return StructType([StructField("value", parsed)])


def _teeing(runner: VertexRunner[Query, DataFrame], tee: TeeJob) -> VertexRunner[Query, DataFrame]:
    """A runner that may answer by the tee; another engine's stays as it is."""
    return TeeingVertexRunner(runner, tee) if isinstance(runner, SparkVertexRunner) else runner


def _parallelism(transformation: Transformation) -> int | None:
    """The parallelism at which nothing moves on the way out of a stream."""
    while not isinstance(transformation, PhysicalTransformation):
        if isinstance(transformation, CacheTransformation) and transformation.descriptor:
            return transformation.descriptor.parallelism
        transformation = transformation.inputs[0]
    return transformation.parallelism


def _without(result: JobResult, temporary: frozenset[IntermediateDataSetID]) -> JobResult:
    """The result without what was kept for the job alone."""
    if not temporary:
        return result
    graph = result.execution_graph
    kept = graph.persistent_result_partitions
    return replace(
        result,
        execution_graph=replace(
            graph,
            persistent_result_partitions=replace(
                kept,
                descriptors={
                    dataset_id: partitions
                    for dataset_id, partitions in kept.descriptors.items()
                    if dataset_id not in temporary
                },
                incomplete=kept.incomplete - temporary,
            ),
        ),
    )

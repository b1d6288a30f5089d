"""The entry point: creates tables and streams, and runs their jobs."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark import SparkContext, StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame as ParentDataFrame
from pyspark.sql import Row, SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from holdfast.advice.asked_sources import AskedSources
from holdfast.advice.query_history import QueryHistory
from holdfast.api import tables_of_sessions
from holdfast.api.cached_data_set import CachedDataSets, cached_data_set
from holdfast.api.cached_table import CachedTable
from holdfast.api.call_site import call_site
from holdfast.api.context import RetryRefused
from holdfast.api.explained import ExplainedPart, Fate
from holdfast.api.followed_caches import FollowedCaches
from holdfast.api.implicit_cache import ImplicitCache
from holdfast.api.interrupts import InterruptibleAction, interruptible_rows
from holdfast.api.job_execution_result import JobExecutionResult
from holdfast.api.recurring_results import Ran, ReadLater
from holdfast.api.safe_points import DroppableRows, releasing, work_off
from holdfast.api.session_queries import SessionQueries
from holdfast.api.sharing import result_book
from holdfast.api.storage import task_executor_storage
from holdfast.api.stream_environment import StreamEnvironment
from holdfast.api.stream_program import StreamProgram
from holdfast.api.table import Table
from holdfast.api.table_session import (
    TableSession,
    become_plain_session,
    become_table_session,
    plain_session,
    session_over,
    table_session,
)
from holdfast.config import (
    INTERMEDIATE_RESULT_COMPRESSION,
    INTERMEDIATE_RESULT_MERGE_PARTITIONS,
    INTERMEDIATE_RESULT_VERIFY_FRACTION,
    JOB_RECOVERY_ENABLED,
    SPARK_PREFIX,
    Configuration,
    check_values,
)
from holdfast.errors import (
    EnvironmentClosedError,
    KeptPartitionLostError,
    NotADataFrameError,
    SessionStoppedError,
    UnsupportedPlanError,
    UnsupportedSessionError,
    UnsupportedSparkError,
    UnsupportedTypeError,
)
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.lazy_module import LazyModule
from holdfast.older_python import add_note
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.difference import Compared
from holdfast.plan.reasons import Reason, Why, sentences
from holdfast.plan.result_label import result_label
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.substitution import examine, find_matches
from holdfast.plan.summary import summarize
from holdfast.quiet_logs import ALEMBIC, quiet_py4j, unheard
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.runtime.execution_graph import ExecutionVertex
from holdfast.runtime.job_master import JobMaster, JobRequest
from holdfast.runtime.job_result import JobResult
from holdfast.runtime.partitions import BlockingPersistentResultPartitionMeta
from holdfast.runtime.recovery.job_sink import JobSink
from holdfast.runtime.result_book import KeptResult
from holdfast.runtime.saved_time import NeededPart, saved_seconds
from holdfast.runtime.verification import Verification
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.runtime.vertex_runner import KeptDataLost
from holdfast.runtime.wanted import CachedComputation
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.compatibility import check
from holdfast.spark.failures import is_cancelled, last_error_logged
from holdfast.spark.interruptible import is_interrupt
from holdfast.spark.keepable_types import check_keepable, is_storable_by_spark
from holdfast.spark.known_plans import KnownPlans
from holdfast.spark.live_shuffles import WatchedQueries
from holdfast.spark.local_session import local_session
from holdfast.spark.plan_reader import PlanReader
from holdfast.spark.plans.last_step import last_step
from holdfast.spark.plans.needed_part import needed_part
from holdfast.spark.plans.possible_parts import PossibleParts
from holdfast.spark.plans.shapes import shapes
from holdfast.spark.plans.stored_by_spark import StoredBySpark
from holdfast.spark.program_environment import program_environment
from holdfast.spark.query_rule import Run
from holdfast.spark.row_comparison import SparkResultVerifier
from holdfast.spark.session_settings import session_inputs, settings_below
from holdfast.spark.source_versions import SourceAccess, SourceVersions
from holdfast.spark.spark_vertex_runner import SparkVertexRunner
from holdfast.storage.intermediate_result_storage import IntermediateResultStorage

if TYPE_CHECKING:
    from holdfast.api import page, recovery, stream_keys
    from holdfast.spark.recovery import job_engine
    from holdfast.spark.streams import executor, stream_sealing
else:
    # Few programs have streams, or jobs that are recovered.
    page = LazyModule("holdfast.api.page")
    recovery = LazyModule("holdfast.api.recovery")
    stream_keys = LazyModule("holdfast.api.stream_keys")
    job_engine = LazyModule("holdfast.spark.recovery.job_engine")
    executor = LazyModule("holdfast.spark.streams.executor")

T = TypeVar("T")

# What the first job that keeps a result would have to wait for.
_NEEDED_TO_KEEP = ("holdfast.catalog.catalog", "alembic.command", "pyarrow.parquet")
# Of past queries, what recurs is looked for in the last ones.
_MOST_PAST = 1_000
# Queries that read the same again are measured once.
_MOST_NEEDED = 100
# More that is cached is not named where a plan reads nothing.
_MOST_FIELDS = 25
_MOST_NAMED = 5

logger = logging.getLogger(__name__)


class Environment(StreamEnvironment):
    """The entry point to Holdfast: creates Tables and streams, runs and caches their jobs.

    With `execution.batch.job-recovery.enabled`, a killed program that is restarted resumes its jobs
    where they stopped. `close()`, or the end of the program, then removes their records. A job
    whose program has been restarted meanwhile ends with `StaleEpochError`.

    Source: FLIP-36, phase 1 (the TableEnvironment); FLIP-383.

    Args:
        spark: the session to use; if none is given, the active one, else a new one that `close()`
            stops, with the master that Spark is configured with, or `local[*]`.
        config: values by key, see the table in the README. They take precedence over Spark
            configuration under `spark.holdfast.`.

    Raises:
        ConfigurationError: when a key is unknown, a value is invalid, or job recovery is enabled
            without a `high-availability.storageDir`.
        SessionStoppedError: when `spark` has been stopped.
        UnsupportedSessionError: when `spark` is a Spark Connect session.
        StorageError: when the directory for kept results, or for job records, can't be used.

    Example:
        >>> from holdfast import Environment
        >>> env = Environment(spark)
        >>> hot = env.from_dataframe(spark.range(100)).groupBy((F.col("id") % 7).alias("k")).count()
        >>> hot = hot.cache()
        >>> hot.count(), hot.where("k > 3").count()
        (7, 3)
        >>> env.close()
    """

    def __init__(
        self, spark: SparkSession | None = None, config: Mapping[str, Any] | None = None
    ) -> None:
        # Before Spark is started, which takes seconds.
        check_values(config or {})
        # Another thread has no active session, although there may be one to borrow.
        self._owns_session = spark is None and SparkContext._active_spark_context is None
        self.spark = local_session() if spark is None else spark
        if not hasattr(self.spark, "_jsparkSession"):
            raise UnsupportedSessionError(f"a {type(self.spark).__module__} session")
        if self.spark.sparkContext._jsc is None:
            raise SessionStoppedError()
        self.configuration = Configuration.merged(
            settings_below(self.spark, SPARK_PREFIX), config or {}
        )
        tables_of_sessions.install()
        quiet_py4j()
        self._main = self
        self._pages: list[page.Page] = []
        self._closed = False
        self._owner = os.getpid()
        plain = plain_session(self.spark)
        self._records = (
            recovery.job_records(self.configuration)
            if self.configuration.get(JOB_RECOVERY_ENABLED)
            else None
        )
        self._storage = task_executor_storage(self.configuration)
        self._session_text = f"{plain.sparkContext.applicationId} {uuid.uuid4().hex}"
        access = SourceAccess(plain)
        self._stream_lock = threading.RLock()
        self._made_sealing: stream_sealing.StreamSealing | None = None
        self._levels: dict[str, StorageLevel] = {}
        self._not_kept: dict[str, tuple[CachedComputation[Query], Reason]] = {}
        self._manager: CacheServiceManager[Query] = CacheServiceManager(
            lambda wanted: result_book(
                self.configuration,
                self._storage,
                access,
                lambda: program_environment(plain),
                lambda digest: wanted.find(digest) is not None,
                lambda: self._sealing.why_not_common,
                wanted.is_unasked,
            )
        )
        self._followed = FollowedCaches(plain, self._move, self._spark_has_uncached)
        self._history = QueryHistory(
            self._storage.application.hex,
            plain.sparkContext.appName or "",
            lambda: self._manager.results.past_queries(_MOST_PAST),
            self._manager.results.note_query,
        )
        self._run_on(plain, self._records)
        # To compile and import takes a moment, which the first job need not wait for.
        for warm_up in (self._compile, _import):
            threading.Thread(target=warm_up, name="holdfast-warm-up", daemon=True).start()

    def _run_on(self, plain: SparkSession, records: HighAvailabilityStorage | None) -> None:
        """Runs jobs on a session.

        Args:
            plain: PySpark's own session.
            records: Of jobs that are recovered; None for none.
        """
        self._plain = plain
        self._tables = table_session(plain, self)
        self._queries: SessionQueries | None = None
        self._last_job_result: JobExecutionResult | None = None
        # A job is found again on another machine, and its sinks link files, which changes inodes.
        self._bridge = CatalystBridge(plain, self._session_text, portable=self._records is not None)
        self._stored_by_spark = StoredBySpark(plain, self.left_alone)
        self._possible_parts = PossibleParts(plain)
        # By the digests of a query and of a result: what it needs of that, and cores.
        self._needed: dict[tuple[str, str], tuple[NeededPart, int]] = {}
        self._unmatched: WeakKeyDictionary[Table, int] = WeakKeyDictionary()
        self._known_plans = KnownPlans(self._bridge)
        runner = self._runner_over(self._storage)
        self._master: JobMaster[Query, DataFrame] = JobMaster(
            self._manager,
            self._storage,
            runner,
            lambda query: query.root,
            self._bridge.part,
            SourceVersions(plain).changed,
            lambda query: shapes(self._bridge, query),
            self._saved_by,
            self._verification(),
        )
        self._recoverable = None
        if records is not None:
            engine = job_engine.JobEngine(
                plain, self._bridge, runner, self._storage, self._runner_over
            )
            self._recoverable = recovery.recoverable_jobs(
                engine,
                self._master,
                records,
                self.configuration,
                self._manager.results.job_ended,
            )
        self._made_stream_program: StreamProgram | None = None
        # Shuffles of recoverable jobs are held by their records.
        self._implicit = (
            ImplicitCache.of(
                plain,
                self._bridge,
                self._manager,
                self._history,
                self.configuration,
                self._produce_unasked,
                self._stored_by_spark.has_part_of,
            )
            if records is None
            else ImplicitCache()
        )

    @property
    def _sealing(self) -> stream_sealing.StreamSealing:
        """What streams are sealed with, in all sessions of this environment."""
        main = self._main
        with main._stream_lock:
            if main._made_sealing is None:
                main._made_sealing = stream_keys.stream_sealing(
                    main._plain, main.configuration, main._storage, main._records
                )
            return main._made_sealing

    @property
    def _stream_program(self) -> StreamProgram:
        with self._stream_lock:
            if self._made_stream_program is None:
                self._made_stream_program = StreamProgram(
                    self,
                    executor.StreamExecutor(
                        self._plain,
                        self._bridge,
                        self._manager,
                        self._master,
                        self._sealing,
                        self._recoverable,
                    ),
                    self._plain.sparkContext.defaultParallelism,
                    self._manager.results.audience,
                    is_closed=lambda: self._is_closed,
                    on_result=self._ended,
                )
            return self._made_stream_program

    def _compile(self) -> None:
        with suppress(Exception):
            PlanReader.of(self._plain)
        with suppress(Exception):
            check(self._plain)

    def _runner_over(self, storage: IntermediateResultStorage) -> SparkVertexRunner:
        compression = self.configuration.get(INTERMEDIATE_RESULT_COMPRESSION).value
        merges = self.configuration.get(INTERMEDIATE_RESULT_MERGE_PARTITIONS)
        return SparkVertexRunner(self._plain, self._bridge, storage, compression, merges=merges)

    def _verification(self) -> Verification[Query] | None:
        fraction = self.configuration.get(INTERMEDIATE_RESULT_VERIFY_FRACTION)
        if not fraction:
            return None
        return Verification(fraction, SparkResultVerifier(self._plain, self._bridge))

    def _saved_by(self, query: Query, result: KeptResult) -> float:
        key = query.root.digest, result.digest
        known = self._needed.get(key)
        if known is None:
            try:
                needed = needed_part(self._plain, query, result.digest)
            except Exception:
                logger.debug("it isn't known what of a result is needed", exc_info=True)
                needed = NeededPart()
            known = needed, self._plain.sparkContext.defaultParallelism
            if len(self._needed) >= _MOST_NEEDED:
                self._needed.clear()
            self._needed[key] = known
        needed, cores = known
        return saved_seconds(result.seconds, result.kept.bytes, needed, cores)

    def _ended(self, result: JobExecutionResult, reused: WatchedQueries | None = None) -> None:
        if reused is not None:
            result = replace(result, reused_exchanges=reused.number, reused_seconds=reused.seconds)
        self._last_job_result = result

    # -- tables -----------------------------------------------------------------------------------

    def from_dataframe(self, df: ParentDataFrame) -> Table:
        """The table of a DataFrame of this environment's session.

        Args:
            df: any classic DataFrame; a Table of another environment becomes one of this.

        Raises:
            EnvironmentClosedError: when its session has been detached.
            NotADataFrameError: when it is something else, such as a pandas DataFrame.
            UnsupportedPlanError: when it belongs to another session.

        Example:
            >>> env.from_dataframe(spark.range(3)).count()
            3
        """
        if not isinstance(df, ParentDataFrame):
            raise NotADataFrameError(f"a {type(df).__module__}.{type(df).__qualname__}")
        if not isinstance(self._tables, TableSession):
            raise EnvironmentClosedError("from_dataframe()")
        if df.sparkSession._jsparkSession != self._plain._jsparkSession:
            raise UnsupportedPlanError(
                "from_dataframe()",
                "the DataFrame belongs to another Spark session with its own settings; create an "
                "environment for that session: Environment(df.sparkSession)",
            )
        return self.wrap(df)

    def sql(
        self, sqlQuery: str, args: dict[str, Any] | list[Any] | None = None, **kwargs: Any
    ) -> Table:
        """The result of a SQL query.

        Args:
            sqlQuery: the query, with `{name}` for each named argument.
            args: values for `:name` or `?` in the query.
            **kwargs: Tables, DataFrames, columns and values that the query names.

        Raises:
            pyspark.errors.AnalysisException: as `SparkSession.sql` does.

        Example:
            >>> numbers = env.from_dataframe(spark.range(4))
            >>> env.sql("SELECT sum(id) AS s FROM {t}", t=numbers).first()
            Row(s=6)
        """
        return cast(Table, self._tables.sql(sqlQuery, args, **kwargs))

    def table(self, tableName: str) -> Table:
        """A table or view of the session's catalog.

        Args:
            tableName: its name, qualified or not.

        Raises:
            pyspark.errors.AnalysisException: when there is none of this name.
        """
        return cast(Table, self._tables.table(tableName))

    @property
    def read(self) -> DataFrameReader:
        """PySpark's reader, whose results are Tables: `env.read.parquet("orders")`."""
        return self._tables.read

    @property
    def readStream(self) -> DataStreamReader:
        """PySpark's reader of streams, whose results are Tables, in `foreachBatch` as well."""
        return self._tables.readStream

    @property
    def createDataFrame(self) -> Callable[..., Any]:
        """As PySpark's session has it: of rows, or of a pandas or Arrow table, it makes a Table.

        Example:
            >>> env.createDataFrame([(1, "a")], ["id", "name"]).first()
            Row(id=1, name='a')
        """
        return self._tables.createDataFrame

    @property
    def range(self) -> Callable[..., Any]:
        """As PySpark's session has it: `env.range(3)` is a Table.

        Example:
            >>> env.range(3).count()
            3
        """
        return self._tables.range

    # -- what is kept -----------------------------------------------------------------------------

    def list_cached(self) -> CachedDataSets:
        """Lists everything cached in this environment, whether already kept or not.

        Returns:
            A list, which is shown as a table.

        Source: FLIP-36, CacheServiceManager.

        Example:
            >>> hot = env.from_dataframe(spark.range(3)).cache()
            >>> env.list_cached()[-1].dataset_id is None
            True
        """
        work_off()
        self._look_at_spark()
        entries = self._manager.results.find()
        listed = CachedDataSets()
        for computation in self._manager.wanted.all():
            kept = [each for each in entries.items() if each[1].digest == computation.digest]
            listed += [
                cached_data_set(computation, *each, self._reasons(computation.query.root, each[1]))
                for each in kept
            ]
            if not kept:
                reasons = self._reasons(computation.query.root)
                listed.append(cached_data_set(computation, None, None, reasons))
        for computation, why in list(self._not_kept.values()):
            # Spark's own cache may have been emptied since.
            if why.kind != Why.OF_SPARK.name or self._stored_by_spark.has(computation.query):
                listed.append(cached_data_set(computation, None, None, (why,)))
        return listed

    def _reasons(self, node: CanonicalNode, entry: KeptResult | None = None) -> tuple[Reason, ...]:
        """Why a computation is not found everywhere, or not kept."""
        # Where something is read that is kept was decided when it was.
        found = self._master.reasons(node) if entry is None else ()
        if (changed := self._master.outdated(node)) is not None:
            found += (Why.OUTDATED.of(changed),)
        if entry is not None:
            found += entry.reasons
        elif (wanted := self._manager.wanted.find(node.digest)) and wanted.why_not is not None:
            found += (wanted.why_not,)
        return tuple(dict.fromkeys(found))

    def ui(self, *, port: int = 0, read_only: bool = False) -> page.Page:
        """Shows what is kept, what that has saved and what jobs have recovered, as a page.

        It is served to this machine alone, by a process of its own that ends with this environment.

        Args:
            port: where it is served; 0 for any port that is free.
            read_only: whether nothing can be pinned, released or verified on it.

        Returns:
            the page, which a notebook shows inline; `url` is where it is.

        Raises:
            EnvironmentClosedError: when the environment has been closed.
            PageError: when it can't be served, as the port is taken.

        Source: FLIP-36, "Long Term Goal": statistics.

        Example:
            >>> with env.ui() as page:
            ...     page.url.startswith("http://127.0.0.1:")
            True
        """
        if self._is_closed:
            raise EnvironmentClosedError("ui()")
        shown = page.page_of(self.configuration, port=port, is_read_only=read_only)
        self._main._pages.append(shown)
        return shown

    def __repr__(self) -> str:
        return f"<Environment: {'closed' if self._is_closed else self.list_cached().summary()}>"

    @releasing
    def invalidate_all(self) -> None:
        """Invalidates all caches, and stops caching their computations.

        Source: FLIP-36, "Step 3: Clean up".
        """
        self._followed.close()
        self._release_from_spark_cache()
        self._release(self._manager.invalidate_all())

    @property
    def last_job_result(self) -> JobExecutionResult | None:
        """The result of the last successful job; None before the first one."""
        return self._last_job_result

    @releasing
    def close(self) -> None:
        """Releases everything that this environment keeps, and stops its session if it started it.

        Its tables then behave like plain DataFrames. Closing it again has no effect.
        """
        # A process that was forked off has the environment's memory, but neither files nor Spark.
        if self._closed or os.getpid() != self._owner:
            return
        self._closed = True
        self._known_plans.forget_runs()
        if self._queries is not None:
            self._queries.stop()
        self._implicit.close()
        if self._main is not self:
            self._master.close()
            return
        for shown in self._pages:
            shown.close()
        self._followed.close()
        # A session that has been stopped has no cache any more.
        with suppress(Py4JError, PySparkException, OSError):
            self._release_from_spark_cache()
        if self._recoverable is not None:
            self._recoverable.close()
        self._manager.close()
        self._master.close()
        self._storage.close()
        if self._owns_session:
            self._plain.stop()

    def __enter__(self) -> Environment:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- the side that tables see, see holdfast.api.context.TableContext --------------------------

    @property
    def recovers_jobs(self) -> bool:
        """Whether a job resumes where it stopped when the program is restarted."""
        return self._recoverable is not None and not self._is_closed

    def wrap(self, df: ParentDataFrame) -> Table:
        """The table of a plain DataFrame."""
        table = Table(df._jdf, self._tables)
        table.is_cached = df.is_cached
        return table

    def plain(self, table: Table, *, fresh: bool = False) -> DataFrame:
        """The table's original plan as a plain DataFrame.

        Args:
            table: the table.
            fresh: nothing that Spark has made of the plan before counts.
        """
        if fresh:
            return self._bridge.dataframe(table._jdf.queryExecution().commandExecuted())
        return DataFrame(table._jdf, self._plain)

    # -- sessions, see holdfast.api.attachment ----------------------------------------------------

    @property
    def is_attached(self) -> bool:
        return self.spark is self._tables

    def adopt(self, spark: SparkSession) -> TableSession:
        """Makes a session one whose DataFrames are Tables, and whose other queries read, too."""
        try:
            self._queries = SessionQueries(self._plain, self._substitute, self._may_match)
        except UnsupportedSparkError as error:
            logger.warning("SQL commands and libraries don't read kept results: %s", error)
        # What is put in the place of a query is what runs.
        self._implicit.start()
        self._tables = become_table_session(spark, self)
        self.spark = self._tables
        return self._tables

    @releasing
    def leave(self, session: TableSession) -> None:
        """Closes this environment, and makes a session PySpark's own again."""
        owns, self._owns_session = self._owns_session, False
        try:
            self.close()
        finally:
            self._owns_session = owns
            become_plain_session(session)

    def beside(self, plain: SparkSession) -> Environment:
        """This environment for another session: it keeps and finds the same results.

        Its jobs are not recovered. It is closed with this one.

        Args:
            plain: PySpark's own session, of the same Spark.
        """
        other = copy(self)
        other._owns_session = False
        other._run_on(plain, None)
        other.spark = plain
        return other

    def session_beside(self, plain: SparkSession) -> SparkSession:
        """Another session whose DataFrames are Tables, with what this one keeps.

        Args:
            plain: PySpark's own session, of the same Spark.
        """
        other = self.beside(plain)
        if self.is_attached:
            other.adopt(plain_session(plain))
        return other._tables

    @property
    def _is_closed(self) -> bool:
        return self._closed or self._main._closed

    @contextmanager
    def left_alone(self) -> Iterator[None]:
        """For as long as it lasts, what this thread has Spark run is not looked at."""
        with ExitStack() as stack:
            if self._queries is not None:
                stack.enter_context(self._queries.left_alone())
            yield

    def run_action(
        self,
        table: Table,
        name: str,
        action: Callable[[ParentDataFrame], T],
        *,
        before_retry: Callable[[], None] | None = None,
        takes_all_rows: bool = False,
        is_repeatable: bool = True,
    ) -> T:
        """Runs an action as one job, see `holdfast.api.context.TableContext.run_action`."""
        try:
            with (
                self._implicit.answering(),
                InterruptibleAction(self._plain),
                self._runnable_again(table),
            ):
                return self._run_action(
                    table, name, action, before_retry, takes_all_rows, is_repeatable
                )
        finally:
            work_off()

    def _run_action(
        self,
        table: Table,
        name: str,
        action: Callable[[ParentDataFrame], T],
        before_retry: Callable[[], None] | None,
        takes_all_rows: bool,
        is_repeatable: bool,
    ) -> T:
        registrations = self._manager.wanted.registrations
        sources = self._sources(table) if is_repeatable else None
        if sources is not None and self._is_new(table, sources):
            return self._run_unread(table, name, action, sources)
        request = self._request(table, name, is_looked_at=is_repeatable)
        if request is None:
            return self._run_plain(table, name, action)
        request = replace(request, takes_all_rows=takes_all_rows, is_repeatable=is_repeatable)
        # What isn't kept while its rows flow on would hold up the answer.
        asked, request = self._implicit.asked(request, keeps=takes_all_rows, sources=sources)
        jobs = self._master if self._recoverable is None else self._recoverable
        if self._recoverable is None:
            query = self._known_plans.repeatable(table, request.query, request.inputs)
            request = replace(request, query=query)
        run_as: list[ParentDataFrame] = []

        def acting(dataframe: ParentDataFrame) -> T:
            run_as.append(dataframe)
            with self._implicit.computing():
                return action(dataframe)

        started = time.time()
        try:
            with self.left_alone(), last_error_logged(), self._implicit.reusing() as reused:
                answer, result = jobs.run(request, acting, before_retry=before_retry)
        except RetryRefused as refused:
            failed = _first_attempts_error(refused)
        else:
            self._ended(JobExecutionResult.of(result), reused)
            if result.is_as_written:
                self._implicit.failed(asked, result.net_runtime)
                return answer
            if request.query.last_run is not None:
                request.query.last_run.give_back(cast(DataFrame, run_as[-1]))
            self._remember(table, request, registrations, result)
            self._implicit.ran(asked, Ran(name, started, result.net_runtime, reused))
            return answer
        # Out here it is raised as it was, without what has happened since in its context.
        raise failed

    def write_action(
        self,
        table: Table,
        name: str,
        action: Callable[[ParentDataFrame, str | None], object],
        sink: JobSink,
    ) -> None:
        """Runs a write as one job, see `holdfast.api.context.TableContext.write_action`."""
        with self._implicit.answering(), InterruptibleAction(self._plain):
            request = self._request(table, name)
            if request is None or self._recoverable is None:
                self._run_plain(table, name, lambda df: action(df, None))
                return
            with self.left_alone():
                result = self._recoverable.write(request, action, sink)
            self._ended(JobExecutionResult.of(result))

    def stream_action(
        self, table: Table, name: str, action: Callable[[ParentDataFrame], Iterator[Row]]
    ) -> Iterator[Row]:
        """Runs an action whose rows come one by one.

        Raises:
            KeptPartitionLostError: when kept data is lost after the first row was returned.
        """
        return DroppableRows(self._answering_rows(table, name, action))

    def _answering_rows(
        self, table: Table, name: str, action: Callable[[ParentDataFrame], Iterator[Row]]
    ) -> Generator[Row, None, None]:
        with self._implicit.answering(), self._runnable_again(table):
            yield from interruptible_rows(self._plain, self._rows_of(table, name, action))

    def _rows_of(
        self, table: Table, name: str, action: Callable[[ParentDataFrame], Iterator[Row]]
    ) -> Iterator[Row]:
        request = self._request(table, name)
        if request is None:
            yield from self._run_plain(table, name, action)
            return
        jobs = self._master if self._recoverable is None else self._recoverable
        try:
            for row, result in jobs.stream(request, self._alone(action)):
                if result is not None:
                    self._ended(JobExecutionResult.of(result))
                elif row is not None:
                    yield row
        except KeptDataLost as lost:
            raise KeptPartitionLostError(
                tuple(str(dataset_id) for dataset_id in lost.damages), str(lost)
            ) from lost

    def prepare(self, table: Table, name: str, *, is_run_later: bool = False) -> ParentDataFrame:
        """Keeps cached results, then returns the plain DataFrame that reads them."""
        request = self._request(table, name)
        if request is None:
            return self.plain(table)
        with self._implicit.answering(), InterruptibleAction(self._plain), self.left_alone():
            dataframe, result = self._master.prepare(request, is_run_later=is_run_later)
        self._ended(JobExecutionResult.of(result))
        return dataframe

    def substituted(self, table: Table) -> ParentDataFrame:
        """The plain DataFrame, with kept results substituted. Runs nothing."""
        request = self._request(table, "substituted", is_looked_at=True)
        if request is None:
            return self.plain(table)
        return self._master.substituted(self._implicit.asked(request, runs=False)[1])

    def hand_out(self, table: Table) -> ParentDataFrame:
        """Like `substituted`, for a DataFrame that remains in use. Runs nothing."""
        request = self._request(table, "hand_out")
        if request is None:
            return self.plain(table)
        return self._master.hand_out(request)

    def cache(
        self, table: Table, lifetime: timedelta | str | None = None, name: str | None = None
    ) -> CachedTable:
        """Marks a table's computation to be kept by the first job that needs it.

        Raises:
            ConfigurationError: when the lifetime is none.
            EnvironmentClosedError: when the environment has been closed.
            UnsupportedPlanError: when the table is a streaming one, which is unbounded.
            UnsupportedTypeError: when a column can't be kept.
            UnsupportedSparkError: when plans of the session's Spark can't be read.
        """
        work_off()
        if self._is_closed:
            raise EnvironmentClosedError("cache()")
        if table.isStreaming:
            raise UnsupportedPlanError(
                "cache()",
                "streaming tables can't be cached, as their results are unbounded; read with "
                "env.read instead of readStream",
            )
        stays = self.configuration.lifetime(lifetime)
        check_keepable(self._plain, table)
        with self._followed.caching(table._jdf.queryExecution().commandExecuted()):
            query = self._known_plans.query(table)
            computation = CachedComputation(query.root.digest, query, _label(query, name), stays)
            self._followed.add(computation, table, self._bridge, self._plain._jsparkSession)
        # As PySpark's own, which gives back the very DataFrame.
        table.__class__ = CachedTable
        self._manager.wanted.register(computation, table)
        if self._manager.wanted.find(computation.digest) is None:
            self._not_kept[computation.digest] = (computation, Why.DISTRUSTED.of())
        self._levels.setdefault(query.root.digest, StorageLevel.MEMORY_AND_DISK_DESER)
        return cast(CachedTable, table)

    def persist(self, table: Table, level: StorageLevel, name: str | None = None) -> Table:
        """Does what `cache` does; Spark's own cache has what can't be kept, and on an attached
        session all else that Holdfast can't cache."""
        try:
            cached = self.cache(table, name=name)
        except UnsupportedTypeError as error:
            return self._left_to_spark(table, level, name, Why.OF_SPARK.of(error))
        except (EnvironmentClosedError, UnsupportedPlanError, UnsupportedSparkError) as error:
            if not self.is_attached:
                raise
            if not self._is_closed:
                logger.warning("Spark persists this DataFrame, not Holdfast: %s", error)
            return table._holdfast_persisted(level)
        self._levels[self._digest(table)] = level
        cached.is_cached = True
        return cached

    def _left_to_spark(
        self, table: Table, level: StorageLevel, name: str | None, why: Reason
    ) -> CachedTable:
        """Has Spark's own cache hold what can't be kept, if that can."""
        try:
            query = self._known_plans.query(table)
        except (UnsupportedPlanError, UnsupportedSparkError):
            return cast(CachedTable, table._holdfast_persisted(level))
        table.__class__ = CachedTable
        if is_storable_by_spark(self._plain, table):
            table._holdfast_persisted(level)
        else:
            why = Why.UNKEEPABLE.of()
        computation = CachedComputation(query.root.digest, query, _label(query, name))
        self._not_kept[query.root.digest] = (computation, why)
        digest = session_inputs(self._plain).dataset_digest(query.root)
        dataset_id = IntermediateDataSetID.from_digest(digest)
        self._manager.results.refused(dataset_id, computation.digest, computation.name, why)
        return cast(CachedTable, table)

    @releasing
    def uncache(self, table: Table) -> None:
        """Releases what is kept of a table's computation, whoever has cached it."""
        if self._not_kept:
            self._not_kept.pop(self._digest(table), None)
        if self._is_closed or not self._manager.wanted:
            return
        self._look_at_spark()
        held = self._manager.wanted.held_by(table)
        for digest in {self._digest(table), *(each.digest for each in held)}:
            self._uncache(digest)
        table.is_cached = False

    @releasing
    def uncache_all(self) -> None:
        """Releases what is kept of all computations that this program has cached."""
        self._look_at_spark()
        self._not_kept.clear()
        for computation in self._manager.wanted.all():
            self._uncache(computation.digest)

    def _release_from_spark_cache(self) -> None:
        """Takes out of Spark's own cache what it holds because it can't be kept."""
        while self._not_kept:
            _, (computation, _) = self._not_kept.popitem()
            self._bridge.dataframe(computation.query.written).unpersist()

    def _uncache(self, digest: str) -> None:
        self._spark_has_uncached(digest)
        self._followed.remove(digest)

    def _spark_has_uncached(self, digest: str) -> None:
        self._levels.pop(digest, None)
        self._release(self._manager.uncache(digest))

    def _move(self, digest: str, computation: CachedComputation[Query]) -> None:
        """Spark has written what a computation reads, and caches it again."""
        level = self._levels.pop(digest, StorageLevel.MEMORY_AND_DISK_DESER)
        self._levels[computation.digest] = level
        is_known = not computation.query.root.all_doubts()
        self._release(self._manager.move(digest, computation, is_known=is_known))

    def _look_at_spark(self) -> None:
        """Follows what Spark's commands have done to the sources of what is cached."""
        if not self._is_closed:
            self._followed.look()

    def storage_level(self, table: Table) -> StorageLevel | None:
        """The level that a table was cached with; None where Holdfast doesn't keep it."""
        work_off()
        if self._is_closed or not self._manager.wanted:
            return None
        self._look_at_spark()
        digest = self._digest(table)
        return self._levels.get(digest) if self._manager.wanted.find(digest) else None

    def _digest(self, table: Table) -> str:
        return self._known_plans.query(table).root.digest

    @releasing
    def invalidate(self, table: Table) -> None:
        """Drops what is kept of a table's computation; the next job recomputes it."""
        if not self._is_closed:
            self._release(self._manager.invalidate(self._digest(table)))

    @releasing
    def forget(self, table: Table) -> None:
        """Drops what is kept of a table's computation, which the table no longer keeps."""
        if self._not_kept and self._not_kept.pop(self._digest(table), None) is not None:
            self.plain(table).unpersist()
        if self._is_closed:
            return
        self._look_at_spark()
        digest = self._digest(table)
        self._release(self._manager.invalidate(digest, closing=table))
        if self._manager.wanted.find(digest) is None:
            self._followed.remove(digest)

    def _release(self, dropped: Iterable[KeptResult]) -> None:
        """Releases what has been invalidated, if only plans read it that nobody has any more."""
        self._known_plans.forget_runs()
        self._master.release_collected(thorough=any(entry.readers for entry in dropped))

    def explain_kept(self, table: Table) -> str:
        """Describes which kept results a job of this table would read, and their locations."""
        lines = ["== Holdfast =="]
        request = self._request(table, "explain", is_looked_at=True)
        asked = None
        if request is not None:
            asked, request = self._implicit.asked(request, runs=False, keeps=True)
            found = self._master.found(request)
            for _, part in self._explained(request, found):
                lines += part.lines()
            lines += self._near_misses(request, found)
        lines += self._implicit.explained(
            asked,
            lambda: self.plain(table) if request is None else self._master.substituted(request),
        )
        lines += self._not_kept_of(table)
        if len(lines) == 1:
            lines += self._why_nothing()
        return "\n".join(lines) + "\n"

    def explained(self, table: Table) -> list[ExplainedPart]:
        """What a job of this table would read of what is kept, each once. Runs nothing."""
        request = self._request(table, "explain", is_looked_at=True)
        if request is None:
            return []
        request = self._implicit.asked(request, runs=False, keeps=True)[1]
        explained = self._explained(request, self._master.found(request))
        return [part for _, part in dict.fromkeys(explained)]

    def _explained(
        self, request: JobRequest[Query], found: Mapping[str, KeptResult]
    ) -> Iterator[tuple[str, ExplainedPart]]:
        """The parts at all places of a plan, with their digests."""
        reads, wanted = self._master.reads_of(found), self._manager.wanted
        for match in examine(
            request.root,
            lambda node: wanted.find(node.digest) is not None or node.digest in found,
        ):
            computation = wanted.find(match.node.digest)
            kept, entry = reads(match.node), found.get(match.node.digest)
            if computation is not None:
                name = computation.name
            elif entry is not None:
                name = entry.kept.manifest.dataset.computes
            else:
                name = match.node.operator
            facts = []
            if match.obstacle is not None:
                fate = Fate.RECOMPUTED
                facts.append(f"as {match.obstacle.value}")
            elif kept is None:
                fate = Fate.TO_BE_KEPT
            else:
                fate = Fate.READ
                facts.append(
                    f"from {', '.join(kept.directories)}: {len(kept.manifest.partitions)} "
                    f"partitions, {kept.rows:,} rows, {kept.bytes:,} bytes"
                )
                if entry is not None and entry.origin is not None:
                    facts.append(f"kept by {entry.origin}")
            facts += sentences(self._reasons(match.node, entry))
            if ambiguities := match.node.ambiguities():
                why = "; ".join(map(str, ambiguities))
                facts.append(f"one of several right answers: {why}")
            yield match.node.digest, ExplainedPart(fate, name, tuple(facts))

    def settle(self, seconds: float) -> bool:
        """Waits until what queries have left to be kept is kept or refused; whether it is."""
        return self._implicit.settle(seconds)

    def compared(self, table: Table) -> Compared:
        """What a table computes, to be compared with another one."""
        query = self._known_plans.query(table)
        settings = session_inputs(self._plain).counted(query.root)

        def text(node: CanonicalNode) -> str:
            return str(query.reading.original(node.handle).simpleString(_MOST_FIELDS))

        return Compared(query.root, settings, text)

    def _not_kept_of(self, table: Table) -> Iterator[str]:
        """What of a table's plan is cached, and not by Holdfast."""
        if not self._not_kept:
            return
        with suppress(UnsupportedPlanError, UnsupportedSparkError):
            nodes = self._known_plans.query(table).root.walk()
            for digest in dict.fromkeys(node.digest for node in nodes):
                if digest in self._not_kept:
                    computation, why = self._not_kept[digest]
                    yield f"not Holdfast's: {computation.name}\n  {why.sentence}"

    def _why_nothing(self) -> Iterator[str]:
        """Why a plan reads and keeps nothing."""
        cached = self.list_cached()
        if self._is_closed:
            yield "the environment is closed: every part of the plan is computed"
        elif not cached:
            yield "nothing is cached: every part of the plan is computed"
        else:
            yield "nothing that is cached is part of this plan"
            names = list(dict.fromkeys(each.computes for each in cached))
            yield from (f"  not part of it: {each}" for each in names[:_MOST_NAMED])
            if len(names) > _MOST_NAMED:
                yield f"  and {len(names) - _MOST_NAMED} more"

    def _near_misses(
        self, request: JobRequest[Query], found: Mapping[str, KeptResult]
    ) -> Iterator[str]:
        """What other programs have kept that is like parts of a plan, and why it isn't read."""
        misses = self._master.near_misses(request)
        seen: set[str] = set()

        def is_like(node: CanonicalNode) -> bool:
            return node.digest in found or node.digest in misses

        for node in find_matches(request.root, is_like):
            why = misses.get(node.digest)
            if why is not None and node.digest not in found and why not in seen:
                seen.add(why)
                yield f"similar, and not read: {summarize(node)}\n  {why}"

    def _request(
        self, table: Table, name: str, *, is_looked_at: bool = False
    ) -> JobRequest[Query] | None:
        """The job of a table; None where it is to run as if there were no Holdfast."""
        work_off()
        if self._is_closed:
            return None
        is_looked_at = is_looked_at and self._implicit.looks_at_queries
        if not self._may_match(table) and not is_looked_at:
            return None
        try:
            query = self._stored_by_spark.fixed(self._known_plans.query(table))
            if isinstance(table, CachedTable) and not self._manager.wanted.find(query.root.digest):
                self._follow(table, query)
            return JobRequest(name, query, query.root, session_inputs(self._plain))
        except PySparkException:
            raise
        except Exception:
            logger.warning(
                "can't analyze the plan of %s; running it without kept results",
                name,
                exc_info=True,
            )
            return None

    def _produce_unasked(self, query: Query, inputs: SessionInputs) -> None:
        """Produces what is wanted, for nobody who waits for it."""
        request = JobRequest("behind the answer", query, query.root, inputs, is_awaited=False)
        with self.left_alone():
            self._master.run(request, lambda dataframe: None)

    def _follow(self, table: CachedTable, query: Query) -> None:
        """A listing that was refreshed, or a catalog's table that was written, makes a cached table
        another computation than when it was cached."""
        digest = query.root.digest
        before = self._manager.wanted.held_by(table)
        for held in before:
            if held.digest in self._levels:
                self._levels[digest] = self._levels[held.digest]
        computation = CachedComputation(digest, query, summarize(query.root))
        self._release(self._manager.follow(computation, table))
        if before:
            self._followed.add(computation, table, self._bridge, self._plain._jsparkSession)
        for held in before:
            if self._manager.wanted.find(held.digest) is None:
                self._followed.remove(held.digest)

    def _may_match(self, query: Any) -> bool:
        """Whether anything in a query may be kept, or wanted, which is known without reading it.

        Args:
            query: a table, or an analyzed plan of the JVM.
        """
        self._implicit.tend()
        self._look_at_spark()
        wanted = self._manager.wanted
        # What a cached table reads may have changed since it was cached.
        if self._recoverable is not None or (wanted and isinstance(query, CachedTable)):
            return True
        if isinstance(query, Table) and self._known_plans.has_run(query):
            return True
        return self._may_have_part_of(query) or self._manager.results.may_find(
            lambda digest: wanted.find(digest) is not None
        )

    def _may_have_part_of(self, query: Any) -> bool:
        """Whether anything that is wanted may be a part of a query."""
        wanted = self._manager.wanted
        is_known = isinstance(query, Table) and self._unmatched.get(query) == wanted.registrations
        if not wanted or is_known:
            return False
        self._possible_parts.look_for({each.digest: each.query.plan for each in wanted.all()})
        return self._possible_parts.may_be_in(query)

    def _remember(
        self, table: Table, request: JobRequest[Query], registrations: int, result: JobResult
    ) -> None:
        """A plan in which nothing was kept or wanted is not read again, until more is cached."""
        vertices = result.execution_graph.vertices
        nothing = len(vertices) == 1 and vertices[0].outcome is VertexOutcome.RUN
        if not nothing or result.is_refused or self._recoverable is not None:
            return
        self._known_plans.forget_run(table)
        # Below what Spark has persisted nothing is looked for, as long as that is so.
        if self._stored_by_spark.has_any():
            nothing = all(node.replaceable for node in request.root.walk())
        if nothing:
            self._unmatched[table] = registrations

    def _alone(self, action: Callable[[ParentDataFrame], T]) -> Callable[[ParentDataFrame], T]:
        """An action of which nothing is looked at by itself while it starts."""

        def alone(dataframe: ParentDataFrame) -> T:
            with self.left_alone():
                return action(dataframe)

        return alone

    def _substitute(self, plan: Any, run: Run) -> Any:
        """The plan of a query that no table runs, with what is kept substituted.

        Args:
            plan: the JVM's analyzed plan.
            run: how it is run; if it is, what is missing is produced first.
        """
        query = self._stored_by_spark.fixed(self._bridge.read(plan))
        self._bridge.runs_in(query, run.session())
        inputs = session_inputs(session_over(self._plain, run.session()))
        request = JobRequest("sql", query, query.root, inputs)
        if not run.isExecuted():
            dataframe: ParentDataFrame = self._master.hand_out(request)
        else:
            dataframe, result = self._master.prepare(request)
            self._ended(JobExecutionResult.of(result))
        substituted = dataframe._jdf.queryExecution().analyzed()
        return plan if substituted.fastEquals(plan) else substituted

    @contextmanager
    def _runnable_again(self, table: Table) -> Iterator[None]:
        """Spark remembers of a DataFrame that its job was cancelled, and would say so again."""
        try:
            yield
        except BaseException as error:
            if is_interrupt(error) or is_cancelled(error):
                with suppress(Py4JError):
                    analyzed = table._jdf.queryExecution().commandExecuted()
                    table._jdf = self._bridge.dataframe(analyzed)._jdf
            raise

    def _sources(self, table: Table) -> AskedSources | None:
        """Roughly what a table reads; None where that isn't known, or is of no interest."""
        if self._is_closed or self._implicit.recurring is None:
            return None
        try:
            return self._possible_parts.sources_of(table)
        except Exception:
            logger.debug("it isn't known what a query reads", exc_info=True)
            return None

    def _is_new(self, table: Table, sources: AskedSources) -> bool:
        """Whether a table is like no other that was run, and nothing is kept or wanted of it."""
        work_off()
        is_new = self._implicit.is_new(sources)
        return is_new and not self._stored_by_spark.has_any() and not self._may_match(table)

    def _run_unread(
        self,
        table: Table,
        name: str,
        action: Callable[[ParentDataFrame], T],
        sources: AskedSources,
    ) -> T:
        """Runs what is new as it is written; its plan is read later, in the background."""
        read = self._reading_later(table) if sources.text else None
        started = time.time()
        with self._implicit.computing():
            answer, result, reused = self._ran_plain(table, name, action)
        if read is not None:
            ran = Ran(name, started, result.net_runtime, reused)
            self._implicit.ran_unread(read, sources, ran)
        return answer

    def _reading_later(self, table: Table) -> ReadLater | None:
        try:
            inputs = session_inputs(self._plain)
        except Exception:
            logger.debug("it isn't known what a query depends on", exc_info=True)
            return None
        dataframe = self.plain(table)

        def read() -> tuple[Query, SessionInputs] | None:
            # What Spark has made of it is not held on to.
            query = replace(self._bridge.query(dataframe), dataframe=None)
            # Under other settings a plan may mean something else.
            return (query, inputs) if session_inputs(self._plain) == inputs else None

        return read

    def _run_plain(self, table: Table, name: str, action: Callable[[ParentDataFrame], T]) -> T:
        return self._ran_plain(table, name, action)[0]

    def _ran_plain(
        self, table: Table, name: str, action: Callable[[ParentDataFrame], T]
    ) -> tuple[T, JobExecutionResult, WatchedQueries]:
        started = time.monotonic()
        with self.left_alone(), self._implicit.reusing() as reused:
            answer = action(self.plain(table))
        vertex = ExecutionVertex(JobVertexID.random(), name, None, VertexOutcome.RUN, attempts=1)
        result = JobExecutionResult(
            JobID.random(),
            name,
            time.monotonic() - started,
            BlockingPersistentResultPartitionMeta(),
            (vertex,),
        )
        self._ended(result, reused)
        return answer, result, reused


def _first_attempts_error(refused: RetryRefused) -> BaseException:
    """What the attempt failed with that is not repeated, and a note why it is not."""
    error = refused.__context__ or refused
    if isinstance(error, KeptDataLost):
        error = error.__cause__ or refused
    if error is not refused:
        add_note(error, str(refused))
    return error


def _label(query: Query, name: str | None) -> str:
    """What the result of a query is called that the program asks for at this moment."""
    site = call_site()
    try:
        step = last_step(query.plan)
    except Py4JError as error:
        logger.debug("Spark can't show a plan: %s", error)
        step = None
    return result_label(summarize(query.root), step, name or site.name, site.place)


def _import() -> None:
    for name in _NEEDED_TO_KEEP:
        with unheard(*ALEMBIC), suppress(Exception):
            import_module(name)

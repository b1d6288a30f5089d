"""What the shuffles of a job's queries have written, kept for the job's next start.

A cut keeps another copy of rows; this keeps the very files that Spark's map tasks leave behind, so
that it costs nothing and each map task counts that has ended. What tasks give the driver for a
broadcast is written beside them, which Spark itself has in memory only.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import UnsupportedSparkError
from holdfast.plan.document import OperatorDocument, Value
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.value_digest import Undigestible
from holdfast.spark.failures import reason
from holdfast.spark.fresh_plans import FreshPlans
from holdfast.spark.java_classes import new_object
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.local_executor import outlives_lost_outputs
from holdfast.spark.per_context import PerContext
from holdfast.spark.python_functions import pickled_function_digest
from holdfast.spark.session_settings import session_under
from holdfast.spark.task_classes import ship
from holdfast.storage.kept_dataset import KeptDataSet

_JAVA_CLASS = "RetainedShuffles"
_BROADCASTS = "RetainedBroadcasts"
_KEY = "holdfast.retained-shuffles"
# With any of these a later driver couldn't read what this one's tasks write.
_UNREADABLE = (
    "spark.io.encryption.enabled",
    "spark.shuffle.push.enabled",
    "spark.shuffle.useOldFetchProtocol",
)
# Tasks don't know the checksums of what they write: a map task that runs again would seem to have
# written something else. Then Spark does as it does without them.
_SETTINGS_ON_CLUSTER = {
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false"
}
# On a cluster each attempt that succeeds leaves its output: of two, another one might be adopted
# than the one whose rows were read.
_SPECULATION = "spark.speculation"
_SORT = frozenset({"sort", "tungsten-sort", "org.apache.spark.shuffle.sort.SortShuffleManager"})
# How rows are written: who reads them must do it in the same way.
_FORMAT = (
    "spark.io.compression.codec",
    "spark.shuffle.compress",
    "spark.shuffle.sort.io.plugin.class",
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetainedQuery:
    """A query whose shuffles are kept, as it is run once.

    Attributes:
        settings: to be set in the session that it runs in, see `RetainedShuffles.over`.
    """

    settings: Mapping[str, str]
    _job: Any

    def recovered(self) -> int:
        """How many of its tasks weren't run, since an earlier start had run them."""
        return int(self._job.adopted(self.settings[_KEY]))


class RetainedShuffles:
    """The shuffles of one start of a job.

    Spark runs those map tasks of a query's shuffles that no earlier start has run, as it does when
    it has lost the output of some. A shuffle is the same as an earlier start's where the query
    computes the same over the same files, where it is the same part of the query in the form that
    Spark has given it, and where its rows are dealt to map tasks in the same way. Shuffles by range
    aren't kept, nor those whose rows would be others if a task ran twice, nor what reads them.

    The same holds for the rows of broadcasts and the tasks that collect them.

    On a cluster each map task leaves its files on its machine. The next start gives them to a
    Spark executor there, which serves them like its own; should that be lost, they are run again.

    Args:
        spark: the session whose clones run the queries.
        directory: for the files, on each machine; must be on the file system of Spark's own.
        hosts: the machines of a cluster where earlier starts may have left some.

    Raises:
        UnsupportedSparkError: when the JVM's Spark is one whose shuffles can't be kept.

    Source: FLIP-383: the result partitions of blocking edges outlive the job master.
    """

    def __init__(self, spark: SparkSession, directory: Path, hosts: Collection[str] = ()) -> None:
        self._spark = spark
        self._directory = directory
        self._id = uuid.uuid4().hex
        self._numbers = itertools.count()
        settings = _settings(spark)
        self._format = " ".join([spark.version, *(str(settings.get(key, None)) for key in _FORMAT)])
        outlives_lost_outputs(spark)
        self._fresh = FreshPlans.of(spark)
        self._in_jvm: Any = _in_jvm.of(spark)
        self._in_jvm.extend(spark._jsparkSession)
        self._settings: Mapping[str, str] = {}
        ship(spark, _BROADCASTS)
        if not _is_local(spark):
            ship(spark, _JAVA_CLASS)
            self._settings = _SETTINGS_ON_CLUSTER
        self._job: Any = self._in_jvm.open(self._id, str(directory), " ".join(hosts))

    @classmethod
    def of(
        cls, spark: SparkSession, directory: Path, hosts: Collection[str] = ()
    ) -> RetainedShuffles | None:
        """The shuffles of a start; None where this Spark's can't be kept.

        Args:
            spark: the session.
            directory: for the files.
            hosts: as for the class.
        """
        try:
            return cls(spark, directory, hosts)
        except (UnsupportedSparkError, Py4JError, OSError) as error:
            logger.warning("can't retain shuffle files: %s", reason(error))
            return None

    @property
    def keeps_all(self) -> bool:
        """Whether what tasks write can be kept wherever they run, as far as that has been tried."""
        return bool(self._job.keepsAll())

    @property
    def directory_here(self) -> Path | None:
        """Where the files are, if all of them are on this machine."""
        return self._directory if _is_local(self._spark) else None

    def query(
        self,
        scope: str,
        kept: Iterable[KeptDataSet] = (),
        operators: Iterable[OperatorDocument] = (),
    ) -> RetainedQuery:
        """One run of a query.

        Args:
            scope: the same for what computes the same over the same files: a digest.
            kept: datasets that it may read; they lie elsewhere in each start.
            operators: its plan's; the functions in them are pickled in another way in each start.
        """
        for each in kept:
            for directory in each.directories:
                # Of a file on another machine Spark's path has no more than this.
                _, remote, path = str(directory).rpartition("://")
                path = f"/{path.partition('/')[2]}" if remote else path
                self._job.name(path, str(each.manifest.dataset.dataset_id))
        for pickle in _functions([*operators]):
            with suppress(Undigestible):
                self._job.function(pickle, pickled_function_digest(pickle))
        value = f"{self._id} {next(self._numbers)} {scope} {self._format}"
        return RetainedQuery({_KEY: value, **self._settings}, self._job)

    def over(
        self,
        frame: DataFrame,
        query: RetainedQuery,
        inputs: SessionInputs,
        dealing: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """The same as `frame`, with the shuffles of the query.

        Args:
            frame: what to run.
            query: what its shuffles are kept as.
            inputs: the settings that it runs under.
            dealing: those by which its data is dealt to tasks instead.

        Raises:
            Py4JError: when the plan can't be copied.
        """
        session = session_under(self._spark, inputs, {**(dealing or {}), **query.settings})
        plan = frame._jdf.queryExecution().analyzed()
        if dealing:
            analyzed = self._fresh.dealt(plan, self._spark._jsparkSession, session)
        else:
            analyzed = self._fresh.copied(plan, session)
        return DataFrame(JvmMembers.of(self._spark).of_rows(session, analyzed), self._spark)

    def close(self) -> None:
        """Ends the keeping; what is kept stays."""
        self._in_jvm.close(self._id)
        for trouble in filter(None, str(self._job.troubles()).split("\n")):
            logger.warning(
                "some shuffle files could not be retained in %s, which must be on the same file "
                "system as spark.local.dir: %s",
                self._directory,
                trouble,
            )


def is_retainable(spark: SparkSession, *, spans_machines: bool) -> bool:
    """Whether what the shuffles of a session write can be kept: tasks run where it is kept, write
    in the clear with Spark's own shuffle manager, and are known by their numbers.

    Args:
        spark: the session.
        spans_machines: it is kept by task executors, on the machines that tasks run on.
    """
    settings = _settings(spark)
    refused = (*_UNREADABLE, _SPECULATION) if spans_machines else _UNREADABLE
    return (
        _is_local(spark) != spans_machines
        and settings.get("spark.shuffle.manager", "sort") in _SORT
        and not any(settings.get(key, "false").lower() == "true" for key in refused)
    )


def _functions(value: Value) -> Iterator[str]:
    """The pickles of the Python functions in a plan's document."""
    if isinstance(value, dict):
        if "python" in value:
            yield value["python"]
        value = [*value.values()]
    if isinstance(value, list):
        for item in value:
            yield from _functions(item)


def _settings(spark: SparkSession) -> Any:
    """Spark's own; PySpark's copy of them takes as long as a hundred calls."""
    return spark.sparkContext._jsc.sc().getConf()


def _is_local(spark: SparkSession) -> bool:
    """Whether tasks run in the driver's process."""
    return bool(spark.sparkContext._jsc.sc().isLocal())


def _new(spark: SparkSession) -> Any:
    broadcasts = new_object(spark, _BROADCASTS)
    return new_object(spark, _JAVA_CLASS, spark.sparkContext._jsc.sc(), _KEY, broadcasts)


_in_jvm = PerContext(_new)

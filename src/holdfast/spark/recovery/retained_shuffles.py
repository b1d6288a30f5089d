"""What the shuffles of a job's queries have written, kept for the job's next start.

A cut keeps another copy of rows; this keeps the very files that Spark's map tasks leave behind, so
that it costs nothing and each map task counts that has ended.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.errors import UnsupportedSparkError
from holdfast.plan.document import OperatorDocument, Value
from holdfast.plan.session_inputs import SessionInputs
from holdfast.spark.fresh_plans import FreshPlans
from holdfast.spark.java_classes import new_object
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.per_context import PerContext
from holdfast.spark.python_functions import pickled_function_digest
from holdfast.spark.session_settings import session_under
from holdfast.storage.kept_dataset import KeptDataSet

_KEY = "holdfast.retained-shuffles"
# With any of these a later driver couldn't read what this one's tasks write.
_UNREADABLE = ("spark.io.encryption.enabled", "spark.shuffle.push.enabled")
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
        """How many of its map tasks weren't run, since an earlier start had run them."""
        return int(self._job.adopted(self.settings[_KEY]))


class RetainedShuffles:
    """The shuffles of one start of a job, on one machine.

    Spark runs those map tasks of a query's shuffles that no earlier start has run, as it does when
    it has lost the output of some. A shuffle is the same as an earlier start's where the query
    computes the same over the same files, where it is the same part of the query in the form that
    Spark has given it, and where its rows are dealt to map tasks in the same way. Shuffles by range
    aren't kept, nor those whose rows would be others if a task ran twice, nor what reads them.

    Attributes:
        directory: where the files are.

    Args:
        spark: the session whose clones run the queries.
        directory: for the files; must be on the file system of `spark.local.dir`.

    Raises:
        UnsupportedSparkError: when the JVM's Spark is one whose shuffles can't be kept.

    Source: FLIP-383: the result partitions of blocking edges outlive the job master.
    """

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self.directory = directory
        self._id = uuid.uuid4().hex
        self._numbers = itertools.count()
        context = spark.sparkContext
        self._format = " ".join(
            [spark.version, *(str(context.getConf().get(key)) for key in _FORMAT)]
        )
        self._fresh = FreshPlans.of(spark)
        self._in_jvm: Any = _in_jvm.of(spark)
        self._in_jvm.extend(spark._jsparkSession)
        self._job: Any = self._in_jvm.open(self._id, str(directory))

    @classmethod
    def of(cls, spark: SparkSession, directory: Path | None) -> RetainedShuffles | None:
        """The shuffles of a start; None where they can't be kept.

        Args:
            spark: the session.
            directory: for the files; None where there is no such place.
        """
        if directory is None or not is_retainable(spark):
            return None
        try:
            return cls(spark, directory)
        except UnsupportedSparkError as error:
            logger.warning("can't retain shuffle files: %s", error)
            return None

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
                self._job.name(str(directory), str(each.manifest.dataset.dataset_id))
        for pickle in _functions([*operators]):
            digest = pickled_function_digest(pickle)
            if digest is not None:
                self._job.function(pickle, digest)
        value = f"{self._id} {next(self._numbers)} {scope} {self._format}"
        return RetainedQuery({_KEY: value}, self._job)

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
                self.directory,
                trouble,
            )


def is_retainable(spark: SparkSession) -> bool:
    """Whether what the shuffles of a session write can be kept: tasks run in the driver's process,
    and write in the clear with Spark's own shuffle manager."""
    context = spark.sparkContext
    settings = context.getConf()
    return (
        bool(context._jsc.sc().isLocal())
        and settings.get("spark.shuffle.manager", "sort") in _SORT
        and not any(settings.get(key, "false").lower() == "true" for key in _UNREADABLE)
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


def _new(spark: SparkSession) -> Any:
    return new_object(spark, "RetainedShuffles", spark.sparkContext._jsc.sc(), _KEY)


_in_jvm = PerContext(_new)

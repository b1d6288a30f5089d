"""What exchanges of earlier queries have left, for later queries of the session with the same one.

Adaptive execution reuses an exchange within a query. Here stages of earlier queries are offered to
it (`java/LiveShuffles.java`), so that nothing is written, copied or read in another way: the plan
shows a `ReusedExchange`, and what is lost is computed again by Spark's own lineage. A stage is held
only where all that its rows depend on is known (`java/StageInputs.java`), and offered only to
queries under the same settings that list the same versions of the same files as the same
partitions, and write expressions in the same order (`java/WrittenOrder.java`).
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from holdfast.catalog.profit import Valued, make_room
from holdfast.spark.fresh_plans import FreshPlans
from holdfast.spark.java_classes import new_object
from holdfast.spark.local_executor import outlives_lost_outputs
from holdfast.spark.plan_reader import PlanReader
from holdfast.spark.source_versions import BETWEEN, file_versions

_MILLISECONDS = 1000.0
# Of the driver's heap, for broadcasts.
_SHARE_OF_MEMORY = 0.05
# Each holds its plan in the driver's memory.
_MOST = 256

_NOTHING = Valued(0, 0, 0.0, ())

logger = logging.getLogger(__name__)


class LiveShuffles:
    """The shuffles and broadcasts that are held for a session's later queries.

    Args:
        spark: PySpark's own session.
        limit: how many bytes shuffles may have, of how many they have now, and how many are free.

    Raises:
        UnsupportedSparkError: when the session's queries can't be looked at.
    """

    def __init__(self, spark: SparkSession, limit: Callable[[int, int], int]) -> None:
        versions = file_versions(spark)
        self._limit = limit
        # Spark makes it where its shuffles are.
        self._local = cast(Any, spark.sparkContext)._temp_dir
        self._in_jvm: Any = new_object(
            spark,
            "LiveShuffles",
            spark._jsparkSession,
            new_object(spark, "StageInputs", versions, new_object(spark, "WrittenOrder"), BETWEEN),
            PlanReader.of(spark).settings,
            FreshPlans.of(spark).copies,
            versions.changes(),
            new_object(spark, "RanSteps"),
        )
        outlives_lost_outputs(spark)
        self.start()
        self._admitted: set[int] = set()

    def start(self) -> None:
        """Starts to look at the session's queries, as all other rules leave them."""
        self._in_jvm.start()

    @property
    def uses(self) -> int:
        """How many exchanges of queries that have ended have been read instead of run."""
        return int(self._in_jvm.uses())

    @contextmanager
    def watched(self) -> Iterator[WatchedQueries]:
        """What queries that this thread plans meanwhile have read, once they have ended.

        Yields:
            empty, until the end.
        """
        reused = WatchedQueries()
        self._in_jvm.watch()
        try:
            yield reused
        finally:
            # A session that has been stopped has no JVM to ask any more.
            with suppress(Py4JError, OSError):
                counts, *steps = str(self._in_jvm.watched()).splitlines()
                read, took, spent = map(int, counts.split(" "))
                reused.steps = steps
                reused.number, reused.seconds = read, took / _MILLISECONDS
                reused.task_seconds = spent / _MILLISECONDS

    def tend(self) -> None:
        """Releases what has no room: what is worth least by time, size and use."""
        text = str(self._in_jvm.held(False))
        if not text:
            return
        failure, memory, *lines = text.splitlines()
        if failure:
            logger.warning("shuffles of a query were not looked at: %s", failure)
        held = [_Live.read(line) for line in lines]
        shuffles = [each.valued for each in held if each.is_on_disk]
        broadcasts = [each.valued for each in held if not each.is_on_disk]
        on_disk = sum(each.bytes for each in shuffles)
        released = {
            *self._without_room(
                shuffles, self._limit(on_disk, shutil.disk_usage(self._local).free)
            ),
            *self._without_room(broadcasts, int(int(memory) * _SHARE_OF_MEMORY)),
        }
        kept = [each.valued for each in held if each.valued.key not in released]
        kept.sort(key=lambda each: each.references[-1])
        released.update(each.key for each in kept[: max(0, len(kept) - _MOST)])
        if released:
            self._in_jvm.release(" ".join(map(str, sorted(released))))
        self._admitted = {each.valued.key for each in held} - released

    def _without_room(self, held: Sequence[Valued[int]], limit: int) -> set[int]:
        """Those that are released, with the new ones that aren't worth what they'd replace."""
        now, released = time.time(), set[int]()
        kept = [each for each in held if each.key in self._admitted]
        # The disk may have become full meanwhile.
        for newcomer in (_NOTHING, *(each for each in held if each.key not in self._admitted)):
            free = limit - sum(each.bytes for each in kept)
            room = make_room(newcomer, kept, free, now, must_be_kept=newcomer is _NOTHING)
            released.update(room.evicted if room.is_admitted else [newcomer.key])
            kept = [each for each in (*kept, newcomer) if each.key not in released]
        return released

    def outlook(self, dataframe: DataFrame) -> list[ExchangeOutlook]:
        """What becomes of a query's exchanges, upper ones first; below a reused one nothing runs.

        Args:
            dataframe: the query, which is planned and not run.
        """
        lines = str(self._in_jvm.outlooks(dataframe._jdf.queryExecution())).splitlines()
        return [ExchangeOutlook.read(line) for line in lines]

    @contextmanager
    def left_alone(self) -> Iterator[None]:
        """For as long as it lasts, queries that this thread plans compute everything."""
        self._in_jvm.leaveAlone(True)
        try:
            yield
        finally:
            self._in_jvm.leaveAlone(False)

    def stop(self) -> None:
        """Lets everything go; the session's queries are plain ones again."""
        # A session that has been stopped has no JVM to ask any more.
        with suppress(Py4JError, OSError):
            self._in_jvm.stop()


@dataclass(frozen=True, slots=True)
class ExchangeOutlook:
    """What becomes of an exchange of a query.

    Attributes:
        what: the exchange, as Spark shows it.
        is_reused: what an earlier query has left is read.
        is_held: it is run, and then held for later queries, if there is room.
        why_not: why it is neither, or why what was held isn't read.
        seconds: of its tasks, when an earlier query ran it.
    """

    what: str
    is_reused: bool
    is_held: bool
    why_not: str | None
    seconds: float

    @staticmethod
    def read(line: str) -> ExchangeOutlook:
        """What the JVM says of it."""
        outlook, took, what = line.split("\t", 2)
        reused, held = outlook == "reused", outlook == "to be held"
        why_not = None if reused or held else outlook
        return ExchangeOutlook(what, reused, held, why_not, float(took) / _MILLISECONDS)


@dataclass
class WatchedQueries:
    """What queries have read of earlier ones, and how many rows they had.

    Attributes:
        number: how many shuffles and broadcasts.
        seconds: how long these had taken to run.
        task_seconds: how long their tasks had, added up.
        steps: of the last one, see `holdfast.advice.counted_rows.RanStep`.
    """

    number: int = 0
    seconds: float = 0.0
    task_seconds: float = 0.0
    steps: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class _Live:
    """What is held of one exchange.

    Attributes:
        valued: by its number.
        is_on_disk: or else it is in memory.
    """

    valued: Valued[int]
    is_on_disk: bool

    @staticmethod
    def read(line: str) -> _Live:
        """What the JVM says of it."""
        number, is_on_disk, size, took, references = line.split(" ")
        uses = tuple(float(each) / _MILLISECONDS for each in references.split(","))
        valued = Valued(int(number), int(size), float(took) / _MILLISECONDS, uses)
        return _Live(valued, is_on_disk == "true")

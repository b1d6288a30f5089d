"""Partitions that an earlier start has left are completed by those that are missing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.lying_files import parquet_below
from tests.spark.running_jobs import SlowJob
from tests.spark.starts import Starts

FILES, LAST = 4, 599
# Makes a query of the slow files, of a session, and of what reads the same files as they are.
Query = Callable[[DataFrame, Any, Callable[[], DataFrame]], DataFrame]


def evens(read: Callable[[], DataFrame]) -> DataFrame:
    return read().where("id % 2 = 0").selectExpr("id", "id DIV 2 AS h")


def inline(session: Any) -> Any:
    return session.sql("SELECT * FROM VALUES (1L), (5L), (300L) AS v(id)")


SPLIT: dict[str, Query] = {
    "a broadcast join": lambda slow, _, read: slow.join(F.broadcast(evens(read)), "id"),
    "a scan": lambda slow, _, read: slow,
    "rows of some files": lambda slow, _, read: slow.where("id % 3 = 1").selectExpr("id * 2 AS x"),
    "more rows": lambda slow, _, read: slow.select("k", "id", F.explode("pair").alias("each")),
    "numbers by seed": lambda slow, _, read: slow.withColumn("r", F.rand(7)),
    "a union": lambda slow, _, read: read().withColumn("k", F.lit(9)).unionByName(slow),
    "two broadcast joins": lambda slow, session, read: slow.join(
        F.broadcast(evens(read)), "id", "left"
    ).join(F.broadcast(inline(session).withColumn("x", F.lit(1))), "id", "left"),
    "a table that is inline": lambda slow, session, read: slow.join(
        F.broadcast(inline(session)), "id", "left_anti"
    ),
    "an empty side": lambda slow, _, read: slow.join(
        F.broadcast(evens(read).where("h < 0")), "id", "left"
    ),
}
# Which rows a partition has is decided otherwise, or when they run.
WHOLE: dict[str, Query] = {
    "some rows of a side": lambda slow, _, read: slow.join(
        F.broadcast(evens(read).orderBy("h").limit(3)), "id", "left"
    ),
    "a subquery": lambda slow, session, read: slow.where(
        F.expr("id >= (SELECT min(v.id) FROM VALUES (1), (0) AS v(id))")
    ),
    "a range": lambda slow, session, read: session.range(10).union(slow.select("id")),
    "ties of a side": lambda slow, _, read: slow.join(
        F.broadcast(
            read().selectExpr("id", "row_number() OVER (ORDER BY id) AS n").where("n < 4")
        ).select("id"),
        "id",
        "left",
    ),
}


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("split") / "flat")
    rows = spark.range(0, LAST + 1, 1, FILES)
    rows.selectExpr("id", "id % 3 AS k", "array(id, id + 1) AS pair").write.parquet(path)
    return path


@pytest.fixture
def starts(spark: SparkSession, tmp_path: Path, settings: Any) -> Iterator[Starts]:
    """Starts of a job whose files are a task each."""
    with settings({"spark.sql.files.openCostInBytes": "128m"}), Starts(spark, tmp_path, {}) as own:
        yield own


def taken_over(starts: Starts, files: str, made: Query) -> int:
    """How many partitions a start takes over from one whose last file isn't read yet."""
    with SlowJob(starts.home) as slow:
        wait = slow.function

        def last_waits(number: int) -> int:
            return int(wait(number)) if number == LAST else number

        def query(session: Any) -> Any:
            read = partial(session.read.parquet, files)
            slowly = F.udf(last_waits, "bigint", useArrow=False)
            return made(read().withColumn("id", slowly("id")), session, read)

        first, found = starts.start(), []
        second = threading.Thread(
            target=lambda: found.append(starts.run(lambda env: query(env).cache()))
        )

        def begin_again() -> None:
            deadline = time.monotonic() + 200
            while len(parquet_below(starts.home / "store")) < FILES - 1:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            slow.expect_another()
            second.start()
            slow.wait(second)

        slow.run(lambda: list(query(first).cache().toLocalIterator()), begin_again)
        second.join()
        ((rows, result),) = found
        assert rows == starts.plain_rows(query)
    # Below it there may be parts of its plan, and above it is what gives its rows.
    return result.vertices[-2].recovered or 0


@pytest.mark.parametrize("name", SPLIT)
@pytest.mark.sampled(5)
def test_only_what_is_missing_is_run_again(starts: Starts, files: str, name: str) -> None:
    assert taken_over(starts, files, SPLIT[name]) >= FILES - 1


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.sampled(4)
def test_all_is_run_again_where_partitions_may_be_others(
    starts: Starts, files: str, name: str
) -> None:
    assert taken_over(starts, files, WHOLE[name]) == 0

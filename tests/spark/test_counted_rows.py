"""How many rows parts of a query had is told by what has run, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from pyspark.sql import DataFrame, SparkSession

from holdfast.advice.counted_rows import RanStep, counted_rows
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.live_shuffles import LiveShuffles
from tests.spark.test_random_plans import (
    PLAIN,
    SAME_EACH_TIME,
    Pipeline,
    computed,
    pipelines,
    random_sources,
)

__all__ = ["random_sources"]


class Counting:
    """A session whose queries' rows are counted."""

    def __init__(self, session: SparkSession) -> None:
        self.spark = session
        self.live = LiveShuffles(session, lambda used, free: free)
        self.bridge = CatalystBridge(session, "session")

    def counted(
        self, df: DataFrame, action: Callable[[DataFrame], Any] = DataFrame.collect
    ) -> list[tuple[str, int]]:
        """What is told of a query's nodes, upper ones first, which is true of all."""
        query = self.bridge.query(df)
        with self.live.watched() as watched:
            action(df)
        steps = map(RanStep.read, watched.steps)
        counted = counted_rows(query.root, query.reading.operators, steps)
        return list(self.checked(query, counted))

    def checked(self, query: Query, counted: Mapping[int, int]) -> Iterator[tuple[str, int]]:
        nodes = {node.handle: node for node in query.root.walk()}
        for handle, rows in counted.items():
            part = self.bridge.part(query, nodes[handle])
            assert part is not None
            with self.live.left_alone():
                assert self.bridge.dataframe(part.plan).count() == rows, nodes[handle].operator
            yield nodes[handle].operator, rows


@pytest.fixture(params=["shuffled", "broadcast"])
def counting(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Counting]:
    """A session of its own."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    if request.param == "shuffled":
        session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    counting = Counting(session)
    yield counting
    counting.live.stop()


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`orders` of 1,000 customers, of which 500 are in `customers`, and `regions` of these."""
    folder = tmp_path_factory.mktemp("files")
    spark.range(4000).selectExpr(
        "id AS o", "id % 1000 AS c", "id % 7 AS day", "id % 13 AS amount"
    ).write.parquet(str(folder / "orders"))
    spark.range(500).selectExpr("id AS c", "id % 40 AS r").write.parquet(str(folder / "customers"))
    spark.range(30).selectExpr("id AS r", "concat('r', id % 3) AS name").write.parquet(
        str(folder / "regions")
    )
    return folder


def query(counting: Counting, files: Path, text: str) -> DataFrame:
    for each in ("orders", "customers", "regions"):
        counting.spark.read.parquet(str(files / each)).createOrReplaceTempView(each)
    return counting.spark.sql(text)


JOINED = "orders JOIN customers USING (c)"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT c, sum(amount) FROM orders GROUP BY c", [("Aggregate", 1000)]),
        ("SELECT sum(amount) FROM orders", [("Aggregate", 1)]),
        (f"SELECT r, sum(amount) FROM {JOINED} GROUP BY r", [("Aggregate", 40), ("Join", 2000)]),
        # Spark joins twice, as it takes samples before it sorts.
        (f"SELECT * FROM {JOINED} ORDER BY o", []),
        (
            f"SELECT r, sum(amount) AS s FROM {JOINED} GROUP BY r ORDER BY s",
            [("Join", 2000)],
        ),
        # All are sorted before the first ones are taken.
        (
            f"SELECT r, sum(amount) AS s FROM {JOINED} GROUP BY r ORDER BY s LIMIT 3",
            [("Aggregate", 40), ("Join", 2000)],
        ),
        # It isn't looked at what more there is.
        (f"SELECT r, sum(amount) FROM {JOINED} GROUP BY r LIMIT 3", []),
        (
            f"SELECT name, count(*) FROM {JOINED} JOIN regions USING (r) GROUP BY name",
            [("Aggregate", 3), ("Join", 1520)],
        ),
        (
            "SELECT s + 1, count(*) FROM (SELECT c, sum(amount) AS s FROM orders GROUP BY c) "
            "GROUP BY s",
            [("Aggregate", 13), ("Aggregate", 1000)],
        ),
        ("SELECT DISTINCT day FROM (SELECT DISTINCT c, day FROM orders)", [("Distinct", 7)]),
        # A condition of what is gathered may be one of what it is made of.
        ("SELECT * FROM (SELECT c, count(*) FROM orders GROUP BY c) WHERE c < 10", []),
        # What is asked for is applied before joining.
        (f"SELECT r, sum(amount) FROM {JOINED} WHERE day = 3 GROUP BY r", [("Aggregate", 40)]),
        # Nothing of the other side is used, and Spark doesn't join.
        (
            f"SELECT DISTINCT day FROM {JOINED} LEFT JOIN regions USING (r)",
            [("Distinct", 7)],
        ),
        (
            "SELECT day, count(DISTINCT c) FROM orders GROUP BY day",
            [("Aggregate", 7)],
        ),
        (
            "SELECT day, count(DISTINCT c), count(DISTINCT amount) FROM orders GROUP BY day",
            [("Aggregate", 7)],
        ),
        (
            "SELECT day, count(*) FROM orders WHERE c IN (SELECT c FROM customers) GROUP BY day",
            [("Aggregate", 7)],
        ),
    ],
)
@pytest.mark.sampled(3)
def test_what_ran_by_itself_is_counted(
    counting: Counting, files: Path, text: str, expected: list[tuple[str, int]]
) -> None:
    assert counting.counted(query(counting, files, text)) == expected


@pytest.mark.parametrize(
    ("action", "number"),
    [
        (DataFrame.count, 2),
        (DataFrame.toArrow, 2),
        (lambda df: df.write.format("noop").mode("overwrite").save(), 2),
        (lambda df: df.head(3), 0),
        (lambda df: df.isEmpty(), 0),
        (lambda df: (df.sparkSession.range(9).groupBy("id").count().collect(), df.collect()), 2),
        (lambda df: (df.collect(), df.sparkSession.range(9).groupBy("id").count().collect()), 0),
    ],
)
@pytest.mark.sampled(3)
def test_whatever_action_runs_it(
    counting: Counting, files: Path, action: Callable[[DataFrame], Any], number: int
) -> None:
    df = query(counting, files, f"SELECT r, sum(amount) AS s FROM {JOINED} GROUP BY r")
    assert len(counting.counted(df, action)) == number


def test_what_another_query_has_left_is_not_counted(counting: Counting, files: Path) -> None:
    text = f"SELECT r, sum(amount) AS s FROM {JOINED} GROUP BY r"
    assert len(counting.counted(query(counting, files, text))) == 2
    assert counting.counted(query(counting, files, text)) == [("Aggregate", 40)]


# Some jobs to each.
@settings(SAME_EACH_TIME, max_examples=settings.default.max_examples // 2)
@pytest.mark.timeout(0)
@given(pipeline=pipelines)
def test_what_is_counted_of_random_pipelines_is_true(
    random_sources: SparkSession, pipeline: Pipeline
) -> None:
    counting = Counting(random_sources)
    try:
        asked = pipeline.stages(random_sources, PLAIN)[-1]
        found = counting.counted(asked, computed)
        event(f"counted: {len(found)}")
    finally:
        counting.live.stop()

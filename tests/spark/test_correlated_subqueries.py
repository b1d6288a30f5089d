"""Subqueries that refer to the plan around them, over tables that are kept on either side."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.runtime.vertex_outcome import VertexOutcome

pytestmark = pytest.mark.usefixtures("interpreted")

QUERIES = [
    "SELECT * FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.a = r.a)",
    "SELECT * FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.a = r.a AND s.c > r.b)",
    "SELECT * FROM r WHERE a IN (SELECT a FROM s WHERE s.c <= r.b) OR b = 20",
    "SELECT a, (SELECT max(c) FROM s WHERE s.a = r.a) AS m FROM r",
    "SELECT a, (SELECT max(c) FROM s WHERE s.a = r.a) + b, (SELECT count(*) FROM s) FROM r",
    "SELECT *, EXISTS (SELECT 1 FROM s WHERE s.a = r.a) AS e FROM r",
    "SELECT max((SELECT max(c) FROM s WHERE s.a = r.a)) AS m FROM r",
    "SELECT a FROM r GROUP BY a HAVING max(b) > (SELECT min(c) FROM s WHERE s.a = r.a)",
    "SELECT a, (SELECT count(*) FROM r z WHERE z.b < r.b) AS m FROM r",
    "SELECT * FROM r, LATERAL (SELECT r.b + c AS z FROM s WHERE s.a = r.a)",
    "SELECT * FROM r LEFT JOIN LATERAL (SELECT max(c) AS m FROM s WHERE s.a = r.a)",
    "SELECT * FROM r x JOIN r y ON x.a = y.a AND EXISTS (SELECT 1 FROM s WHERE s.a = x.a)",
    """SELECT a, (SELECT max(c) FROM s WHERE s.a = r.a
                  AND EXISTS (SELECT 1 FROM r z WHERE z.b = s.c)) AS m FROM r""",
]


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> Iterator[None]:
    """`r` and `s`, small and of several partitions each."""
    left = spark.createDataFrame([(1, 10), (1, 20), (2, 20), (3, 30)], "a int, b int")
    right = spark.createDataFrame([(1, 10), (2, 5), (2, 7), (9, 9)], "a int, c int")
    left.repartition(3).createOrReplaceTempView("r")
    right.repartition(3).createOrReplaceTempView("s")
    yield
    spark.catalog.dropTempView("r")
    spark.catalog.dropTempView("s")


@pytest.fixture(scope="module")
def answers(spark: SparkSession, views: None) -> dict[str, list[str]]:
    """Plain Spark's, by query."""
    return {query: sorted(map(repr, spark.sql(query).collect())) for query in QUERIES}


@pytest.mark.parametrize("cached", ["r", "s", "rs"])
@pytest.mark.sampled(2)
def test_what_is_kept_is_read(
    env: Environment,
    answers: dict[str, list[str]],
    caplog: pytest.LogCaptureFixture,
    cached: str,
) -> None:
    for name in cached:
        env.table(name).cache().collect()
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        for query, expected in answers.items():
            table = env.sql(query)
            assert sorted(map(repr, table.collect())) == expected, query
            result = env.last_job_result
            assert result is not None
            read = [each for each in result.vertices if each.outcome is VertexOutcome.READ]
            names = [name for name in cached if re.search(rf"(FROM|,) {name}\b", query)]
            assert len(read) == len(names), query
    assert not [record.getMessage() for record in caplog.records]

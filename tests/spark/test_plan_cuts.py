"""A job that stops anywhere goes on from the parts of its plan that its first start has kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes

pytestmark = pytest.mark.usefixtures("shop")

NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
Start = Callable[[], Environment]


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    home = tmp_path_factory.mktemp("shop")
    spark.range(2000).selectExpr(
        "id AS item",
        "id % 97 AS buyer",
        "id % 13 AS day",
        "cast(id % 31 AS decimal(12, 2)) AS price",
        "if(id % 5 = 0, null, concat('n', id % 7)) AS note",
    ).repartition(3).write.parquet(str(home / "sales"))
    spark.range(100).selectExpr(
        "id AS buyer", "concat('b', id % 11) AS city", "id % 3 AS kind"
    ).write.parquet(str(home / "buyers"))
    spark.range(500).selectExpr("id AS item", "id % 4 AS day").write.partitionBy("day").orc(
        str(home / "returns")
    )
    for name in ("sales", "buyers"):
        spark.read.parquet(str(home / name)).createOrReplaceTempView(name)
    spark.read.orc(str(home / "returns")).createOrReplaceTempView("returns")
    yield
    for name in ("sales", "buyers", "returns"):
        spark.catalog.dropTempView(name)


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path, elsewhere: Path) -> Iterator[Start]:
    """Starts of one job, where shuffles' own files can't be kept: the plan is cut instead."""
    started: list[Environment] = []
    config = {
        "execution.batch.job-recovery.enabled": True,
        "execution.batch.job-recovery.min-vertex-input": 0,
        "high-availability.storageDir": f"file://{tmp_path / 'ha'}",
        "intermediate-result-storage.directory": str(elsewhere),
        # A start that is only left, and not killed, would share what it has kept.
        "catalog.url": "none",
    }

    def make() -> Environment:
        started.append(Environment(spark, config=config))
        return started[-1]

    yield make
    for env in started:
        env.close()


GROUPS = "SELECT buyer, sum(price) p FROM sales GROUP BY buyer"
QUERIES = {
    "grouped": "SELECT city, sum(price) p FROM sales JOIN buyers USING (buyer) GROUP BY city",
    "join": "SELECT * FROM sales JOIN buyers USING (buyer) WHERE kind = 1",
    "ordered": "SELECT day, count(*) c FROM sales GROUP BY day ORDER BY c DESC, day LIMIT 5",
    "self join": """SELECT a.item, b.item AS other FROM sales a JOIN sales b
        ON a.buyer = b.buyer AND a.day = b.day AND a.item < b.item""",
    "self join of groups": f"""WITH g AS ({GROUPS})
        SELECT a.buyer, b.buyer AS other FROM g a JOIN g b ON a.p = b.p AND a.buyer < b.buyer""",
    "scalar subquery": f"{GROUPS} HAVING sum(price) > (SELECT avg(p) FROM ({GROUPS}))",
    "correlated subquery": """SELECT item FROM sales s
        WHERE price > (SELECT avg(price) FROM sales t WHERE t.buyer = s.buyer)""",
    "exists": """SELECT buyer FROM buyers b
        WHERE EXISTS (SELECT 1 FROM sales s WHERE s.buyer = b.buyer)""",
    "not in": "SELECT count(*) FROM sales WHERE item NOT IN (SELECT item FROM returns)",
    "outer": """SELECT city, day, r.item FROM buyers LEFT JOIN sales USING (buyer)
        LEFT JOIN returns r USING (item, day)""",
    "full": """SELECT * FROM (SELECT DISTINCT day FROM sales)
        FULL JOIN (SELECT DISTINCT day FROM returns) USING (day)""",
    "window": "SELECT item, avg(price) OVER (PARTITION BY day) a FROM sales",
    "top of each": """SELECT * FROM
        (SELECT *, rank() OVER (PARTITION BY day ORDER BY item) r FROM sales) WHERE r <= 2""",
    "distinct": "SELECT DISTINCT buyer, day FROM sales",
    "union": """SELECT day, count(*) FROM
        (SELECT day FROM sales UNION ALL SELECT day FROM returns) GROUP BY day""",
    "distinct counts": """
        SELECT day, count(DISTINCT buyer), count(DISTINCT note) FROM sales GROUP BY day""",
    "rollup": "SELECT day, buyer, sum(price) FROM sales GROUP BY ROLLUP (day, buyer)",
    "set operations": "SELECT item FROM sales EXCEPT SELECT item FROM returns",
    "pruned at run time": """SELECT r.item, city FROM returns r JOIN
        (SELECT day, max(buyer) buyer FROM sales WHERE note = 'n3' GROUP BY day) s USING (day)
        JOIN buyers USING (buyer)""",
    "common tables": f"""WITH s AS ({GROUPS}, day)
        SELECT count(*), (SELECT max(p) FROM s), (SELECT min(p) FROM s) FROM s""",
    "repeated names": """SELECT s.buyer, b.buyer, s.day AS buyer
        FROM sales s JOIN buyers b ON s.buyer = b.buyer""",
}


# Of the others it isn't said that cutting them is worth while.
CUT = {"grouped", "scalar subquery", "full", "distinct counts", "repeated names"}


def resumed(
    start: Start, query: Callable[[Environment], DataFrame], *, is_cut: bool = True
) -> Counter[str]:
    """The rows of a job that goes on where another start stands still: that has run its parts."""
    first, second = start(), start()
    held: Any = query(first).toLocalIterator()
    next(held)
    rows = Counter(map(repr, query(second).toLocalIterator()))
    held.close()
    assert VertexOutcome.PRODUCED not in outcomes(second), "other parts than those of the first"
    assert VertexOutcome.RECOVERED in outcomes(second) or not is_cut
    return rows


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.sampled(10)
def test_another_start_finds_the_parts_and_has_plain_spark_s_rows(
    spark: SparkSession, start: Start, settings: Any, name: str
) -> None:
    query = QUERIES[name]
    with settings(NO_BROADCAST):
        expected = Counter(map(repr, spark.sql(query).collect()))
        assert resumed(start, lambda env: env.sql(query), is_cut=name in CUT) == expected


def test_functions_called_by_row_are_parts(
    spark: SparkSession, start: Start, settings: Any
) -> None:
    twice = F.udf(lambda value: value * 2, "long")

    def query(env: Environment) -> DataFrame:
        doubled = env.table("sales").withColumn("twice", twice("item"))
        return doubled.groupBy("buyer").agg(F.sum("twice").alias("s")).groupBy("s").count()

    with settings(NO_BROADCAST):
        expected = spark.sql("""SELECT s, count(*) FROM
            (SELECT sum(item * 2) AS s FROM sales GROUP BY buyer) GROUP BY s""")
        assert resumed(start, query).total() == expected.count()


# What is different each time, depends on an order, or can't be kept, is below the last shuffle.
NO_PARTS = {
    "chance": "SELECT uuid() v FROM sales",
    "an order": "SELECT array_size(collect_list(item)) v FROM sales GROUP BY day",
    "any rows": "SELECT item AS v FROM sales LIMIT 7",
    "an interval": "SELECT DISTINCT CAST(make_interval(1, day) AS STRING) v FROM sales",
    "no fields": "SELECT to_json(max(struct(struct() AS x, day))) v FROM sales GROUP BY day",
}


@pytest.mark.parametrize("what", NO_PARTS)
@pytest.mark.sampled(5)
def test_what_can_t_be_kept_is_computed_by_each_start(
    spark: SparkSession, start: Start, settings: Any, what: str
) -> None:
    query = (
        f"SELECT n, count(*) FROM (SELECT count(*) n FROM ({NO_PARTS[what]}) GROUP BY v) GROUP BY n"
    )
    with settings(NO_BROADCAST):
        held: Any = start().sql(query).toLocalIterator()
        next(held)
        found = Counter(map(repr, start().sql(query).toLocalIterator()))
        assert found == Counter(map(repr, spark.sql(query).collect()))
        held.close()


def test_a_table_that_spark_has_persisted_is_no_part(
    spark: SparkSession, start: Start, settings: Any
) -> None:
    held = spark.sql("SELECT buyer, count(*) n FROM sales GROUP BY buyer").persist()
    query = (
        "SELECT n, count(*) FROM (SELECT buyer, count(*) n FROM sales GROUP BY buyer) GROUP BY n"
    )
    try:
        expected = spark.sql(query).collect()
        env = start()
        assert sorted(env.sql(query).collect()) == sorted(expected)
        assert outcomes(env) == [VertexOutcome.RUN]
    finally:
        held.unpersist(blocking=True)

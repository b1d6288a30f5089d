"""Plans that are cut give the same rows, and their cuts are found again by other applications."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.graph.plan_cuts import CutLimits
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.execution_listeners import ExecutionListeners
from holdfast.runtime.vertex_runner import Production
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.keepable_types import is_keepable
from holdfast.spark.plans.optimized_query import Cut, OptimizedQueries
from holdfast.spark.session_settings import session_inputs
from holdfast.spark.spark_vertex_runner import SparkVertexRunner
from holdfast.storage.kept_dataset import KeptDataSet

EVERYWHERE = CutLimits(0, -1, 1e9, 1e-6, 0, 1000)
NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}


@dataclass
class Cutter:
    """One application that cuts plans and keeps the parts."""

    spark: SparkSession
    bridge: CatalystBridge
    queries: OptimizedQueries
    runner: SparkVertexRunner

    def optimized(self, df: DataFrame, kept: tuple[KeptDataSet, ...] = ()) -> Query:
        analyzed = df._jdf.queryExecution().analyzed()
        return self.queries.of(analyzed, session_inputs(self.spark), kept)

    def cuts(self, df: DataFrame) -> list[Cut]:
        return self.queries.cuts(self.optimized(df), EVERYWHERE)

    def keep(self, query: Query, reads: dict[str, KeptDataSet] | None = None) -> KeptDataSet:
        known = reads or {}
        inputs = session_inputs(self.spark)
        return self.runner.keep(
            Production(
                query,
                inputs,
                JobID.random(),
                IntermediateDataSetID(inputs.dataset_digest(query.root)),
                "a cut",
                lambda node: known.get(node.digest),
                ExecutionListeners(),
            )
        )

    def rows_with_cuts(self, df: DataFrame, *, expected: bool = True) -> list[str]:
        """Keeps every part that may be kept, and reads them."""
        query = self.optimized(df)
        kept: dict[str, KeptDataSet] = {}
        for cut in self.queries.cuts(query, EVERYWHERE):
            kept[cut.node.digest] = self.keep(cut.query, kept)
        assert kept or not expected

        def reads(node: CanonicalNode) -> KeptDataSet | None:
            return kept.get(node.digest)

        return rows(self.runner.substituted(query, query.root, reads))


def rows(df: DataFrame) -> list[str]:
    return sorted(repr(row) for row in df.collect())


@pytest.fixture
def applications(spark: SparkSession, tmp_path: Path) -> Iterator[Any]:
    """Makes applications that know nothing of each other."""
    with ExitStack() as open_storages:

        def make(name: str) -> Cutter:
            storage = EmbeddedStorage(tmp_path / name)
            open_storages.callback(storage.close)
            bridge = CatalystBridge(spark, name)
            runner = SparkVertexRunner(spark, bridge, storage, "zstd")
            return Cutter(spark, bridge, OptimizedQueries(spark, bridge), runner)

        yield make


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
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
    spark.read.parquet(str(home / "sales")).createOrReplaceTempView("sales")
    spark.read.parquet(str(home / "buyers")).createOrReplaceTempView("buyers")
    spark.read.orc(str(home / "returns")).createOrReplaceTempView("returns")
    yield home
    for name in ("sales", "buyers", "returns"):
        spark.catalog.dropTempView(name)


QUERIES = {
    "join": "SELECT * FROM sales JOIN buyers USING (buyer) WHERE kind = 1",
    "grouped": "SELECT city, sum(price) p FROM sales JOIN buyers USING (buyer) GROUP BY city",
    "ordered": "SELECT day, count(*) c FROM sales GROUP BY day ORDER BY c DESC, day LIMIT 5",
    "self join": """
        SELECT a.item, b.item AS other FROM sales a JOIN sales b
        ON a.buyer = b.buyer AND a.day = b.day AND a.item < b.item""",
    "self join of groups": """
        WITH g AS (SELECT buyer, sum(price) p FROM sales GROUP BY buyer)
        SELECT a.buyer, b.buyer AS other FROM g a JOIN g b ON a.p = b.p AND a.buyer < b.buyer""",
    "scalar subquery": """
        SELECT buyer, sum(price) FROM sales GROUP BY buyer
        HAVING sum(price) > (SELECT avg(p) FROM (SELECT sum(price) p FROM sales GROUP BY buyer))""",
    "correlated subquery": """
        SELECT item FROM sales s
        WHERE price > (SELECT avg(price) FROM sales t WHERE t.buyer = s.buyer)""",
    "exists": """
        SELECT buyer FROM buyers b
        WHERE EXISTS (SELECT 1 FROM sales s WHERE s.buyer = b.buyer)""",
    "not in": "SELECT count(*) FROM sales WHERE item NOT IN (SELECT item FROM returns)",
    "outer": """
        SELECT city, day, r.item FROM buyers LEFT JOIN sales USING (buyer)
        LEFT JOIN returns r USING (item, day)""",
    "full": """
        SELECT * FROM (SELECT DISTINCT day FROM sales)
        FULL JOIN (SELECT DISTINCT day FROM returns) USING (day)""",
    "window": "SELECT item, avg(price) OVER (PARTITION BY day) a FROM sales",
    "top of each": """
        SELECT * FROM (SELECT *, rank() OVER (PARTITION BY day ORDER BY item) r FROM sales)
        WHERE r <= 2""",
    "distinct": "SELECT DISTINCT buyer, day FROM sales",
    "union": """
        SELECT day, count(*) FROM (SELECT day FROM sales UNION ALL SELECT day FROM returns)
        GROUP BY day""",
    "distinct counts": """
        SELECT day, count(DISTINCT buyer), count(DISTINCT note) FROM sales GROUP BY day""",
    "rollup": "SELECT day, buyer, sum(price) FROM sales GROUP BY ROLLUP (day, buyer)",
    "set operations": "SELECT item FROM sales EXCEPT SELECT item FROM returns",
    "pruned at run time": """
        SELECT r.item, city FROM returns r JOIN
        (SELECT day, max(buyer) buyer FROM sales WHERE note = 'n3' GROUP BY day) s USING (day)
        JOIN buyers USING (buyer)""",
    "common tables": """
        WITH s AS (SELECT buyer, day, sum(price) p FROM sales GROUP BY buyer, day)
        SELECT count(*), (SELECT max(p) FROM s), (SELECT min(p) FROM s) FROM s""",
    "repeated names": """
        SELECT s.buyer, b.buyer, s.day AS buyer FROM sales s JOIN buyers b ON s.buyer = b.buyer""",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
@pytest.mark.sampled(3)
def test_rows_are_those_of_plain_spark(
    spark: SparkSession, shop: Path, applications: Any, settings: Any, query: str
) -> None:
    with settings(NO_BROADCAST):
        assert applications("one").rows_with_cuts(spark.sql(query)) == rows(spark.sql(query))


@pytest.mark.parametrize("query", ["join", "scalar subquery", "exists", "pruned at run time"])
def test_rows_are_those_of_plain_spark_with_broadcasts(
    spark: SparkSession, shop: Path, applications: Any, query: str
) -> None:
    df = spark.sql(QUERIES[query])
    assert applications("one").rows_with_cuts(df, expected=False) == rows(df)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_another_application_finds_the_same_cuts(
    spark: SparkSession, shop: Path, applications: Any, settings: Any, query: str
) -> None:
    one, two = applications("one"), applications("two")
    with settings(NO_BROADCAST):
        found = [cut.node.digest for cut in one.cuts(spark.sql(query))]
        assert [cut.node.digest for cut in two.cuts(spark.sql(query))] == found


@pytest.mark.parametrize(
    ("query", "aggregates"),
    [
        ("grouped", False),
        ("ordered", True),
        ("correlated subquery", True),
        ("distinct", True),
        ("join", False),
        ("window", False),
    ],
)
def test_what_is_aggregated_as_it_is_read_is_known(
    spark: SparkSession,
    shop: Path,
    applications: Any,
    settings: Any,
    query: str,
    aggregates: bool,
) -> None:
    with settings(NO_BROADCAST):
        analyzed = spark.sql(QUERIES[query])._jdf.queryExecution().analyzed()
        cut = applications("one").queries.cut(analyzed, session_inputs(spark), EVERYWHERE)
    assert cut is not None and cut.effort.partial_aggregation is aggregates


def test_functions_called_by_row_are_cut(
    spark: SparkSession, shop: Path, applications: Any
) -> None:
    twice = F.udf(lambda value: value * 2, "long")

    def query() -> Any:
        doubled = spark.table("sales").withColumn("twice", twice("item"))
        return doubled.groupBy("buyer").agg(F.sum("twice").alias("s")).where("s > 10")

    one, two = applications("one"), applications("two")
    assert one.rows_with_cuts(query()) == rows(query())
    assert [c.node.digest for c in one.cuts(query())] == [c.node.digest for c in two.cuts(query())]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT uuid() v FROM sales",
        "SELECT collect_list(item) v FROM sales GROUP BY day",
        "SELECT buyer AS v FROM sales LIMIT 7",
    ],
    ids=["nobody can repeat it", "order counts", "any rows"],
)
def test_what_comes_out_differently_is_not_cut(
    spark: SparkSession, shop: Path, applications: Any, query: str
) -> None:
    counts = spark.sql(f"SELECT count(*) n FROM ({query}) GROUP BY v")
    cuts = applications("one").cuts(counts.groupBy("n").agg(F.count("*")))
    # What is read may be kept, and nothing that is made of it.
    assert all(cut.node.operator in ("Project", "LogicalRelation") for cut in cuts)
    assert all(not cut.node.layout_sensitive and not cut.node.all_doubts() for cut in cuts)


@pytest.mark.parametrize(
    ("columns", "keepable"),
    [
        (["id", "array(id) a"], True),
        ([], True),
        (["id", "make_interval(1) i"], False),
        (["array(struct()) s"], False),
        (["null n"], True),
    ],
    ids=["plain", "none", "interval", "struct without fields", "void"],
)
def test_only_what_can_be_kept_is_cut(
    spark: SparkSession, columns: list[str], keepable: bool
) -> None:
    plan = spark.range(3).selectExpr(*columns)._jdf.queryExecution().analyzed()
    assert is_keepable(spark, plan) == keepable


def test_rows_of_this_application_alone_are_not_cut(
    spark: SparkSession, shop: Path, applications: Any
) -> None:
    own = spark.createDataFrame(spark.sparkContext.parallelize([(1, 2)]), "day long, n long")
    df = own.join(spark.table("sales"), "day").groupBy("n").count().groupBy("count").count()
    assert applications("one").cuts(df) == []


def test_a_persisted_table_is_left_alone(
    spark: SparkSession, shop: Path, applications: Any
) -> None:
    held = spark.sql("SELECT buyer, count(*) n FROM sales GROUP BY buyer").persist()
    try:
        times = held.groupBy("n").agg(F.count("*").alias("times"))
        assert applications("one").cuts(times.groupBy("times").agg(F.max("n"))) == []
    finally:
        held.unpersist(blocking=True)


@pytest.mark.parametrize("cached", ["grouped", "one file", "ordered rows"])
def test_kept_tables_count_by_what_they_are(
    spark: SparkSession, shop: Path, applications: Any, settings: Any, cached: str
) -> None:
    inner = {
        "grouped": "SELECT buyer, day, sum(price) p FROM sales GROUP BY buyer, day",
        "one file": "SELECT /*+ COALESCE(1) */ buyer, day, price p FROM sales",
        "ordered rows": "SELECT buyer, day, price p FROM sales ORDER BY item",
    }[cached]
    digests = []
    with settings({**NO_BROADCAST, "spark.sql.adaptive.enabled": "false"}):
        for name in ("one", "two"):
            app = applications(name)
            source = app.bridge.query(spark.sql(inner))
            kept = app.keep(source)
            read = app.runner.substituted(source, source.root, lambda _, kept=kept: kept)
            df = read.where("p > 3").join(spark.table("buyers"), "buyer").groupBy("day").count()
            query = app.optimized(df.where("count > 0"), (kept,))
            cuts = app.queries.cuts(query, EVERYWHERE)
            assert cuts
            paths = {path for cut in cuts for path, *_ in cut.node.source_files()}
            assert not any(place in path for path in paths for place in kept.directories)
            digests.append([cut.node.digest for cut in cuts])
    assert digests[0] == digests[1]


def test_part_of_a_kept_table_is_never_cut(
    spark: SparkSession, shop: Path, applications: Any, settings: Any
) -> None:
    app = applications("one")
    source = app.bridge.query(spark.sql("SELECT buyer, day FROM sales"))
    kept = app.keep(source)
    assert len(kept.locations) > 1
    part = spark.read.parquet(kept.locations[0]).groupBy("buyer").count()
    df = part.join(spark.table("buyers"), "buyer").groupBy("city").count().where("count > 0")
    with settings(NO_BROADCAST):
        for cut in app.queries.cuts(app.optimized(df, (kept,)), EVERYWHERE):
            paths = {path for path, *_ in cut.node.source_files()}
            assert paths and all("buyers" in path for path in paths)

"""What queries compute again and again is kept unasked, and gives plain Spark's rows."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import Environment
from holdfast.advice.ran_query import RanQuery
from holdfast.advice.storage_use import StorageUse
from holdfast.api.recurring_results import RecurringResults
from holdfast.cli.main import main
from holdfast.runtime.wanted import CachedComputation
from holdfast.spark.session_settings import session_inputs


class Keeping:
    """An environment that keeps what recurs, beside plain Spark.

    The program isn't idle until it says so, however long plain Spark takes.
    """

    def __init__(self, env: Environment, plain: SparkSession) -> None:
        self.env = env
        self.plain = plain
        self._computed = 0
        self._busy = ExitStack()
        self._busy.enter_context(self.recurring.behind.answering())

    @property
    def recurring(self) -> RecurringResults:
        found = self.env._implicit.recurring
        assert found is not None
        return found

    def is_idle(self) -> None:
        """From now on the program is."""
        self._busy.close()

    def run(self, make: Any) -> list[str]:
        """What a query reads and produces; its rows are those of plain Spark."""
        # First, as what runs first takes longer than what could have been saved of it.
        expected = make(self.plain).collect()
        rows = make(self.env).collect()
        assert sorted(map(repr, rows)) == sorted(map(repr, expected))
        self.learned()
        result = self.env.last_job_result
        assert result is not None
        return [each.outcome.value for each in result.vertices][:-1]

    def compute(
        self,
        asking: Callable[[str, str], Any],
        times: int = 1,
        *,
        by: str = "region",
        of_some_rows: bool = False,
    ) -> None:
        """Has a join computed so often, each time for something else.

        Args:
            asking: makes a query of what is selected of the join, and of what follows that.
            times: how often.
            by: what it is grouped by.
            of_some_rows: not of all that it has.
        """
        for _ in range(times):
            self._computed += 1
            counts = " + ".join([f"count({by})"] * self._computed)
            where = f"WHERE {by} <> '{self._computed}' " if of_some_rows else ""
            found = self.run(asking(counts, f"{where}GROUP BY {by}"))
            # Of a join that is known, what is asked for is kept as it is.
            assert found == [] or (found == ["produced"] and not of_some_rows)

    def learned(self) -> None:
        """What the last queries tell is known."""
        self.recurring.learn_all()


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of its own, with its own settings."""
    session = spark.newSession()
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    session.conf.set("spark.sql.shuffle.partitions", "3")
    yield session


# Of what reuses most of a join nothing is kept, and how much that is, is a matter of time.
NOTHING_REUSED = {"implicit-cache.live-shuffles.max-size": "1 b"}


def like(session: SparkSession) -> SparkSession:
    """Another session with the same settings."""
    other = session.newSession()
    for key in ("autoBroadcastJoinThreshold", "shuffle.partitions"):
        other.conf.set(f"spark.sql.{key}", session.conf.get(f"spark.sql.{key}"))
    return other


def config(home: Path, **more: Any) -> dict[str, Any]:
    return {
        "intermediate-result-storage.directory": str(home / "kept"),
        "implicit-cache.enabled": True,
        "implicit-cache.results.min-saved-time": "0 s",
        **more,
    }


@pytest.fixture
def keeping(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Iterator[Keeping]:
    """An environment that keeps whatever recurs, beside plain Spark; no query may need the latter
    as a way out."""
    plain = like(session)
    with (
        caplog.at_level(logging.DEBUG, logger="holdfast.runtime.job_master"),
        Environment(session, config=config(tmp_path, **NOTHING_REUSED)) as env,
    ):
        yield Keeping(env, plain)
    assert "is run as it was written" not in caplog.text
    assert "is not looked at" not in caplog.text


@pytest.fixture
def tables(session: SparkSession, tmp_path: Path) -> Path:
    """Two tables of files, `sales` and `shops`."""
    write(session, tmp_path / "sales", 20_000)
    shops = session.range(70).select(
        F.col("id").alias("shop"),
        F.concat(F.lit("n"), "id").alias("name"),
        (F.col("id") % 5).alias("region"),
        F.lit("a comment that nobody reads").alias("comment"),
    )
    shops.write.parquet(str(tmp_path / "shops"))
    return tmp_path


def write(session: SparkSession, path: Path, rows: int, mode: str = "error") -> None:
    sales = session.range(rows).select(
        "id", (F.col("id") % 70).alias("shop"), (F.col("id") % 9).alias("v"), F.lit("x").alias("w")
    )
    sales.write.mode(mode).parquet(str(path))


def joined(session: Any, tables: Path) -> DataFrame:
    sales = session.read.parquet(str(tables / "sales"))
    shops = session.read.parquet(str(tables / "shops"))
    return sales.join(shops, "shop")


def by(tables: Path, column: str, least: int = -1) -> Any:
    def make(session: Any) -> DataFrame:
        found = joined(session, tables).where(F.col("v") > least).groupBy(column)
        # An average of whole numbers isn't made of other groups: the join is kept, or nothing.
        return found.agg(F.avg("v").alias("s"), F.count("*").alias("n"))

    return make


def test_a_join_that_recurs_is_kept_with_the_columns_that_are_used(
    keeping: Keeping, tables: Path
) -> None:
    assert keeping.run(by(tables, "region")) == []
    assert keeping.run(by(tables, "region", 2)) == ["produced"]
    [kept] = keeping.env.list_cached()
    assert kept.computes.startswith("recurring: ")
    assert keeping.run(by(tables, "region", 4)) == ["read from cache"]
    schema = SparkSession.read.fget(keeping.plain).parquet(*kept.locations).columns  # type: ignore
    assert len([each for each in schema if not each.startswith("__")]) == 2


def test_what_takes_longer_to_read_than_to_compute_is_computed(
    keeping: Keeping, tables: Path
) -> None:
    for least in range(3):
        keeping.run(by(tables, "region", least))
    last = keeping.env._history.queries[-1]
    [part] = [each for each in last.root.walk() if each.what.startswith("Join")]
    assert part.key is not None
    # As little as it has cost, and as slowly as it can have been read.
    cheap = replace(last, root=replace(part, own_seconds=1e-9, inputs=()))
    slow = StorageUse(part.key, False, 100, 1e6, 0.0)
    for _ in range(9):
        keeping.env._history.add(RanQuery(cheap, uses=(slow,)))
    told = keeping.env.explain_kept(by(tables, "region", 4)(keeping.env))
    assert "not read: Join" in told and "s to compute, and " in told
    assert keeping.run(by(tables, "region", 4)) == []


def test_columns_that_were_not_kept_are_computed(keeping: Keeping, tables: Path) -> None:
    for least in range(3):
        keeping.run(by(tables, "region", least))
    assert keeping.run(by(tables, "name", 5)) == []
    assert keeping.run(by(tables, "name", 6)) == ["produced"]
    assert keeping.run(by(tables, "name", 7)) == ["read from cache"]
    assert keeping.run(by(tables, "region", 8)) == ["read from cache"]


def test_columns_are_called_as_the_query_calls_them(keeping: Keeping, tables: Path) -> None:
    for names in (["V", "region"], ["REGION", "name"], ["Name", "v", "V"], ["region", "ID"]) * 2:

        def make(session: Any, names: list[str] = names) -> DataFrame:
            return joined(session, tables).select(*names)

        keeping.run(make)
        assert make(keeping.env).columns == make(keeping.plain).columns == names
        assert make(keeping.env).toPandas().columns.tolist() == names
    assert len(keeping.env.list_cached()) > 0


def test_a_part_that_stands_in_a_query_twice_is_kept_with_the_columns_of_both_places(
    keeping: Keeping, tables: Path
) -> None:
    def twice(one: str, other: str) -> Any:
        def make(session: Any) -> DataFrame:
            halves = [
                joined(session, tables)
                .groupBy(F.col(key).cast("string").alias("k"))
                .agg(F.avg("v").alias("count"))
                for key in (one, other)
            ]
            return halves[0].union(halves[1])

        return make

    keeping.run(twice("region", "name"))
    keeping.run(twice("name", "v"))
    for one, other in (("region", "v"), ("region", "w"), ("name", "w"), ("w", "region")):
        keeping.run(twice(one, other))
    assert keeping.env.list_cached()


def test_a_query_that_is_written_in_another_way_uses_what_it_needs(
    keeping: Keeping, tables: Path
) -> None:
    def narrow(session: Any, least: int) -> DataFrame:
        found = joined(session, tables).select("region", "v")
        return found.where(F.col("v") > least).select("region")

    def wide(session: Any, least: int) -> DataFrame:
        found = joined(session, tables).where(F.col("v") > least).select("region", "v", "name")
        return found.select("region")

    # Shuffles that took long, as Spark had just been started, would be worth more than what's kept.
    narrow(keeping.plain, 0).collect()
    # With other literals, so that no query reads the shuffles of another one instead.
    for least in (1, 2, 3, 1, 2, 3):
        for make in (narrow, wide):
            keeping.run(partial(make, least=least))
    assert keeping.env.list_cached()


def test_files_that_change_are_read_anew(
    keeping: Keeping, tables: Path, session: SparkSession
) -> None:
    for least in range(3):
        keeping.run(by(tables, "region", least))
    write(session, tables / "sales", 500, "append")
    assert keeping.run(by(tables, "region", 3)) != ["read from cache"]
    keeping.run(by(tables, "region", 4))
    assert keeping.run(by(tables, "region", 5)) == ["read from cache"]
    write(session, tables / "sales", 700, "overwrite")
    assert keeping.run(by(tables, "region", 6)) != ["read from cache"]


def test_what_recurs_each_day_is_kept_the_first_time_over_new_files(
    keeping: Keeping, tables: Path, session: SparkSession
) -> None:
    def run_the_day(day: int) -> list[list[str]]:
        write(session, tables / "sales", 20_000 + day, "overwrite")
        return [keeping.run(by(tables, "region", least)) for least in (0, 1, 2)]

    assert run_the_day(1) == [[], ["produced"], ["read from cache"]]
    assert run_the_day(2) == [["produced"], ["read from cache"], ["read from cache"]]


def test_a_cache_is_an_order(keeping: Keeping, tables: Path) -> None:
    cached = joined(keeping.env, tables).cache()
    for least in range(4):
        query = cached.where(F.col("v") > least).groupBy("region").count()
        expected = joined(keeping.plain, tables).where(F.col("v") > least).groupBy("region").count()
        assert sorted(query.collect()) == sorted(expected.collect())
        keeping.learned()
    keeping.is_idle()
    assert keeping.recurring.behind.settle(60)
    assert [each.computes.startswith("recurring") for each in keeping.env.list_cached()] == [False]


IN_DOUBT: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "random": (
        lambda sales: sales.select("v", F.rand().alias("r")).groupBy("v").agg(F.max("r")),
        "Aggregate over sales\n"
        "  in doubt: there is Rand, which depends on how rows are partitioned among tasks",
    ),
    "time": (
        lambda sales: sales.select("v", F.current_timestamp().alias("t")).distinct(),
        "Distinct over sales\n  in doubt: there is CurrentTimestamp, which depends on when or "
        "where it is computed",
    ),
    "code": (
        lambda sales: sales.select(F.udf(lambda v: v, "long")("v").alias("v")).distinct(),
        "Distinct over sales\n  in doubt: Project runs functions that aren't Spark's",
    ),
    "session": (
        lambda sales: sales.join(
            sales.sparkSession.sparkContext.parallelize([(1,)]).toDF(["v"]), "v"
        ),
        "Join over sales, rows in memory\n  in doubt: there is an RDD, which no other program has",
    ),
    "pairs": (
        lambda sales: sales.alias("a").join(
            sales.where("id < 9").alias("b"), F.expr("a.id < b.id - 9")
        ),
        "Join, Filter over sales\n  it joins by no equality, so that rows multiply",
    ),
    "ties": (
        lambda sales: (
            sales.selectExpr("v", "row_number() OVER (ORDER BY v) AS n")
            .groupBy("v")
            .agg(F.max("n"))
        ),
        "Aggregate, Window over sales\n"
        "  in doubt: there is RowNumber, which depends on the order of rows that tie",
    ),
    "first": (
        lambda sales: sales.groupBy("v").agg(F.first("id")),
        "Aggregate over sales\n"
        "  in doubt: there is First, which depends on how rows are partitioned among tasks",
    ),
}


@pytest.mark.parametrize("doubt", IN_DOUBT)
def test_it_is_told_which_part_is_in_doubt(
    keeping: Keeping, tables: Path, doubt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, expected = IN_DOUBT[doubt]
    asked = make(keeping.env.read.parquet(str(tables / "sales")))
    told = keeping.env.explain_kept(asked)
    assert f"not kept unasked: {expected}" in told
    asked.collect()
    keeping.learned()
    assert main(["why", "--directory", str(tmp_path / "kept")]) == 0
    assert f"not kept: {expected}".split("\n  ") == [
        line.strip() for line in capsys.readouterr().out.splitlines()[-2:]
    ]


@pytest.mark.parametrize("is_leaf", [False, True])
def test_what_spark_has_persisted_is_left_to_it(
    keeping: Keeping, tables: Path, is_leaf: bool
) -> None:
    sales = keeping.plain.read.parquet(str(tables / "sales"))
    persisted = (sales if is_leaf else joined(keeping.plain, tables)).persist()
    try:
        for least in range(4):
            assert keeping.run(by(tables, "region", least)) == []
        shown = keeping.env.explain_kept(by(tables, "region", 4)(keeping.env))
        assert "Spark has persisted it, or a part of it" in shown
    finally:
        persisted.unpersist(blocking=True)
    assert "persisted" not in keeping.env.explain_kept(by(tables, "region", 4)(keeping.env))


def test_what_spark_has_persisted_elsewhere_does_not_matter(keeping: Keeping, tables: Path) -> None:
    shops = keeping.plain.read.parquet(str(tables / "shops"))
    persisted = shops.groupBy("region").count().persist()
    try:
        ran = [keeping.run(by(tables, "region", least)) for least in range(4)]
    finally:
        persisted.unpersist(blocking=True)
    assert ran == [[], ["produced"], ["read from cache"], ["read from cache"]]


def test_rows_of_files_that_spark_has_persisted_before_they_changed(
    keeping: Keeping, tables: Path
) -> None:
    for least in range(3):
        keeping.run(by(tables, "region", least))
    persisted = keeping.plain.read.parquet(str(tables / "sales")).persist()
    try:
        persisted.count()
        # Not by Spark, which would look for what it has persisted of them.
        (one, *_) = sorted((tables / "sales").glob("*.parquet"))
        table = pyarrow.parquet.read_table(one)
        pyarrow.parquet.write_table(table.slice(0, 5), one)
        one.with_name(f".{one.name}.crc").unlink()
        for _ in range(3):
            keeping.run(by(tables, "region"))
    finally:
        persisted.unpersist(blocking=True)
    for _ in range(3):
        keeping.run(by(tables, "region"))


def test_an_action_that_takes_some_rows_does_not_wait_for_all_to_be_kept(
    keeping: Keeping, tables: Path
) -> None:
    for least in range(4):
        table = by(tables, "region", least)(keeping.env)
        assert len(table.take(2)) == 2
        keeping.learned()
        result = keeping.env.last_job_result
        assert result is not None
        assert [each.outcome.value for each in result.vertices] == ["run"]
    assert keeping.run(by(tables, "region", 5)) == ["produced"]
    table = by(tables, "region", 6)(keeping.env)
    assert len(table.take(2)) == 2
    assert "read from cache" in str(keeping.env.last_job_result)


def test_what_is_not_deterministic_is_never_kept(keeping: Keeping, tables: Path) -> None:
    def make(session: Any) -> DataFrame:
        found = joined(session, tables).withColumn("r", F.rand()).where("r >= 0")
        return found.groupBy("region").agg(F.count("*"))

    for _ in range(4):
        keeping.run(make)
    assert all("Join" in each.computes for each in keeping.env.list_cached())


def test_what_functions_in_python_compute_is_never_kept(keeping: Keeping, tables: Path) -> None:
    calls = F.udf(lambda value: value + 1, "long")

    def make(session: Any) -> DataFrame:
        below = joined(session, tables).withColumn("u", calls("v")).groupBy("u").count()
        shops = session.read.parquet(str(tables / "shops"))
        return below.join(shops, below.u == shops.region).groupBy("name").agg(F.sum("count"))

    for _ in range(4):
        keeping.run(make)
    kept = [each.computes for each in keeping.env.list_cached()]
    assert kept in ([], ["recurring: Join over sales, shops"])


def test_a_join_without_an_equality_is_never_kept(keeping: Keeping, tables: Path) -> None:
    def make(session: Any) -> DataFrame:
        shops = session.read.parquet(str(tables / "shops"))
        pairs = shops.alias("a").crossJoin(shops.alias("b"))
        return pairs.where("a.region < b.region").select("a.name")

    for _ in range(4):
        keeping.run(make)
    assert keeping.env.list_cached() == []


def test_joins_whose_conditions_are_in_a_filter(keeping: Keeping, tables: Path) -> None:
    def written(columns: str, tables_and_conditions: str) -> Any:
        def make(session: Any) -> DataFrame:
            for name in ("sales", "shops"):
                session.read.parquet(str(tables / name)).createOrReplaceTempView(name)
            return session.sql(f"SELECT {columns} FROM {tables_and_conditions}")

        return make

    totals = "region, avg(v) AS s"
    pairs = "sales a, shops b WHERE a.shop = b.shop"
    ran = [
        keeping.run(written(totals, f"{pairs} AND a.v > {least} GROUP BY region"))
        for least in range(3)
    ]
    assert ran == [[], ["produced"], ["read from cache"]]
    turned = "shops b, shops c, sales a WHERE a.shop = b.shop AND c.shop = a.shop"
    for least in range(3):
        keeping.run(written("c.name, max(b.region)", f"{turned} AND v > {least} GROUP BY c.name"))
    keeping.run(written("*", f"{turned} AND v = 7"))
    joined_in_words = "sales a JOIN shops b ON a.shop = b.shop WHERE v > 5 GROUP BY region"
    assert keeping.run(written(totals, joined_in_words)) == ["read from cache"]
    inside = f"shops WHERE EXISTS (SELECT 1 FROM {pairs} AND b.region = shops.region AND v > 7)"
    for _ in range(3):
        keeping.run(written("name", inside))
    # Spark's simplifier leaves out, and splits, what is written here.
    simpler = "sales a, shops b WHERE 1 = 1 AND a.shop = b.shop AND v > 7"
    either = "sales a, shops b WHERE (a.shop = b.shop AND v = 7 OR a.shop = b.shop AND v = 8)"
    for conditions in (simpler, either):
        for shop in range(3):
            keeping.run(written("max(name), count(*)", f"{conditions} AND a.shop > {shop}"))
    unjoined = "shops a, shops b WHERE a.region > b.region GROUP BY a.region"
    for _ in range(4):
        keeping.run(written("a.region, avg(a.shop)", unjoined))
    kept = [each.computes for each in keeping.env.list_cached()]
    assert "recurring: Join over sales, shops" in kept


def test_another_program_reads_what_was_kept(
    session: SparkSession, tables: Path, tmp_path: Path
) -> None:
    with Environment(session, config=config(tmp_path, **NOTHING_REUSED)) as env:
        first = Keeping(env, session.newSession())
        assert first.run(by(tables, "region", 1)) == []
        assert first.run(by(tables, "region", 2)) == ["produced"]
    with Environment(session, config=config(tmp_path, **NOTHING_REUSED)) as env:
        second = Keeping(env, session.newSession())
        assert second.run(by(tables, "region", 3)) == ["read from cache"]
        told = env.explain_kept(by(tables, "region", 4)(env))
        assert "read: recurring: Join over sales, shops\n" in told
        assert (
            "not kept unasked: Aggregate, Filter, Join over sales, shops\n  asked for once" in told
        )


def test_what_is_kept_unasked_makes_room_for_what_is_cached(
    session: SparkSession, tables: Path, tmp_path: Path
) -> None:
    def kept_of_the_join(env: Environment) -> tuple[Keeping, int]:
        keeping = Keeping(env, session.newSession())
        assert keeping.run(by(tables, "region", 1)) == []
        assert keeping.run(by(tables, "region", 2)) == ["produced"]
        [kept] = env.list_cached()
        assert kept.bytes is not None
        return keeping, kept.bytes

    with Environment(session, config=config(tmp_path / "large", **NOTHING_REUSED)) as env:
        _, size = kept_of_the_join(env)
        shops = env.read.parquet(str(tables / "shops")).cache()
        shops.count()
        [needed] = [each.bytes for each in env.list_cached() if each.rows == 70]
        assert needed is not None
    # Either has room, and not both.
    size = max(size, needed)
    most = {**NOTHING_REUSED, "intermediate-result-storage.max-size": f"{size + 10} b"}
    with Environment(session, config=config(tmp_path / "small", **most)) as env:
        keeping, _ = kept_of_the_join(env)
        assert keeping.run(by(tables, "region", 3)) == ["read from cache"]
        shops = env.read.parquet(str(tables / "shops")).cache(name="shops")
        assert shops.count() == 70
        [kept] = [each.computes for each in env.list_cached() if each.dataset_id]
        assert kept.startswith("shops: ")
        # Of the join, it is the shops that are read.
        assert keeping.run(by(tables, "region", 4)) == ["read from cache"]
        assert shops.count() == 70
        result = env.last_job_result
        assert result is not None and result.vertices[0].outcome.value == "read from cache"


def test_a_program_keeps_at_once_what_others_have_computed(
    session: SparkSession, tables: Path, tmp_path: Path
) -> None:
    for expected in ([], ["produced"], ["read from cache"]):
        with Environment(session, config=config(tmp_path)) as env:
            assert Keeping(env, session.newSession()).run(by(tables, "region")) == expected


def test_no_results_are_kept_where_shuffles_alone_are_to_be_reused(
    session: SparkSession, tables: Path, tmp_path: Path
) -> None:
    less = config(tmp_path, **{"implicit-cache.results.enabled": False})
    with Environment(session, config=less) as env:
        for least in range(4):
            by(tables, "region", least)(env).collect()
        assert env.list_cached() == []
        assert env._implicit.recurring is None


def selective(tables: Path, value: int) -> Any:
    """A query of so few rows that computing all of them takes long beside it."""

    def make(session: Any) -> DataFrame:
        found = joined(session, tables).where(F.col("v") == value)
        return found.groupBy("region").agg(F.avg("v"))

    return make


def ask_what_is_worth_more_than_the_answer(keeping: Keeping, tables: Path) -> None:
    assert keeping.run(selective(tables, 0)) == []
    [first] = keeping.env._history.queries
    [aggregate] = first.root.inputs
    for number in range(3):
        # The join of other queries.
        other = replace(aggregate, key=f"another aggregate {number}")
        query = replace(first, root=replace(first.root, inputs=(other,)))
        keeping.env._history.add(RanQuery(query))
    # Computing all rows takes four and a half times what the query has taken, by the estimates.
    assert keeping.run(selective(tables, 1)) == []


def test_what_costs_too_much_beside_a_query_is_kept_while_the_program_is_idle(
    keeping: Keeping, tables: Path
) -> None:
    ask_what_is_worth_more_than_the_answer(keeping, tables)
    keeping.is_idle()
    assert keeping.recurring.behind.settle(60)
    [kept] = keeping.env.list_cached()
    assert kept.rows == 20_000
    assert keeping.run(selective(tables, 2)) == ["read from cache"]


def test_a_program_may_wait_at_its_end_for_what_is_kept_while_it_is_idle(
    session: SparkSession, tables: Path, tmp_path: Path
) -> None:
    for seconds in (0, 60):
        patient = {**NOTHING_REUSED, "implicit-cache.results.close-timeout": f"{seconds} s"}
        home = tmp_path / str(seconds)
        with Environment(session, config=config(home, **patient)) as env:
            keeping = Keeping(env, session.newSession())
            ask_what_is_worth_more_than_the_answer(keeping, tables)
            keeping.is_idle()
        with Environment(session, config=config(home, **NOTHING_REUSED)) as env:
            ran = Keeping(env, session.newSession()).run(selective(tables, 2))
        assert (ran == ["read from cache"]) == (seconds > 0)


def test_an_action_is_not_held_up_by_what_is_kept_while_the_program_is_idle(
    keeping: Keeping, tables: Path
) -> None:
    keeping.is_idle()
    slow = F.udf(lambda value: time.sleep(0.001) or value, "long")
    tries: list[float] = []

    def produce() -> None:
        tries.append(time.monotonic())
        keeping.env.spark.range(0, 200_000, 1, 2).select(slow("id")).collect()

    keeping.recurring.behind.offer("slow", produce)
    deadline = time.monotonic() + 30
    while not tries and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    begun = time.monotonic()
    keeping.run(by(tables, "region"))
    # Alone it would take 100 s.
    assert time.monotonic() - begun < 60


def test_what_is_produced_while_the_program_is_idle_is_in_a_pool_of_its_own(
    keeping: Keeping,
) -> None:
    pool = F.udf(lambda _: TaskContext.get().getLocalProperty("spark.scheduler.pool"))

    def of_tasks() -> list[str]:
        return [row[0] for row in keeping.env.spark.range(1).select(pool("id")).collect()]

    found: list[str] = []
    keeping.recurring.behind.offer("pool", lambda: found.extend(of_tasks()))
    keeping.is_idle()
    assert keeping.recurring.behind.settle(60)
    assert (found, of_tasks()) == (["holdfast"], [None])


def test_what_was_to_be_kept_while_the_program_is_idle_is_not_kept_by_an_action(
    keeping: Keeping, tables: Path
) -> None:
    env, make = keeping.env, by(tables, "region")
    query = env._known_plans.query(make(env))
    deferred = CachedComputation(query.root.digest, query, "deferred", None, is_deferred=True)
    env._manager.wanted.register(deferred, env._implicit.recurring)
    # As after a production that has given way to the next action.
    assert keeping.run(make) == []
    env._produce_unasked(query, session_inputs(env._plain))
    assert keeping.run(make) == ["read from cache"]
    # What somebody asks for is kept by whoever comes first.
    other = by(tables, "name")
    query = env._known_plans.query(other(env))
    deferred = CachedComputation(query.root.digest, query, "deferred", None, is_deferred=True)
    env._manager.wanted.register(deferred, env._implicit.recurring)
    cached = other(env).cache()
    cached.collect()
    result = env.last_job_result
    assert result is not None and result.vertices[0].outcome.value == "produced"


def test_commands_tell_what_was_kept_and_why(
    keeping: Keeping, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for least in range(3):
        keeping.run(by(tables, "region", least))
    where = ["--directory", str(tmp_path / "kept")]
    assert main(["why", "--last", "3", "--json", *where]) == 0
    asked = json.loads(capsys.readouterr().out)
    outcomes = [[part["outcome"] for part in each["parts"]] for each in asked]
    assert outcomes == [["not kept", "not kept"], ["kept", "not kept"], ["read", "not kept"]]
    assert asked[0]["parts"][0]["why"] == "asked for once"
    assert asked[0]["bytes_read"] > 0 and asked[0]["shuffle_bytes"] > 0
    assert asked[0]["task_seconds"] > 0
    # A condition leaves out some of the rows until all of them are kept.
    rows = [[part["rows"] for part in each["parts"]] for each in asked]
    assert rows == [[5, None], [20_000, None], [20_000, 5]]
    assert all(part["bytes"] > 0 for each in asked for part in each["parts"])
    assert re.match(
        "kept before; took .* s to read, and takes .* s to", asked[2]["parts"][0]["why"]
    )
    assert main(["why", asked[1]["digest"][:8], *where]) == 0
    assert re.search(r"  kept: Join .* \(20,000 rows, .*\)\n", capsys.readouterr().out)
    assert main(["advise", "--min-saved", "0", "--json", *where]) == 0
    advice = json.loads(capsys.readouterr().out)
    assert advice["proposals"][0]["reads"] == 2
    assert (advice["reads"], advice["wrong_reads"] <= 1) == (1, True)
    assert main(["advise", "--min-saved", "0", *where]) == 0
    assert "What was kept unasked was read 1 times" in " ".join(capsys.readouterr().out.split())
    assert asked[0]["reused"] == 0


def test_commands_tell_what_was_reused(
    session: SparkSession, tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Environment(session, config=config(tmp_path)) as env:
        for _ in range(2):
            by(tables, "name", 1)(env).collect()
    assert main(["why", "--directory", str(tmp_path / "kept")]) == 0
    assert re.search(
        r"  reused: \d exchanges? of earlier queries, whose tasks took ", capsys.readouterr().out
    )


def test_an_attached_session_keeps_what_recurs(
    session: SparkSession, tables: Path, tmp_path: Path
) -> None:
    attached = holdfast.attach(like(session), config(tmp_path, **NOTHING_REUSED))
    recurring = attached.holdfast._implicit.recurring
    try:
        joined(attached, tables).createOrReplaceTempView("joined")
        found = []
        # A program that is idle would keep it behind the answer.
        with recurring.behind.answering():
            for least in range(3):
                query = f"SELECT region, sum(v) AS s FROM joined WHERE v > {least} GROUP BY region"
                rows: list[Row] = attached.sql(query).collect()
                found.append(sorted(rows))
                recurring.learn_all()
        assert [each.outcome.value for each in attached.holdfast.last_job_result.vertices] == [
            "read from cache",
            "run",
        ]
        plain = joined(session, tables)
        for least, rows in enumerate(found):
            expected = plain.where(F.col("v") > least).groupBy("region").agg(F.sum("v").alias("s"))
            assert rows == sorted(expected.collect())
    finally:
        holdfast.detach(attached)

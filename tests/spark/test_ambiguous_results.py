"""Where several answers are right, `cache(lifetime=…)` keeps one for all programs.

Programs are environments on one directory. What stands under `SAME` has one right answer, however
its rows are distributed to tasks.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession, Window
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.runtime.vertex_outcome import VertexOutcome

READ = [VertexOutcome.READ, VertexOutcome.RUN]
PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
RUN = [VertexOutcome.RUN]
TIES = "PARTITION BY g ORDER BY k"
Start = Callable[..., Environment]
Make = Callable[[Any], Any]


@pytest.fixture(scope="module")
def orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("orders") / "orders")
    columns = ("id", "id % 50 AS k", "id % 7 AS g", "id / 3 AS d", "cast(id % 9 AS string) AS t")
    spark.range(0, 3_000, 1, 3).selectExpr(*columns).write.parquet(path)
    return path


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    started: list[Environment] = []

    def make(**settings: Any) -> Environment:
        given = {f"intermediate-result-storage.{key}": each for key, each in settings.items()}
        kept = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
        started.append(Environment(spark, config=kept | given))
        return started[-1]

    yield make
    for each in started:
        each.close()


def outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def rows(table: Any) -> list[Row]:
    return sorted(table.collect(), key=repr)


def over(window: str, value: str) -> Make:
    return lambda t: t.selectExpr("id", f"{value} OVER ({window}) AS w")


def equal_texts() -> Any:
    """A column of which each value is written in two ways that are equal."""
    text = "CASE WHEN id % 2 = 0 THEN concat('a', k) ELSE concat('A', k) END"
    return F.expr(f"({text}) COLLATE UTF8_LCASE").alias("w")


def numbered(table: Any) -> Any:
    return table.withColumn("n", F.monotonically_increasing_id())


AMBIGUOUS: dict[str, Make] = {
    "limit": lambda t: t.limit(7),
    "limit over ties": lambda t: t.orderBy("k").limit(7),
    "first": lambda t: t.groupBy("g").agg(F.first("id")),
    "collect_list": lambda t: t.groupBy("g").agg(F.collect_list("id")),
    "percentile_approx": lambda t: t.groupBy("g").agg(F.percentile_approx("id", 0.5)),
    "any mode": lambda t: t.groupBy("g").agg(F.mode("t")),
    "mode of zeros with signs": lambda t: t.groupBy("g").agg(F.mode("d", True)),
    "dropDuplicates": lambda t: t.dropDuplicates(["g"]),
    "sample": lambda t: t.sample(0.1, seed=5),
    "rand": lambda t: t.select("id", F.rand(3).alias("r")).where("r < 0.1"),
    "monotonically_increasing_id": lambda t: t.select("id", F.monotonically_increasing_id()),
    "spark_partition_id": lambda t: t.groupBy(F.spark_partition_id().alias("p")).count(),
    "rows by their number": lambda t: numbered(t).where("n % 2 = 0").select("id"),
    "a number of a join": lambda t: t.join(numbered(t).select("id", "n"), "id").select("g", "n"),
    "numbered ties": over(TIES, "row_number()"),
    "the row before": over(TIES, "lag(id)"),
    "a sum over rows": over(f"{TIES} ROWS 2 PRECEDING", "sum(id)"),
    "groups of equal texts": lambda t: t.groupBy(equal_texts()).count(),
    "a length of equal texts": lambda t: (
        t.groupBy(equal_texts()).count().select(F.ascii("w"), "count")
    ),
    "distinct equal texts": lambda t: t.select(equal_texts()).distinct(),
    "equal texts that others don't have": lambda t: t.select(equal_texts()).exceptAll(
        t.where("k > 3").select(equal_texts())
    ),
    "a union of equal texts": lambda t: (
        t.select(equal_texts()).union(t.where("k > 3").select(equal_texts())).dropDuplicates()
    ),
    "the greatest of equal texts": lambda t: t.groupBy("g").agg(F.max(equal_texts())),
    "the least of a struct": lambda t: t.groupBy("g").agg(F.min(F.struct(equal_texts(), "k"))),
    "the greatest of a window": lambda t: t.select(
        "id", F.max(equal_texts()).over(Window.partitionBy("g"))
    ),
    "above a limit": lambda t: t.limit(70).groupBy("g").count(),
    "a limit in a join": lambda t: t.join(t.limit(9).select("g"), "g", "semi"),
}
SAME: dict[str, Make] = {
    "a number that is dropped": lambda t: numbered(t).where("g > 2").drop("n"),
    "a number below a join": lambda t: (
        numbered(t).select("id", "n").join(t, "id").select("id", "k")
    ),
    "repartition": lambda t: t.repartition(8).select("id", "g"),
    "repartition by a column": lambda t: t.repartition(8, "g").groupBy("g").count(),
    "coalesce": lambda t: t.coalesce(1).select("id"),
    "repartitionByRange": lambda t: t.repartitionByRange(3, "id").where("id > 5"),
    "a hint": lambda t: t.hint("rebalance").where("g > 2"),
    "pivot": lambda t: t.groupBy("k").pivot("g", [1, 2]).sum("id"),
    "pivot without values": lambda t: t.groupBy("k").pivot("g").agg(F.max("id"), F.min("t")),
    "mode": lambda t: t.groupBy("g").agg(F.mode("t", True)),
    "mode within a group": lambda t: t.groupBy("g").agg(
        F.expr("mode() WITHIN GROUP (ORDER BY k DESC)")
    ),
    "ranks": over(TIES, "rank()"),
    "how often equal texts come": lambda t: t.groupBy(equal_texts()).count().select("count"),
    "how many equal texts there are": lambda t: t.groupBy("g").agg(F.countDistinct(equal_texts())),
    "the rank of equal texts": lambda t: t.select(
        "id", F.rank().over(Window.partitionBy("g").orderBy(equal_texts()))
    ),
    "a sum over a range": over(TIES, "sum(id)"),
    "a sum over a group": over("PARTITION BY g", "sum(id)"),
}


@pytest.mark.parametrize("make", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_one_of_several_answers_is_kept_for_all(start: Start, orders: str, make: Make) -> None:
    first = start()
    kept = rows(make(first.read.parquet(orders)).cache(lifetime="1 h"))
    assert outcomes(first) == PRODUCED
    first.close()
    later = start()
    assert rows(make(later.read.parquet(orders))) == kept and outcomes(later) == READ
    assert "one of several right answers" in later.explain_kept(make(later.read.parquet(orders)))


@pytest.mark.parametrize("make", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_without_a_lifetime_each_program_has_its_own(start: Start, orders: str, make: Make) -> None:
    one, other = start(), start()
    kept = make(one.read.parquet(orders)).cache()
    rows(kept)
    assert outcomes(one) == PRODUCED
    rows(make(one.read.parquet(orders)))
    assert outcomes(one) == READ
    rows(make(other.read.parquet(orders)))
    assert outcomes(other) == RUN


@pytest.mark.parametrize("make", SAME.values(), ids=SAME.keys())
def test_what_has_one_right_answer_is_shared_in_any_case(
    start: Start, orders: str, spark: SparkSession, make: Make
) -> None:
    plain = rows(make(spark.read.parquet(orders)))
    one, other = start(), start(**{"share-ambiguous": False})
    assert rows(make(one.read.parquet(orders)).cache()) == plain
    assert rows(make(other.read.parquet(orders))) == plain and outcomes(other) == READ
    shown = other.explain_kept(make(other.read.parquet(orders)))
    assert "read: " in shown and "one of several" not in shown


IN_PANDAS: dict[str, tuple[Make, bool]] = {
    "sums": (lambda p: p[["g", "id"]].groupby("g").sum(), False),
    "groups": (lambda p: p.groupby("g").agg({"id": "max"}).reset_index(), False),
    "columns": (lambda p: p[["id", "g"]], False),
    "rows": (lambda p: p[p.g > 2].assign(h=p.g * 2), False),
    "a join": (lambda p: p.merge(p.groupby("g")[["k"]].max().reset_index(), on="g"), False),
    "a join without duplicates": (lambda p: p.merge(p[["g"]].drop_duplicates(), on="g"), True),
    "the index": (lambda p: p[["id"]].reset_index(), True),
    "the first rows": (lambda p: p[["id"]].head(7), True),
    "a running sum": (lambda p: p[["id"]].cumsum(), True),
}


@pytest.mark.parametrize(("change", "is_ambiguous"), IN_PANDAS.values(), ids=IN_PANDAS.keys())
@pytest.mark.filterwarnings("ignore")
def test_what_pandas_makes_is_found(
    start: Start, orders: str, spark: SparkSession, change: Make, is_ambiguous: bool
) -> None:
    def made(env: Environment) -> Any:
        frame = spark.read.parquet(orders).pandas_api()
        return env.from_dataframe(change(frame).to_spark())

    one, other = start(), start()
    kept = rows(made(one).cache(lifetime="1 h"))
    assert outcomes(one) == PRODUCED and one.list_cached()[0].reasons == ()
    one.close()
    assert rows(made(other)) == kept and outcomes(other) == READ
    assert ("one of several right" in other.explain_kept(made(other))) is is_ambiguous
    if not is_ambiguous:
        assert kept == rows(change(spark.read.parquet(orders).pandas_api()).to_spark())


# -- columns that no program has a second time -----------------------------------------------------


def with_lots(table: Any) -> Any:
    return table.selectExpr("id", "g", "uuid() AS u", "uuid() AS w")


DROPPED: dict[str, Make] = {
    "a column": lambda t: with_lots(t).select("id"),
    "below a filter": lambda t: with_lots(t).where("g > 2").groupBy("g").count(),
    "below a join": lambda t: with_lots(t).join(t, "id").select("id", "k"),
    "below a sort": lambda t: with_lots(t).orderBy("id").select("id", "g"),
    "below a repartition": lambda t: with_lots(t).repartition(3).select("id"),
    "on both sides": lambda t: with_lots(t).select("id").join(with_lots(t), "id").select("g"),
}
USED: dict[str, Make] = {
    "a column": lambda t: with_lots(t).select("u"),
    "by another column": lambda t: with_lots(t).select(F.length("w") + F.length("u")),
    "by a filter": lambda t: with_lots(t).where("u > '8'").select("id"),
    "by groups": lambda t: with_lots(t).groupBy("u").count().select("count"),
    "by an aggregate": lambda t: with_lots(t).groupBy("g").agg(F.max("u").alias("m")),
    "by a join": lambda t: with_lots(t).join(t, F.expr("u > '8' AND 1 = 1")).select("k").limit(9),
    "by a sort": lambda t: with_lots(t).orderBy("u").select("id"),
    "by a limit": lambda t: with_lots(t).orderBy("u").limit(9).select("id"),
    "by distinct": lambda t: with_lots(t).distinct().select("id"),
    "by a window": lambda t: with_lots(t).selectExpr("rank() OVER (PARTITION BY g ORDER BY u) r"),
    "by a union": lambda t: with_lots(t).select("id", "u").union(t.select("id", "t")),
    "by a subquery": lambda t: t.where(F.col("t") < with_lots(t).agg(F.max("u")).scalar()),
    "by a semi join": lambda t: t.join(with_lots(t).where("u > '8'"), "id", "semi"),
}


@pytest.mark.parametrize("make", DROPPED.values(), ids=DROPPED.keys())
def test_what_drops_a_column_is_found_whatever_that_was(
    start: Start, orders: str, spark: SparkSession, make: Make
) -> None:
    plain = rows(make(spark.read.parquet(orders)))
    one, other = start(), start()
    hot = make(one.read.parquet(orders)).cache()
    assert rows(hot) == plain and one.list_cached()[0].reasons == ()
    assert rows(make(other.read.parquet(orders))) == plain and outcomes(other) == READ


@pytest.mark.parametrize("make", USED.values(), ids=USED.keys())
def test_what_uses_a_column_that_no_other_program_has_is_private(
    start: Start, orders: str, make: Make
) -> None:
    one, other = start(), start()
    hot = make(one.read.parquet(orders)).cache(lifetime="1 h")
    first = rows(hot)
    assert rows(hot) == first and outcomes(one) == READ
    assert "Uuid, which is not deterministic" in map(str, one.list_cached()[0].reasons)
    for each in (one, other):
        rows(make(each.read.parquet(orders)))
        assert VertexOutcome.READ not in outcomes(each)


def test_each_column_that_is_drawn_is_one_of_its_own(start: Start, orders: str) -> None:
    hot = with_lots(start().read.parquet(orders)).cache(lifetime="1 h")
    assert all(row.u != row.w for row in rows(hot)) and rows(hot) == rows(hot)


def test_a_number_is_one_of_the_rows_that_are_numbered(start: Start, orders: str) -> None:
    env = start()
    table = env.read.parquet(orders)
    before, after = numbered(table).where("g > 2"), numbered(table.where("g > 2"))
    rows(before.cache(lifetime="1 h"))
    found = [row.n for row in after.orderBy("n").collect()]
    assert outcomes(env) == RUN
    assert found != [row.n for row in before.orderBy("n").collect()]


HALVES: dict[str, Make] = {
    "by tasks": lambda t: t.select("id", F.spark_partition_id().alias("n")),
    "by numbers": lambda t: numbered(t).selectExpr("id", "n % 2 AS n"),
    "by lots": lambda t: t.select("id", (F.rand(3) * 2).cast("int").alias("n")),
    "by ties": lambda t: t.selectExpr("id", f"row_number() OVER ({TIES}) % 2 AS n"),
}


@pytest.mark.parametrize("make", HALVES.values(), ids=HALVES.keys())
def test_what_is_read_and_what_is_computed_are_parts_of_one_answer(
    orders: str, tmp_path: Path, spark: SparkSession, make: Make
) -> None:
    """Files that are distributed in another way give other halves."""
    one, other, same = (spark.newSession() for _ in range(3))
    other.conf.set("spark.sql.files.openCostInBytes", "100000000")
    kept = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    programs = [Environment(session, config=kept) for session in (one, other, same)]
    for env, is_read in zip(programs, (False, False, True), strict=True):
        table = make(env.read.parquet(orders))
        first, second = (table.where(f"n {sign} 0").select("id") for sign in ("=", "<>"))
        if env is programs[0]:
            first.cache(lifetime="1 h").count()
        else:
            both = first.union(second)
            assert both.count() == both.distinct().count() == 3_000
            assert outcomes(env) == (READ if is_read else RUN)
    for env in programs:
        env.close()


def test_a_setting_turns_it_off(start: Start, orders: str) -> None:
    closed = start(**{"share-ambiguous": False})
    rows(closed.read.parquet(orders).limit(7).cache(lifetime="1 h"))
    rows(closed.read.parquet(orders).limit(7))
    assert outcomes(closed) == READ
    open_ = start()
    rows(open_.read.parquet(orders).limit(7))
    assert outcomes(open_) == RUN
    rows(open_.read.parquet(orders).limit(9).cache(lifetime="1 h"))
    rows(closed.read.parquet(orders).limit(9))
    assert outcomes(closed) == RUN
    rows(closed.read.parquet(orders).limit(9).cache(lifetime="1 h"))
    assert outcomes(closed) == PRODUCED


def test_the_commands_mark_it(start: Start, orders: str, tmp_path: Path) -> None:
    env = start()
    rows(env.read.parquet(orders).limit(7).cache(lifetime="1 h"))
    rows(env.read.parquet(orders).where("id < 5").cache(lifetime="1 h"))

    def said(*arguments: str) -> str:
        holdfast = (sys.executable, "-m", "holdfast.cli.main", *arguments)
        directory = ("--directory", str(tmp_path / "kept"))
        return subprocess.run(
            [*holdfast, *directory], capture_output=True, text=True, timeout=120, check=True
        ).stdout

    assert " 7~ " in said("ls") and " 5 " in said("ls") and "several right answers" in said("ls")
    (name,) = [Path(str(each.location)).name for each in env.list_cached() if each.rows == 7]
    assert "one of several right answers" in said("show", name.partition("-")[0])


def test_rows_are_those_below_a_repartition(start: Start, orders: str) -> None:
    """What counts rows sees no partitions, so that either reads the other's."""
    one, other = start(), start()
    rows(one.read.parquet(orders).where("g < 3").repartition(5).groupBy("g").count().cache())
    rows(other.read.parquet(orders).coalesce(2).where("g < 3").groupBy("g").count())
    assert outcomes(other) == READ
    for cut in (lambda t: t.repartition(5).limit(9), lambda t: t.limit(9)):
        rows(cut(one.read.parquet(orders)).cache(lifetime="1 h"))
        assert outcomes(one) == PRODUCED


def test_partitions_are_those_that_the_plan_says(
    start: Start, orders: str, spark: SparkSession, tmp_path: Path
) -> None:
    env = start(**{"merge-small-partitions": False})
    table = env.read.parquet(orders)
    made = [table, *(table.repartition(number) for number in (3, 8)), table.coalesce(1)]
    hot = [each.where("g > 1").select("id").cache() for each in made]
    for each in hot:
        each.count()
        assert outcomes(env) == PRODUCED
    for number, each in zip((None, 3, 8, 1), hot, strict=True):
        assert number in (None, each.rdd.getNumPartitions())
        each.write.parquet(str(tmp_path / f"written-{number}"))
        assert outcomes(env) == READ
    assert len(list((tmp_path / "written-8").glob("*.parquet"))) == 8
    assert len(list((tmp_path / "written-1").glob("*.parquet"))) == 1

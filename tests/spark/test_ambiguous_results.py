"""Where several answers are right, `cache(lifetime=…)` keeps one for all programs.

Programs are environments on one directory. What stands under `SAME` has one right answer, however
its rows are distributed to tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession, Window
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.cli.main import main
from holdfast.testing import assert_computes, assert_reads, outcomes

PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
TIES = "PARTITION BY g ORDER BY k"
SEVERAL = "one of several right answers"
Start = Callable[..., Environment]
Make = Callable[[Any], Any]


@pytest.fixture(scope="module")
def orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("orders") / "orders")
    columns = ("id", "id % 50 AS k", "id % 7 AS g", "id / 3 AS d", "cast(id % 9 AS string) AS t")
    spark.range(0, 900, 1, 3).selectExpr(*columns).write.parquet(path)
    return path


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    started: list[Environment] = []

    def make(session: SparkSession = spark, **settings: Any) -> Environment:
        given = {f"intermediate-result-storage.{key}": each for key, each in settings.items()}
        kept = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
        started.append(Environment(session, config=kept | given))
        return started[-1]

    yield make
    for each in started:
        each.close()


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
    "equal texts": lambda t: t.groupBy(equal_texts()).count(),
    "their length": lambda t: t.groupBy(equal_texts()).count().select(F.ascii("w"), "count"),
    "distinct": lambda t: t.select(equal_texts()).distinct(),
    "exceptAll": lambda t: t.select(equal_texts()).exceptAll(
        t.where("k > 3").select(equal_texts())
    ),
    "union": lambda t: (
        t.select(equal_texts()).union(t.where("k > 3").select(equal_texts())).dropDuplicates()
    ),
    "greatest": lambda t: t.groupBy("g").agg(F.max(equal_texts())),
    "least struct": lambda t: t.groupBy("g").agg(F.min(F.struct(equal_texts(), "k"))),
    "greatest of a window": lambda t: t.select(
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
    "how often": lambda t: t.groupBy(equal_texts()).count().select("count"),
    "how many": lambda t: t.groupBy("g").agg(F.countDistinct(equal_texts())),
    "rank of equal texts": lambda t: t.select(
        "id", F.rank().over(Window.partitionBy("g").orderBy(equal_texts()))
    ),
    "a sum over a range": over(TIES, "sum(id)"),
    "a sum over a group": over("PARTITION BY g", "sum(id)"),
}


def with_lots(table: Any) -> Any:
    """With columns that no program has a second time."""
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


CASES = {
    **AMBIGUOUS,
    **{f"same: {name}": make for name, make in SAME.items()},
    **{f"dropped: {name}": make for name, make in DROPPED.items()},
    **{f"used: {name}": make for name, make in USED.items()},
}


def test_why_another_program_does_not_find_it(start: Start, orders: str) -> None:
    env = start()
    table = env.read.parquet(orders)

    def reasons(made: Any, lifetime: str | None = None) -> str:
        with made.cache(lifetime=lifetime):
            (listed,) = env.list_cached()
        return "; ".join(map(str, (*listed.reasons, *listed.matches_only_itself)))

    made = {name: make(table) for name, make in CASES.items()}
    said = {name: reasons(each) for name, each in made.items()}
    drawn = [said.pop(name) for name in CASES if name.startswith("used")]
    assert all("Uuid, which is not deterministic" in each for each in drawn)
    assert {name for name in said if said[name]} == AMBIGUOUS.keys()
    # One of several right answers is that of all programs where it stays.
    assert not [name for name in AMBIGUOUS if reasons(made[name], "1 h")]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(16)
def test_rows_that_another_program_finds(
    start: Start, orders: str, spark: SparkSession, name: str
) -> None:
    make = CASES[name]
    one, other = start(), start()
    hot = make(one.read.parquet(orders)).cache(lifetime="1 h")
    kept = rows(hot)
    assert outcomes(one) == PRODUCED
    assert_reads(hot)
    assert rows(hot) == kept
    asked = make(other.read.parquet(orders))
    if name.startswith("used"):
        return assert_computes(asked)
    assert_reads(asked)
    assert rows(asked) == kept
    assert (SEVERAL in other.explain_kept(asked)) is (name in AMBIGUOUS)
    assert name in AMBIGUOUS or kept == rows(make(spark.read.parquet(orders)))


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


@pytest.mark.parametrize("name", IN_PANDAS)
@pytest.mark.sampled(5)
@pytest.mark.filterwarnings("ignore")
def test_what_pandas_makes_is_found(
    start: Start, orders: str, spark: SparkSession, name: str
) -> None:
    change, is_ambiguous = IN_PANDAS[name]

    def made(env: Environment) -> Any:
        return env.from_dataframe(change(spark.read.parquet(orders).pandas_api()).to_spark())

    one, other = start(), start()
    kept = rows(made(one).cache(lifetime="1 h"))
    one.close()
    assert_reads(made(other))
    assert rows(made(other)) == kept
    assert (SEVERAL in other.explain_kept(made(other))) is is_ambiguous
    if not is_ambiguous:
        assert kept == rows(change(spark.read.parquet(orders).pandas_api()).to_spark())


def test_each_column_that_is_drawn_is_one_of_its_own(start: Start, orders: str) -> None:
    env = start()
    hot = with_lots(env.read.parquet(orders)).cache(lifetime="1 h")
    assert all(row.u != row.w for row in rows(hot)) and rows(hot) == rows(hot)
    # And a number is one of the rows that are numbered.
    before = numbered(env.read.parquet(orders)).where("g > 2").cache(lifetime="1 h")
    after = numbered(env.read.parquet(orders).where("g > 2"))
    assert [row.n for row in rows(before)] != [row.n for row in rows(after)]


HALVES: dict[str, Make] = {
    "by tasks": lambda t: t.select("id", F.spark_partition_id().alias("n")),
    "by numbers": lambda t: numbered(t).selectExpr("id", "n % 2 AS n"),
    "by lots": lambda t: t.select("id", (F.rand(3) * 2).cast("int").alias("n")),
    "by ties": lambda t: t.selectExpr("id", f"row_number() OVER ({TIES}) % 2 AS n"),
}


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.sampled(4)
def test_what_is_read_and_what_is_computed_are_parts_of_one_answer(
    start: Start, orders: str, spark: SparkSession, name: str
) -> None:
    """Files that are distributed in another way give other halves."""
    one, other, same = (start(spark.newSession()) for _ in range(3))
    other.spark.conf.set("spark.sql.files.openCostInBytes", "100000000")

    def halves(env: Environment) -> list[Any]:
        table = HALVES[name](env.read.parquet(orders))
        return [table.where(f"n {sign} 0").select("id") for sign in ("=", "<>")]

    halves(one)[0].cache(lifetime="1 h").count()
    for env, is_read in ((other, False), (same, True)):
        both = halves(env)[0].union(halves(env)[1])
        assert both.count() == both.distinct().count() == 900
        assert (VertexOutcome.READ in outcomes(env)) is is_read


def test_without_a_lifetime_or_by_a_setting_each_program_has_its_own(
    start: Start, orders: str
) -> None:
    closed, open_ = start(**{"share-ambiguous": False}), start()
    for env, lifetime in ((open_, None), (closed, "1 h")):
        rows(env.read.parquet(orders).limit(7).cache(lifetime=lifetime))
        assert outcomes(env) == PRODUCED
        assert_reads(env.read.parquet(orders).limit(7))
    rows(open_.read.parquet(orders).limit(9).cache(lifetime="1 h"))
    assert_computes(closed.read.parquet(orders).limit(9))
    rows(closed.read.parquet(orders).limit(9).cache(lifetime="1 h"))
    assert outcomes(closed) == PRODUCED


def test_the_commands_mark_it(
    start: Start, orders: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = start()
    rows(env.read.parquet(orders).limit(7).cache(lifetime="1 h"))
    rows(env.read.parquet(orders).where("id < 5").cache(lifetime="1 h"))
    where = ["--directory", str(tmp_path / "kept")]
    assert main(["ls", *where]) == 0
    shown = capsys.readouterr().out
    assert " 7~ " in shown and " 5 " in shown and "several right answers" in shown
    (name,) = [Path(str(each.location)).name for each in env.list_cached() if each.rows == 7]
    assert main(["show", name.partition("-")[0], *where]) == 0
    assert SEVERAL in capsys.readouterr().out


def test_rows_are_those_below_a_repartition(start: Start, orders: str) -> None:
    """What counts rows sees no partitions, so that either reads the other's."""
    one, other = start(), start()
    rows(one.read.parquet(orders).where("g < 3").repartition(5).groupBy("g").count().cache())
    assert_reads(other.read.parquet(orders).coalesce(2).where("g < 3").groupBy("g").count())
    rows(one.read.parquet(orders).repartition(5).limit(9).cache(lifetime="1 h"))
    assert_computes(other.read.parquet(orders).limit(9))


def test_partitions_are_those_that_the_plan_says(start: Start, orders: str, tmp_path: Path) -> None:
    env = start(**{"merge-small-partitions": False})
    table = env.read.parquet(orders)
    for number, made in ((3, table), (8, table.repartition(8)), (1, table.coalesce(1))):
        hot = made.where("g > 1").select("id").cache()
        hot.count()
        assert outcomes(env) == PRODUCED
        hot.write.parquet(str(tmp_path / f"written-{number}"))
        assert VertexOutcome.READ in outcomes(env)
        assert number == 3 or hot.rdd.getNumPartitions() == number
        files = list((tmp_path / f"written-{number}").glob("*.parquet"))
        assert number == 3 or len(files) == number

"""Queries reuse the shuffles of the session's earlier queries, and give Spark's own rows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import Environment
from holdfast.spark.live_shuffles import LiveShuffles
from tests.short_lived_jvm import environment_of_program

NULL_FIELDS = "spark.sql.jsonGenerator.ignoreNullFields"
ZEROS = [float(number) for number in range(12)]
NO_BROADCASTS = ("spark.sql.autoBroadcastJoinThreshold", "-1")


class Reusing:
    """An environment with the implicit cache, and how often it has reused something."""

    def __init__(self, env: Environment) -> None:
        self.env = env
        live = env._implicit.live
        assert live is not None
        self.live: LiveShuffles = live

    def reused(self, action: Callable[[], Any]) -> tuple[Any, int]:
        """What an action gives, and how many exchanges it has read instead of run."""
        before = self.live.uses
        answer = action()
        return answer, self.live.uses - before

    def plainly(self, df: DataFrame) -> list[Row]:
        """The rows of a query that nothing is reused for."""
        with self.live.left_alone():
            return sorted(DataFrame.collect(df), key=str)

    def held(self) -> int:
        """How much is held."""
        return len(str(self.live._in_jvm.held(True)).splitlines()) - 2


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of its own, with its own settings."""
    session = spark.newSession()
    session.conf.set(*NO_BROADCASTS)
    session.conf.set("spark.sql.shuffle.partitions", "3")
    session.conf.set("spark.sql.adaptive.enabled", "true")
    yield session


@pytest.fixture
def reusing(session: SparkSession, tmp_path: Path) -> Iterator[Reusing]:
    """An environment whose queries reuse."""
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "implicit-cache.enabled": True,
        "implicit-cache.results.enabled": False,
    }
    with Environment(session, config=config) as env:
        yield Reusing(env)


@pytest.fixture
def tables(session: SparkSession, tmp_path: Path) -> Path:
    """Two tables of files, `sales` and `shops`."""
    write(session, tmp_path / "sales", 1000)
    shops = session.range(7).select(F.col("id").alias("k"), F.concat(F.lit("n"), "id").alias("n"))
    shops.write.parquet(str(tmp_path / "shops"))
    return tmp_path


def write(session: SparkSession, path: Path, rows: int, mode: str = "error") -> None:
    sales = session.range(rows).select("id", (F.col("id") % 7).alias("k"), F.lit(1).alias("v"))
    sales.write.mode(mode).parquet(str(path))


def by_shop(session: Any, tables: Path) -> DataFrame:
    sales, shops = (session.read.parquet(str(tables / name)) for name in ("sales", "shops"))
    found: DataFrame = sales.join(shops, "k").groupBy("n").agg(F.sum("v").alias("s"))
    return found


def test_the_same_query_again_runs_no_exchange(reusing: Reusing, tables: Path) -> None:
    first = sorted(by_shop(reusing.env, tables).collect())
    again, count = reusing.reused(lambda: sorted(by_shop(reusing.env, tables).collect()))
    assert again == first == reusing.plainly(by_shop(reusing.env.spark, tables))
    assert count == 1


def test_what_a_query_reuses_of_its_own_is_no_use_of_an_earlier_one(
    reusing: Reusing, tables: Path
) -> None:
    sums = by_shop(reusing.env, tables)
    twice = sums.union(sums)
    rows, count = reusing.reused(lambda: sorted(twice.collect()))
    assert rows == reusing.plainly(twice)
    assert count == 0


def test_a_job_says_what_its_reuse_has_saved(reusing: Reusing, tables: Path) -> None:
    env = reusing.env
    by_shop(env, tables).collect()
    first = env.last_job_result
    assert first is not None
    assert (first.reused_exchanges, first.saved_seconds) == (0, 0.0)
    by_shop(env, tables).collect()
    again = env.last_job_result
    assert again is not None
    assert again.reused_exchanges == 1
    # Not the scans' shuffles alone that were reused, but those below them.
    assert 0 < again.reused_seconds == again.saved_seconds < 60
    assert "1 shuffles and broadcasts of earlier queries were reused" in repr(again)
    env.spark.range(3).count()
    by_shop(env, tables).write.mode("overwrite").parquet(str(tables / "written"))
    written = env.last_job_result
    assert written is not None
    assert written.reused_exchanges == 1
    kept = env.from_dataframe(env.spark.range(10)).groupBy("id").count().cache()
    kept.collect()
    kept.collect()
    read = env.last_job_result
    assert read is not None
    [vertex] = [each for each in read.vertices if each.dataset_id is not None]
    assert read.reused_exchanges == 0
    assert read.saved_seconds == vertex.saved_seconds > 0


def test_another_query_over_the_same_join_reuses_it(reusing: Reusing, tables: Path) -> None:
    by_shop(reusing.env, tables).collect()
    top = by_shop(reusing.env, tables).agg(F.max("s"), F.count("*"))
    rows, count = reusing.reused(top.collect)
    assert rows == reusing.plainly(top)
    assert count >= 1


def test_explain_shows_what_is_reused(
    reusing: Reusing, tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_shop(reusing.env, tables).explain()
    assert "reused" not in capsys.readouterr().out
    by_shop(reusing.env, tables).collect()
    by_shop(reusing.env, tables).explain()
    shown = capsys.readouterr().out
    assert re.search(r"reused: Exchange hashpartitioning\(n#\d+, 3\)", shown)
    assert "as an earlier query left it; its tasks took" in shown


def outlook(reusing: Reusing, df: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    """What `explain` says of the exchanges of a query."""
    capsys.readouterr()
    reusing.env.from_dataframe(df).explain()
    shown = capsys.readouterr().out
    return shown[shown.index("== Holdfast ==") :]


def test_explain_says_what_is_held_and_what_never_is(
    reusing: Reusing, tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark = reusing.env.spark
    sums = by_shop(spark, tables)
    assert re.search(
        r"to be held for later queries: Exchange hashpartitioning\(n#",
        outlook(reusing, sums, capsys),
    )
    twice = F.udf(lambda value: value * 2, "long")
    drawn, sketched, encrypted, called, floats = (
        spark.range(9).where(F.rand(1) < 0.5).groupBy(F.col("id") % 3).count(),
        spark.range(9).selectExpr("kll_sketch_agg_bigint(id) AS v"),
        spark.range(9).selectExpr("aes_encrypt(string(id), '0123456789abcdef') AS k").distinct(),
        spark.range(9).select(twice("id").alias("k")).groupBy("k").count(),
        spark.createDataFrame([(0.0,)], "x double").groupBy("x").count(),
    )
    for query, why in (
        (drawn, "rand is not deterministic"),
        (sketched, "kll_sketch_agg_bigint may depend on more than its inputs"),
        (encrypted, "staticinvoke may depend on more than its inputs"),
        (called, r"the rows of \w+EvalPython may depend on more than its inputs"),
        (floats, "normalizenanandzero may depend on more than its inputs"),
        (
            sums.where("s > 0.0D").groupBy("s").count(),
            "Spark takes different floating-point values for equal",
        ),
    ):
        for _ in range(2):
            said = outlook(reusing, query, capsys)
            assert re.search(rf"not reused: Exchange .*\n  as {why}\n", said), said
            query.collect()


@pytest.mark.parametrize("action", [DataFrame.collect, DataFrame.toArrow])
def test_what_is_left_alone_reads_nothing_that_is_held(
    reusing: Reusing, tables: Path, action: Callable[[DataFrame], Any]
) -> None:
    by_shop(reusing.env.spark, tables).collect()
    with reusing.live.left_alone():
        assert reusing.reused(lambda: action(by_shop(reusing.env.spark, tables)))[1] == 0
    assert reusing.reused(lambda: action(by_shop(reusing.env.spark, tables)))[1] == 1


def test_explain_says_why_what_is_held_is_not_read(
    reusing: Reusing, tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark = reusing.env.spark
    sums = by_shop(spark, tables)
    reusing.env.from_dataframe(sums).collect()
    assert "reused: Exchange" in outlook(reusing, by_shop(spark, tables), capsys)
    spark.conf.set("spark.sql.ansi.enabled", "false")
    said = outlook(reusing, by_shop(spark, tables), capsys)
    assert "as other settings than when an earlier query ran it" in said
    assert "\nreused: " not in said
    spark.conf.unset("spark.sql.ansi.enabled")
    write(spark, tables / "sales", 5, "append")
    said = outlook(reusing, by_shop(spark, tables), capsys)
    assert "as other files than when an earlier query ran it" in said
    # The shops are as they were.
    assert said.count("\nreused: ") == 1


def test_broadcasts_are_reused(reusing: Reusing, tables: Path) -> None:
    reusing.env.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "10mb")
    sums = by_shop(reusing.env, tables)
    sums.collect()
    largest = by_shop(reusing.env, tables).where("n <> 'n3'")
    rows, count = reusing.reused(lambda: sorted(by_shop(reusing.env, tables).collect()))
    assert count == 1
    assert rows == reusing.plainly(sums)
    assert sorted(largest.collect()) == reusing.plainly(largest)


def test_writes_and_sql_commands_reuse(reusing: Reusing, tables: Path) -> None:
    by_shop(reusing.env, tables).collect()
    target = str(tables / "out")
    _, count = reusing.reused(lambda: by_shop(reusing.env, tables).write.parquet(target))
    assert count == 1
    written = reusing.env.read.parquet(target)
    assert sorted(written.collect()) == reusing.plainly(by_shop(reusing.env, tables))


def test_what_writes_have_shuffled_is_reused(reusing: Reusing, tables: Path) -> None:
    by_shop(reusing.env, tables).write.parquet(str(tables / "out"))
    top = by_shop(reusing.env, tables).agg(F.max("s"))
    rows, count = reusing.reused(top.collect)
    assert rows == reusing.plainly(top)
    assert count >= 1


def test_attached_sessions_reuse(session: SparkSession, tables: Path) -> None:
    config = {
        "intermediate-result-storage.directory": str(tables / "kept"),
        "implicit-cache.enabled": "true",
        "implicit-cache.results.enabled": "false",
    }
    attached = holdfast.attach(session, config=config)
    try:
        reusing = Reusing(attached.holdfast)
        by_shop(attached, tables).createOrReplaceTempView("sums")
        first = attached.sql("SELECT max(s) FROM sums").collect()
        rows, count = reusing.reused(lambda: attached.sql("SELECT max(s) FROM sums").collect())
        assert rows == first
        assert count >= 1
    finally:
        holdfast.detach(attached)
    assert session.sql("SELECT max(s) FROM sums").collect() == first


def test_files_that_were_added_are_read(reusing: Reusing, tables: Path) -> None:
    by_shop(reusing.env, tables).collect()
    write(reusing.env.spark, tables / "sales", 50, "append")
    sums = by_shop(reusing.env, tables)
    rows, _ = reusing.reused(lambda: sorted(sums.collect()))
    assert rows == reusing.plainly(sums)
    assert sum(row.s for row in rows) == 1050


def test_a_file_that_was_replaced_by_one_of_the_same_size_and_time_is_read(
    reusing: Reusing, tables: Path
) -> None:
    path = tables / "lines"
    path.mkdir()
    file = path / "a.csv"
    file.write_text("1,a\n2,b\n")
    stat = file.stat()

    def counted() -> list[Row]:
        lines = reusing.env.read.csv(str(path), schema="n INT, s STRING")
        return sorted(lines.groupBy("s").agg(F.sum("n").alias("n")).collect())

    assert counted() == [Row(s="a", n=1), Row(s="b", n=2)]
    assert reusing.held() == 1
    other = path / "other"
    other.write_text("5,a\n6,c\n")
    other.rename(file)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert counted() == [Row(s="a", n=5), Row(s="c", n=6)]


def test_a_file_that_was_replaced_under_a_dataframe_is_read(
    reusing: Reusing, tmp_path: Path
) -> None:
    """Spark reads what is there, whatever was listed."""
    file = tmp_path / "a.csv"
    file.write_text("1,a\n2,b\n")
    lines = reusing.env.read.csv(str(file), schema="n INT, s STRING")
    sums = lines.groupBy("s").agg(F.sum("n").alias("n"))
    assert sorted(sums.collect()) == [Row(s="a", n=1), Row(s="b", n=2)]
    assert reusing.held() == 1
    other = tmp_path / "b.csv"
    other.write_text("5,a\n6,c\n")
    other.rename(file)
    rows, count = reusing.reused(lambda: sorted(sums.where("n > 0").collect()))
    assert rows == [Row(s="a", n=5), Row(s="c", n=6)]
    assert count == 0


def test_two_listings_of_one_path_in_one_query(reusing: Reusing, tables: Path) -> None:
    """To Spark both scans are the same."""
    path = str(tables / "sales")

    def sums(before: DataFrame, now: DataFrame) -> DataFrame:
        return (
            before.groupBy("k").agg(F.sum("v").alias("s"))
            .union(now.groupBy("k").agg(F.sum("v").alias("s")))
        )  # fmt: skip

    old = reusing.env.read.parquet(path)
    old.groupBy("k").agg(F.sum("v").alias("s")).collect()
    write(reusing.env.spark, tables / "sales", 70, "append")
    new = reusing.env.read.parquet(path)
    both = sums(old, new)
    rows, count = reusing.reused(both.collect)
    assert count == 0
    assert sorted(rows) == reusing.plainly(both)


def test_other_settings_get_other_rows(reusing: Reusing, tables: Path) -> None:
    spark = reusing.env.spark
    path = str(tables / "times")
    spark.sql("SELECT timestamp'2020-01-01 00:30:00' + make_interval(0,0,0,0,id) AS t "
              "FROM range(40)").write.parquet(path)  # fmt: skip

    def days() -> DataFrame:
        times: DataFrame = reusing.env.read.parquet(path)
        return times.groupBy(F.date_format("t", "yyyy-MM-dd").alias("d")).count()

    for zone in ("UTC", "Asia/Tokyo", "UTC", "America/Lima", "Asia/Tokyo"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        assert sorted(days().collect()) == reusing.plainly(days()), zone


def test_what_a_query_first_ran_under_is_not_what_others_get(
    reusing: Reusing, tables: Path
) -> None:
    """Expressions hold on to the settings that they were first evaluated under."""
    spark = reusing.env.spark
    spark.sql("SELECT id, int(null) AS j FROM range(5)").write.parquet(str(tables / "nulls"))

    def texts() -> DataFrame:
        nulls: DataFrame = reusing.env.read.parquet(str(tables / "nulls"))
        return nulls.groupBy(F.expr("to_json(struct(id % 2 AS i, j))").alias("t")).count()

    old = texts()
    spark.conf.set(NULL_FIELDS, "false")
    assert '{"i":0,"j":null}' in [row.t for row in old.select("*").collect()]
    spark.conf.set(NULL_FIELDS, "true")
    # Plain Spark gives what it first gave; what others get is of now.
    old.select("*").collect()
    assert {row.t for row in texts().collect()} == {'{"i":0}', '{"i":1}'}


@pytest.mark.parametrize(
    "query",
    [
        lambda s: s.withColumn("k", (F.rand() * 3).cast("int")).groupBy("k").count(),
        lambda s: s.groupBy(F.monotonically_increasing_id().alias("k")).count(),
        lambda s: s.limit(10).groupBy("k").count(),
        lambda s: s.sample(0.5).groupBy("k").count(),
        lambda s: s.groupBy(F.input_file_name().alias("k")).count(),
        lambda s: s.groupBy(F.udf(lambda k: str(k))("k").alias("k")).count(),
        lambda s: s.mapInArrow(lambda batches: batches, s.schema).groupBy("k").count(),
        lambda s: s.groupBy(F.expr("java_method('java.util.UUID', 'randomUUID')")).count(),
        lambda s: s.where(F.col("id").cast("double").isin(ZEROS)).groupBy("k").count(),
    ],
    ids=["rand", "ids", "limit", "sample", "file names", "function", "arrow", "java", "set"],
)
def test_what_is_in_doubt_is_not_held(
    reusing: Reusing, tables: Path, query: Callable[[Any], DataFrame]
) -> None:
    sales = reusing.env.read.parquet(str(tables / "sales"))
    query(sales).collect()
    _, count = reusing.reused(lambda: query(sales).agg(F.count("*")).collect())
    assert (reusing.held(), count) == (0, 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0.0D", "-0.0D"),
        ("CAST(0.0 AS FLOAT)", "-0.0F"),
        ("array(0.0D)[0]", "array(-0.0D)[0]"),
        ("CAST(X'ff' AS STRING)", "CAST(X'fe' AS STRING)"),
        ("0.5BD", "0.50BD"),
    ],
)
def test_literals_that_spark_takes_for_the_same(
    reusing: Reusing, tables: Path, one: str, other: str
) -> None:
    for literal in (one, other, one):
        sales = reusing.env.read.parquet(str(tables / "sales"))
        largest = F.expr(f"max(named_struct('a', id, 'b', {literal}))").alias("m")
        as_texts = sales.groupBy("k").agg(largest).select("k", F.col("m").cast("string"))
        assert sorted(as_texts.collect()) == reusing.plainly(as_texts)
    # Spark has them equal, and only their hashes tell them apart.
    assert (reusing.held() == 0) == ("0.0" in one)


def test_local_rows_that_spark_takes_for_the_same(reusing: Reusing) -> None:
    for zero in ("0.0D", "-0.0D", "0.0D"):
        values = reusing.env.sql(f"SELECT * FROM VALUES (1, {zero}), (2, {zero}) AS t(k, d)")
        signs = values.repartition(2, "k").selectExpr("k", "CAST(d AS STRING) AS d")
        assert sorted(signs.collect()) == reusing.plainly(signs)
    assert reusing.held() == 0


NUMBERS = """
    SELECT * FROM VALUES (1, 1e308D, 1e308D, -1e308D, 9223372036854775807L, 1L, -1L, 1, 0),
      (2, 0.1D, 0.2D, 0.3D, 1L, NULL, 3L, 2, 5) AS t(k, a, b, c, x, y, z, i, j)"""
WRITTEN = {
    "overflow to infinity": ("(a + b) + c", "a + (b + c)"),
    "the last digit": ("a + b + c", "c + b + a"),
    "an overflow that is null": ("try_add(try_add(x, y), z)", "try_add(x, try_add(y, z))"),
    "an overflow that throws": ("(z + x) + y", "(x + y) + z"),
    "a product": ("(a * c) * b", "a * (c * b)"),
    "equal texts": (
        "greatest('a' COLLATE UTF8_LCASE, upper(string(k)), 'A' COLLATE UTF8_LCASE)",
        "greatest('A' COLLATE UTF8_LCASE, upper(string(k)), 'a' COLLATE UTF8_LCASE)",
    ),
    "zeros": ("least(a - a, -(a - a))", "least(-(a - a), a - a)"),
    "what throws after what decides": ("y > 5 AND 10 / j > 1", "10 / j > 1 AND y > 5"),
    "what throws beside null": ("y = 10 DIV j", "10 DIV j = y"),
    "what throws in a list": ("z IN (-1, 10 DIV j)", "z IN (10 DIV j, -1)"),
    "in a lambda function": (
        "transform(array(a, b), e -> (e + b) + c)",
        "transform(array(a, b), e -> e + (b + c))",
    ),
}
SHAPES = (
    "SELECT k, max({}) AS v FROM numbers GROUP BY k",
    "SELECT /*+ REPARTITION(2, k) */ k, {} AS v FROM numbers",
    "SELECT k, x, v FROM numbers JOIN (SELECT k, max({}) AS v FROM numbers GROUP BY k) USING (k)",
    "SELECT k, count(*) AS v FROM numbers"
    " WHERE struct({0}) = (SELECT max(struct({0})) FROM numbers WHERE k = 1) GROUP BY k",
)


def outcome(action: Callable[[], list[Row]]) -> object:
    """Rows, or that there was an error."""
    try:
        return sorted(action(), key=str)
    except (PySparkException, Py4JJavaError):
        return "an error"


@pytest.mark.parametrize(("one", "other"), WRITTEN.values(), ids=WRITTEN.keys())
@pytest.mark.sampled(4)
def test_operands_in_another_order_are_computed(
    reusing: Reusing, tables: Path, one: str, other: str
) -> None:
    path = str(tables / "numbers")
    reusing.env.spark.sql(NUMBERS).coalesce(1).write.parquet(path)
    for shape in SHAPES:
        for expression in (one, other, one):
            reusing.env.spark.read.parquet(path).createOrReplaceTempView("numbers")
            # What has run once is not planned again.
            one_of, plain = (reusing.env.sql(shape.format(expression)) for _ in range(2))
            expected = outcome(lambda plain=plain: reusing.plainly(plain))
            assert outcome(one_of.collect) == expected, shape.format(expression)


def test_operands_in_the_same_order_are_reused(
    reusing: Reusing, tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark = reusing.env.spark
    spark.sql(NUMBERS).write.parquet(str(tables / "numbers"))

    def sums(expression: str, name: str) -> DataFrame:
        spark.read.parquet(str(tables / "numbers")).createOrReplaceTempView("numbers")
        return spark.sql(
            f"SELECT k, max({expression}) AS {name} FROM numbers"
            " WHERE k < 9 AND (c <= a OR i > j) AND k IN (3, 1, 2) GROUP BY k"
        )

    for expression in ("(a + c) + b", "(c + b) + a"):
        reusing.env.from_dataframe(sums(expression, "v")).collect()
        _, count = reusing.reused(sums(expression, "w").collect)
        assert count == 1
        assert "reused: Exchange" in outlook(reusing, sums(expression, "u"), capsys)
    said = outlook(reusing, sums("(a + c) + b", "v"), capsys)
    assert "as operands in another order than when an earlier query ran it" in said


def test_what_a_query_has_in_two_orders_is_not_held(reusing: Reusing, tables: Path) -> None:
    """Spark itself reads one of them for both."""
    path = str(tables / "numbers")
    reusing.env.spark.sql(NUMBERS).write.parquet(path)
    sums = "SELECT k, max({}) AS v FROM numbers GROUP BY k"
    one, other = (sums.format(each) for each in WRITTEN["overflow to infinity"])
    reusing.env.spark.read.parquet(path).createOrReplaceTempView("numbers")
    for query in (f"{one} UNION ALL {other}", other, f"{other} UNION ALL {one}", one, other):
        rows = reusing.env.sql(query)
        assert sorted(rows.collect()) == reusing.plainly(rows)


def test_joins_that_become_broadcasts_are_reused_as_they_are_written(
    reusing: Reusing, tables: Path
) -> None:
    """Spark plans them again when it has seen their sides."""
    spark = reusing.env.spark
    spark.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", "10mb")
    spark.conf.set("spark.sql.cbo.enabled", "false")
    spark.sql(NUMBERS).write.parquet(str(tables / "numbers"))

    def counts(expression: str) -> DataFrame:
        numbers = reusing.env.read.parquet(str(tables / "numbers"))
        keyed = numbers.selectExpr("k", "z", f"{expression} AS v").where("v IS NOT NULL")
        sums = numbers.alias("n").join(keyed.alias("m"), F.expr("n.z = m.z AND n.k = m.k"))
        found: DataFrame = sums.groupBy("m.v").agg(F.count("*").alias("c"))
        return found

    for one, other in (("(x + z) + y", "x + (z + y)"), ("a + b + c", "c + b + a")):
        reused = []
        for expression in (one, one, other):
            rows, count = reusing.reused(counts(expression).collect)
            assert sorted(rows, key=str) == reusing.plainly(counts(expression))
            reused.append(count)
        assert reused[1] > 1


def test_a_path_that_is_named_twice_is_read_twice(reusing: Reusing, tables: Path) -> None:
    path = str(tables / "shops")
    for paths in ([path], [path, path], [path]):
        counts = reusing.env.read.parquet(*paths).groupBy("n").count()
        assert sorted(counts.collect()) == reusing.plainly(counts)
    once, twice = (reusing.env.read.parquet(*[path] * n).groupBy("n").count() for n in (1, 2))
    both = twice.join(once.withColumnRenamed("count", "c"), "n")
    assert sorted(both.collect()) == reusing.plainly(both)


X, Y = "PARTITION (p=1, q='a,b')", "PARTITION (p=2, q='a')"
MOVES = {
    "set location": [
        f"ALTER TABLE {{t}} {X} SET LOCATION '{{home}}/y'",
        f"ALTER TABLE {{t}} {Y} SET LOCATION '{{home}}/x'",
    ],
    "renamed": [
        f"ALTER TABLE {{t}} {X} RENAME TO PARTITION (p=3, q='c')",
        f"ALTER TABLE {{t}} {Y} RENAME TO {X}",
        f"ALTER TABLE {{t}} PARTITION (p=3, q='c') RENAME TO {Y}",
    ],
    "dropped and added": [
        f"ALTER TABLE {{t}} DROP {X}, {Y}",
        f"ALTER TABLE {{t}} ADD {X} LOCATION '{{home}}/y' {Y} LOCATION '{{home}}/x'",
    ],
    "another table": [
        "DROP TABLE {t}",
        "CREATE TABLE {t} (id BIGINT, p INT, q STRING) USING parquet PARTITIONED BY (p, q)"
        " LOCATION '{home}/t'",
        f"ALTER TABLE {{t}} ADD {X} LOCATION '{{home}}/y' {Y} LOCATION '{{home}}/x'",
    ],
    "values of another type": [
        "DROP TABLE {t}",
        "CREATE TABLE {t} (id BIGINT, p DOUBLE, q STRING) USING parquet PARTITIONED BY (p, q)"
        " LOCATION '{home}/t'",
        f"ALTER TABLE {{t}} ADD {X} LOCATION '{{home}}/x' {Y} LOCATION '{{home}}/y'",
    ],
    "both in one directory": [
        f"ALTER TABLE {{t}} DROP {X}, {Y}",
        f"ALTER TABLE {{t}} ADD {X} LOCATION '{{home}}/x' {Y} LOCATION '{{home}}/x'",
    ],
    "values that look like others": [
        f"ALTER TABLE {{t}} {X} RENAME TO PARTITION (p=1, q='null')",
        f"ALTER TABLE {{t}} {Y} RENAME TO PARTITION (p=1, q='a')",
    ],
}


@pytest.mark.parametrize("statements", MOVES.values(), ids=MOVES.keys())
def test_partitions_with_other_values_or_directories(
    reusing: Reusing, tmp_path: Path, statements: list[str]
) -> None:
    env, table = reusing.env, f"moved_{tmp_path.name.replace('-', '_')}"
    env.spark.range(9).write.parquet(str(tmp_path / "x"))
    env.spark.range(100, 103).write.parquet(str(tmp_path / "y"))

    def run(texts: list[str]) -> None:
        for text in texts:
            env.spark.sql(text.format(t=table, home=tmp_path))

    def counts() -> DataFrame:
        query = f"SELECT p, q, count(*) AS n, min(id) AS m FROM {table} WHERE p > 0 GROUP BY p, q"
        found: DataFrame = env.sql(query)
        return found

    run(MOVES["another table"][1:])
    run([f"ALTER TABLE {{t}} {X} SET LOCATION '{{home}}/x'"])
    run([f"ALTER TABLE {{t}} {Y} SET LOCATION '{{home}}/y'"])
    try:
        first = sorted(counts().collect())
        again, count = reusing.reused(lambda: sorted(counts().collect()))
        assert (again, count) == (first, 1)
        run(statements)
        rows, count = reusing.reused(lambda: sorted(counts().collect()))
        # 1 is 1.0 to Python.
        assert str(rows) == str(reusing.plainly(counts()))
        assert str(rows) != str(first)
        assert count == 0
    finally:
        run(["DROP TABLE {t}"])


def test_partitions_of_a_catalogs_table_are_not_told_by_paths(
    reusing: Reusing, tables: Path
) -> None:
    env = reusing.env
    name = f"parts_{tables.name.replace('-', '_')}"
    sales = env.read.parquet(str(tables / "sales"))
    sales.write.partitionBy("k").saveAsTable(name, path=str(tables / "parts"))
    try:
        for _ in range(2):
            counts = env.table(name).groupBy("k").count()
            assert sorted(counts.collect()) == reusing.plainly(counts)
            env.sql(f"INSERT INTO {name} SELECT 5000L, 1, 3L").collect()
            env.spark.catalog.refreshTable(name)
    finally:
        env.sql(f"DROP TABLE {name}").collect()


def test_rows_without_files_of_their_own_are_not_held(reusing: Reusing) -> None:
    """An RDD may give other rows each time."""
    spark = reusing.env.spark
    rdd = spark.sparkContext.parallelize([0], 1).map(lambda _: (os.urandom(4).hex(),))
    df = reusing.env.from_dataframe(spark.createDataFrame(rdd, "s STRING"))
    df.groupBy("s").count().collect()
    assert reusing.held() == 0


def test_a_subquery_over_files_that_have_changed(reusing: Reusing, tables: Path) -> None:
    spark = reusing.env.spark

    def above() -> DataFrame:
        for name in ("sales", "shops"):
            spark.read.parquet(str(tables / name)).createOrReplaceTempView(name)
        found: DataFrame = reusing.env.sql(
            "SELECT n.n, count(*) AS c FROM sales s JOIN shops n USING (k) "
            "WHERE s.id > (SELECT count(*) FROM shops) GROUP BY n.n"
        )
        return found

    assert sorted(above().collect()) == reusing.plainly(above())
    more = spark.range(100, 300).select(F.col("id").alias("k"), F.lit("x").alias("n"))
    more.write.mode("append").parquet(str(tables / "shops"))
    assert sorted(above().collect()) == reusing.plainly(above())
    assert sum(row.c for row in above().collect()) == 1000 - 208


def test_views_and_commands_of_the_same_name(reusing: Reusing, tables: Path) -> None:
    spark = reusing.env.spark
    for bound in (100, 500):
        sales = spark.read.parquet(str(tables / "sales")).where(f"id < {bound}")
        sales.createOrReplaceTempView("some")
        rows = reusing.env.sql("SELECT k, count(*) AS c FROM some GROUP BY k").collect()
        assert sum(row.c for row in rows) == bound


LOSING = """
import sys
from pathlib import Path
from pyspark.sql import functions as F
from holdfast import Environment
from tests.short_lived_jvm import local_session

home = Path(sys.argv[1])
spark = local_session("losing", home / "home").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", 3)
spark.range(100).selectExpr("id", "id % 7 AS k").write.parquet(str(home / "numbers"))
config = {
    "intermediate-result-storage.directory": str(home / "kept"),
    "implicit-cache.enabled": True,
    "implicit-cache.results.enabled": False,
}
with Environment(spark, config=config) as env:
    def counts():
        return sorted(env.read.parquet(str(home / "numbers")).groupBy("k").count().collect())

    first = counts()
    files = [*(home / "home" / "local").glob("blockmgr-*/*/shuffle_*")]
    for file in files:
        file.unlink()
    print(len(files) > 0, counts() == first, env._implicit.live.uses)
spark.stop()
"""


def test_lost_shuffle_files_are_made_again(tmp_path: Path) -> None:
    """In a JVM of its own: a local Spark that has missed some ends ten minutes later, with 56."""
    done = subprocess.run(
        [sys.executable, "-c", LOSING, str(tmp_path)],
        capture_output=True,
        text=True,
        env=os.environ | environment_of_program(),
        timeout=200,
        check=False,
    )
    assert done.stdout.split() == ["True", "True", "1"], done.stderr


def test_sources_that_are_gone_are_an_error_as_with_spark(reusing: Reusing, tables: Path) -> None:
    sums = by_shop(reusing.env, tables)
    sums.collect()
    fresh = by_shop(reusing.env, tables)
    shutil.rmtree(tables / "sales")
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist|No such file"):
        fresh.agg(F.max("s")).collect()


def test_there_is_no_room(session: SparkSession, tables: Path) -> None:
    config = {
        "intermediate-result-storage.directory": str(tables / "kept"),
        "implicit-cache.enabled": True,
        "implicit-cache.results.enabled": False,
        "implicit-cache.live-shuffles.max-size": "100 b",
    }
    with Environment(session, config=config) as env:
        reusing = Reusing(env)
        by_shop(env, tables).collect()
        rows = sorted(by_shop(env, tables).collect())
        reusing.live.tend()
        assert rows == reusing.plainly(by_shop(session, tables))
        assert reusing.held() == 0


def test_what_is_used_stays_when_there_is_room_for_one(reusing: Reusing, tables: Path) -> None:
    sales = reusing.env.read.parquet(str(tables / "sales"))

    def ask(column: str) -> None:
        sales.groupBy(column).count().collect()

    ask("k")
    reusing.live.tend()
    for _ in range(3):
        sales.groupBy("k").count().collect()
    one = reusing.held()
    assert one == 1
    # From now on there is room for what is held, and not for more.
    reusing.live._limit = lambda held, free: held
    ask("k")
    reusing.live.tend()
    _, count = reusing.reused(lambda: ask("k"))
    assert (reusing.held(), count) == (1, 1)
    reusing.live._limit = lambda held, free: 0
    ask("v")
    reusing.live.tend()
    assert reusing.held() == 0


def test_threads_get_their_own_rows(reusing: Reusing, tables: Path) -> None:
    spark = reusing.env.spark
    for number in range(4):
        write(spark, tables / f"sales{number}", 100 + number)
    wrong: list[object] = []

    def ask(number: int) -> None:
        for _ in range(3):
            sales = reusing.env.read.parquet(str(tables / f"sales{number}"))
            rows = sales.groupBy("k").agg(F.sum("v").alias("s")).collect()
            if sum(row.s for row in rows) != 100 + number:
                wrong.append(rows)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert reusing.live.uses > 0


def test_a_closed_environment_reuses_nothing(session: SparkSession, tables: Path) -> None:
    config = {
        "intermediate-result-storage.directory": str(tables / "kept"),
        "implicit-cache.enabled": True,
        "implicit-cache.results.enabled": False,
    }
    state = session._jsparkSession.sessionState()
    before = state.columnarRules().size(), state.planNormalizationRules().size()
    with Environment(session, config=config) as env:
        reusing = Reusing(env)
        by_shop(env, tables).collect()
        assert reusing.held()
    assert (state.columnarRules().size(), state.planNormalizationRules().size()) == before
    assert reusing.held() == 0


def test_it_is_off_unless_asked_for(env: Environment) -> None:
    assert env._implicit.live is None


def test_a_query_that_fails_or_is_cancelled_costs_others_nothing(
    reusing: Reusing, tables: Path
) -> None:
    sums = by_shop(reusing.env, tables)
    expected = sorted(sums.collect())
    failing = by_shop(reusing.env, tables).where("s > 0 AND raise_error('as asked') IS NULL")
    for _ in range(2):
        with pytest.raises(Exception, match="as asked"):
            failing.select("n").collect()
    spark = reusing.env.spark
    sleep = "java_method('java.lang.Thread', 'sleep', 60000L) IS NULL"
    slow = by_shop(reusing.env, tables).where(sleep)
    errors: list[Exception] = []

    def ask_slowly() -> None:
        try:
            slow.collect()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=ask_slowly)
    thread.start()
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.05)
    spark.sparkContext.cancelAllJobs()
    thread.join()
    assert "cancelled" in str(errors[0])
    rows, count = reusing.reused(lambda: sorted(by_shop(reusing.env, tables).collect()))
    assert (rows, count) == (expected, 1)

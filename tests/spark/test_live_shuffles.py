"""Queries reuse the shuffles of the session's earlier queries, and give Spark's own rows."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast
from tests.spark.running_jobs import spark_jobs

NULL_FIELDS = "spark.sql.jsonGenerator.ignoreNullFields"
SETTINGS = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.adaptive.enabled": "true",
}
Query = str | Callable[[Any], DataFrame]


@dataclass(frozen=True)
class Asked:
    """An attached session whose queries reuse, plain Spark's beside it, and a home for files."""

    session: Any
    plain: SparkSession
    home: Path

    def set(self, key: str, value: str) -> None:
        """Gives both sessions a setting."""
        for each in (self.session, self.plain):
            each.conf.set(key, value)

    def path(self, name: str) -> str:
        """Where files of the home are."""
        return str(self.home / name)

    def reused(self) -> int:
        """How many exchanges of earlier queries the last job has reused."""
        result = self.session.holdfast.last_job_result
        return 0 if result is None else int(result.reused_exchanges)

    def __call__(self, *queries: Query) -> list[int]:
        """Asks both: the rows are plain Spark's. Says how often each query has reused."""
        reused = []
        for query in queries:
            found, expected = (rows(of(each, query)) for each in (self.session, self.plain))
            assert found == expected, query
            reused.append(self.reused())
        return reused


def of(session: Any, query: Query) -> DataFrame:
    return session.sql(query) if isinstance(query, str) else query(session)


def rows(df: DataFrame) -> object:
    """Rows whose order doesn't count, or that there was an error."""
    try:
        return sorted(map(repr, df.collect()))
    except (PySparkException, Py4JJavaError):
        return "an error"


def config(home: Path, **more: str) -> dict[str, str]:
    return {
        "intermediate-result-storage.directory": str(home / "kept"),
        "implicit-cache.enabled": "true",
        "implicit-cache.results.enabled": "false",
    } | more


@pytest.fixture
def sessions(spark: SparkSession) -> list[SparkSession]:
    """Two sessions of the same settings."""
    made = [spark.newSession() for _ in range(2)]
    for session in made:
        for key, value in SETTINGS.items():
            session.conf.set(key, value)
    return made


def add_sales(spark: SparkSession, number: int, to: str) -> None:
    sales = spark.range(number).selectExpr("id", "id % 7 AS k", "1 AS v")
    sales.write.mode("append").parquet(to)


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of `sales`, `shops` and `numbers`."""
    home = tmp_path_factory.mktemp("files")
    add_sales(spark, 1000, str(home / "sales"))
    spark.range(7).selectExpr("id AS k", "concat('n', id) AS n").write.parquet(f"{home}/shops")
    spark.sql(NUMBERS).coalesce(1).write.parquet(f"{home}/numbers")
    return home


@pytest.fixture
def ask(sessions: list[SparkSession], files: Path, tmp_path: Path) -> Iterator[Asked]:
    home = shutil.copytree(files, tmp_path / "files")
    yield Asked(holdfast.attach(sessions[0], config(home)), sessions[1], home)
    holdfast.detach(sessions[0])


@pytest.fixture
def by_shop(ask: Asked) -> Callable[[Any], DataFrame]:
    def query(session: Any) -> DataFrame:
        sales, shops = (session.read.parquet(ask.path(name)) for name in ("sales", "shops"))
        found: DataFrame = sales.join(shops, "k").groupBy("n").agg(F.sum("v").alias("s"))
        return found

    return query


def of_sales(ask: Asked, above: Callable[[DataFrame], DataFrame]) -> Callable[[Any], DataFrame]:
    return lambda session: above(session.read.parquet(ask.path("sales")))


@pytest.fixture
def explained(ask: Asked, capsys: pytest.CaptureFixture[str]) -> Callable[[Query], str]:
    """What `explain` says of a query's exchanges."""

    def explain(query: Query) -> str:
        capsys.readouterr()
        of(ask.session, query).explain()
        shown = capsys.readouterr().out
        return shown[shown.find("== Holdfast ==") :]

    return explain


# -- what is reused --------------------------------------------------------------------------------


def test_the_same_query_again_runs_no_exchange_and_says_so(
    ask: Asked, by_shop: Any, explained: Callable[[Query], str]
) -> None:
    assert re.search(
        r"to be held for later queries: Exchange hashpartitioning\(n#", explained(by_shop)
    )
    assert ask(by_shop) == [0]
    assert ask.session.holdfast.last_job_result.saved_seconds == 0
    said = explained(by_shop)
    assert re.search(r"reused: Exchange hashpartitioning\(n#\d+, 3\)", said)
    assert "as an earlier query left it; its tasks took" in said
    assert ask(by_shop) == [1]
    again = ask.session.holdfast.last_job_result
    assert 0 < again.reused_seconds == again.saved_seconds < 60
    assert "1 shuffles and broadcasts of earlier queries were reused" in repr(again)


def test_broadcasts_are_reused(ask: Asked, by_shop: Any) -> None:
    ask.set("spark.sql.autoBroadcastJoinThreshold", "10mb")
    assert ask(by_shop, by_shop) == [0, 1]
    ask(lambda session: by_shop(session).where("n <> 'n3'"))


def test_writes_and_commands_reuse_and_leave_what_is_reused(ask: Asked, by_shop: Any) -> None:
    by_shop(ask.session).write.parquet(ask.path("one"))
    assert ask.reused() == 0
    by_shop(ask.session).createOrReplaceTempView("sums")
    ask.session.sql(f"INSERT OVERWRITE DIRECTORY '{ask.path('two')}' USING parquet TABLE sums")
    by_shop(ask.session).write.parquet(ask.path("three"))
    assert ask.reused() == 1
    for name in ("one", "two", "three"):
        assert rows(ask.plain.read.parquet(ask.path(name))) == rows(by_shop(ask.plain))


def test_what_a_query_reuses_of_its_own_is_no_use_of_an_earlier_one(
    ask: Asked, by_shop: Any
) -> None:
    assert ask(lambda session: by_shop(session).union(by_shop(session))) == [0]


# -- sources that have changed ---------------------------------------------------------------------


def lines(ask: Asked) -> tuple[Path, Callable[[Any], DataFrame]]:
    """A file, and a query of its directory."""
    (ask.home / "lines").mkdir()
    file = ask.home / "lines" / "a.csv"
    file.write_text("1,a\n2,b\n")

    def counted(session: Any) -> DataFrame:
        read = session.read.csv(str(file.parent), schema="n INT, s STRING")
        sums: DataFrame = read.groupBy("s").agg(F.sum("n").alias("n"))
        return sums

    return file, counted


def replace(file: Path) -> None:
    """Another file of the same size and time takes its place."""
    stat = file.stat()
    other = file.with_name("other")
    other.write_text("5,a\n6,c\n")
    other.rename(file)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_files_that_were_added_are_read(
    ask: Asked, by_shop: Any, explained: Callable[[Query], str]
) -> None:
    ask(by_shop)
    add_sales(ask.plain, 50, ask.path("sales"))
    said = explained(by_shop)
    assert "as other files than when an earlier query ran it" in said
    # The shops are as they were.
    assert said.count("\nreused: ") == 1
    ask(by_shop)


def test_a_file_that_was_replaced_by_one_of_the_same_size_and_time_is_read(ask: Asked) -> None:
    file, counted = lines(ask)
    listed = {session: counted(session) for session in (ask.session, ask.plain)}
    assert ask(counted, counted) == [0, 1]
    replace(file)
    # Spark reads what is there, not what was listed.
    assert ask(lambda session: listed[session].where("n > 0")) == [0]
    ask(counted)


def test_two_listings_of_one_path_in_one_query(ask: Asked) -> None:
    """To Spark both scans are the same."""
    sums = of_sales(ask, lambda read: read.groupBy("k").agg(F.sum("v").alias("s")))
    old = {session: sums(session) for session in (ask.session, ask.plain)}
    ask(old.__getitem__)
    add_sales(ask.plain, 70, ask.path("sales"))
    assert ask(lambda session: old[session].union(sums(session))) == [0]


def test_a_subquery_over_files_that_have_changed(ask: Asked) -> None:
    def above(session: Any) -> DataFrame:
        for name in ("sales", "shops"):
            session.read.parquet(ask.path(name)).createOrReplaceTempView(name)
        found: DataFrame = session.sql(
            "SELECT n.n, count(*) AS c FROM sales s JOIN shops n USING (k) "
            "WHERE s.id > (SELECT count(*) FROM shops) GROUP BY n.n"
        )
        return found

    ask(above)
    more = ask.plain.range(100, 300).selectExpr("id AS k", "'x' AS n")
    more.write.mode("append").parquet(ask.path("shops"))
    ask(above)
    assert sum(row.c for row in above(ask.session).collect()) == 1000 - 208


def test_a_path_that_is_named_twice_is_read_twice(ask: Asked) -> None:
    def counts(session: Any, times: int) -> Any:
        return session.read.parquet(*[ask.path("shops")] * times).groupBy("n").count()

    once, twice = (partial(counts, times=times) for times in (1, 2))
    ask(once, twice, once)
    ask(lambda s: twice(s).join(once(s).withColumnRenamed("count", "c"), "n"))


X, Y = "PARTITION (p=1, q='a,b')", "PARTITION (p=2, q='a')"
CREATE = (
    "CREATE TABLE {t} (id BIGINT, p %s, q STRING) USING parquet PARTITIONED BY (p, q) "
    "LOCATION '{home}/t'"
)
ADD = f"ALTER TABLE {{t}} ADD {X} LOCATION '{{home}}/%s' {Y} LOCATION '{{home}}/%s'"
BEGIN = [CREATE % "INT", ADD % ("x", "y")]
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
    "inserted into": ["INSERT INTO {t} SELECT 5000L, 1, 'a,b'"],
    "dropped and added": [f"ALTER TABLE {{t}} DROP {X}, {Y}", ADD % ("y", "x")],
    "another table": ["DROP TABLE {t}", BEGIN[0], ADD % ("y", "x")],
    "values of another type": ["DROP TABLE {t}", CREATE % "DOUBLE", ADD % ("x", "y")],
    "both in one directory": [f"ALTER TABLE {{t}} DROP {X}, {Y}", ADD % ("x", "x")],
    "values that look like others": [
        f"ALTER TABLE {{t}} {X} RENAME TO PARTITION (p=1, q='null')",
        f"ALTER TABLE {{t}} {Y} RENAME TO PARTITION (p=1, q='a')",
    ],
}


@pytest.mark.parametrize("statements", MOVES.values(), ids=MOVES.keys())
@pytest.mark.sampled(4)
def test_partitions_with_other_values_or_directories(ask: Asked, statements: list[str]) -> None:
    table = f"moved_{uuid.uuid4().hex}"
    ask.plain.range(9).write.parquet(ask.path("x"))
    ask.plain.range(100, 103).write.parquet(ask.path("y"))
    counts = f"SELECT p, q, count(*) AS n, min(id) AS m FROM {table} WHERE p > 0 GROUP BY p, q"

    def run(texts: list[str]) -> None:
        for text in texts:
            ask.session.sql(text.format(t=table, home=ask.home))
        for session in (ask.session, ask.plain):
            session.catalog.refreshTable(table)

    run(BEGIN)
    try:
        assert ask(counts, counts) == [0, 1]
        before = rows(ask.plain.sql(counts))
        run(statements)
        assert ask(counts) == [0]
        assert rows(ask.plain.sql(counts)) != before
    finally:
        ask.session.sql(f"DROP TABLE {table}")


# -- settings, and what is written in another way --------------------------------------------------


def test_other_settings_get_other_rows(
    ask: Asked, by_shop: Any, explained: Callable[[Query], str]
) -> None:
    times = "timestamp'2020-01-01 00:30:00' + make_interval(0,0,0,0,id)"
    ask.plain.sql(f"SELECT {times} AS t FROM range(40)").write.parquet(ask.path("times"))
    days = f"SELECT date_format(t, 'y-MM-dd') AS d, count(*) FROM parquet.`{ask.path('times')}` "
    for zone in ("UTC", "Asia/Tokyo", "UTC"):
        ask.set("spark.sql.session.timeZone", zone)
        ask(days + "GROUP BY 1")
    ask(by_shop)
    ask.set("spark.sql.ansi.enabled", "false")
    assert "as other settings than when an earlier query ran it" in explained(by_shop)
    ask(by_shop)


def test_what_a_query_first_ran_under_is_not_what_others_get(ask: Asked) -> None:
    """Expressions hold on to the settings that they were first evaluated under."""
    path = ask.path("nulls")
    ask.plain.sql("SELECT id, int(null) AS j FROM range(5)").write.parquet(path)
    texts = (
        "SELECT to_json(struct(id % 2 AS i, j)) AS t, count(*) AS c "
        f"FROM parquet.`{path}` GROUP BY 1"
    )
    old = ask.session.sql(texts)
    ask.set(NULL_FIELDS, "false")
    assert '{"i":0,"j":null}' in [row.t for row in old.select("*").collect()]
    ask.set(NULL_FIELDS, "true")
    # Plain Spark gives what it first gave; what others get is of now.
    old.select("*").collect()
    ask(texts)


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
SHAPES = {
    "an aggregate": "SELECT k, max({}) AS v FROM numbers GROUP BY k",
    "a repartition": "SELECT /*+ REPARTITION(2, k) */ k, {} AS v FROM numbers",
    "a join": "SELECT k, x, v FROM numbers "
    "JOIN (SELECT k, max({}) AS v FROM numbers GROUP BY k) USING (k)",
    "a subquery": "SELECT k, count(*) AS v FROM numbers"
    " WHERE struct({0}) = (SELECT max(struct({0})) FROM numbers WHERE k = 1) GROUP BY k",
}


@pytest.fixture
def over_numbers(ask: Asked) -> Callable[[str], Callable[[Any], DataFrame]]:
    """Queries of a view `numbers` of files."""

    def made(text: str) -> Callable[[Any], DataFrame]:
        def query(session: Any) -> DataFrame:
            session.read.parquet(ask.path("numbers")).createOrReplaceTempView("numbers")
            return of(session, text)

        return query

    return made


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
@pytest.mark.parametrize(("one", "other"), WRITTEN.values(), ids=WRITTEN.keys())
@pytest.mark.sampled(13)
def test_operands_in_another_order_are_computed(
    ask: Asked, over_numbers: Any, one: str, other: str, shape: str
) -> None:
    ask(*(over_numbers(shape.format(expression)) for expression in (one, other, one)))


def test_operands_in_the_same_order_are_reused(
    ask: Asked, over_numbers: Any, explained: Callable[[Query], str]
) -> None:
    def sums(expression: str, name: str) -> Any:
        conditions = "k < 9 AND (c <= a OR i > j) AND k IN (3, 1, 2)"
        return over_numbers(
            f"SELECT k, max({expression}) AS {name} FROM numbers WHERE {conditions} GROUP BY k"
        )

    for expression in ("(a + c) + b", "(c + b) + a"):
        assert ask(sums(expression, "v"), sums(expression, "w")) == [0, 1]
    said = explained(sums("(a + c) + b", "v"))
    assert "as operands in another order than when an earlier query ran it" in said


def test_what_a_query_has_in_two_orders_is_not_held(ask: Asked, over_numbers: Any) -> None:
    """Spark itself reads one of them for both."""
    one, other = (SHAPES["an aggregate"].format(each) for each in WRITTEN["overflow to infinity"])
    queries = (f"{one} UNION ALL {other}", other, f"{other} UNION ALL {one}", one)
    ask(*map(over_numbers, queries))


def test_joins_that_become_broadcasts_are_reused_as_they_are_written(
    ask: Asked, over_numbers: Any
) -> None:
    """Spark plans them again when it has seen their sides."""
    ask.set("spark.sql.adaptive.autoBroadcastJoinThreshold", "10mb")
    ask.set("spark.sql.cbo.enabled", "false")

    def counts(expression: str) -> Any:
        return over_numbers(
            f"""SELECT m.v, count(*) AS c FROM numbers n JOIN (
                  SELECT k, z, {expression} AS v FROM numbers WHERE {expression} IS NOT NULL) m
                ON n.z = m.z AND n.k = m.k GROUP BY m.v"""
        )

    sums, others = counts("a + b + c"), counts("c + b + a")
    assert ask(sums, sums, others)[1] > 1


# Spark has them equal, and only their hashes differ.
LITERALS = [
    ("0.0D", "-0.0D", False),
    ("CAST(0.0 AS FLOAT)", "-0.0F", False),
    ("array(0.0D)[0]", "array(-0.0D)[0]", False),
    ("CAST(X'ff' AS STRING)", "CAST(X'fe' AS STRING)", True),
    ("0.5BD", "0.50BD", True),
]


def test_literals_and_local_rows_that_spark_takes_for_the_same(ask: Asked) -> None:
    def query(literal: str) -> str:
        largest = f"max(named_struct('a', id, 'b', {literal}))"
        return f"SELECT k, string({largest}) FROM parquet.`{ask.path('sales')}` GROUP BY k"

    for one, other, held in LITERALS:
        assert ask(*map(query, (one, other, one))) == [0, 0, int(held)]

    def signs(zero: str) -> Query:
        values = f"SELECT * FROM VALUES (1, {zero}), (2, {zero}) AS t(k, d)"
        return lambda session: session.sql(values).repartition(2, "k").selectExpr("string(d)")

    assert ask(*map(signs, ("0.0D", "-0.0D", "0.0D"))) == [0, 0, 0]


# -- what is not held ------------------------------------------------------------------------------

ZEROS = [float(number) for number in range(12)]
EVAL = r"the rows of \w+EvalPython may depend on more than its inputs"


def of_an_rdd(df: DataFrame) -> DataFrame:
    """An RDD may give other rows each time."""
    spark = df.sparkSession
    rdd = spark.sparkContext.parallelize([0], 1).map(lambda _: (os.urandom(4).hex(),))
    return spark.createDataFrame(rdd, "s STRING").groupBy("s").count()


DOUBTED: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "chance": (
        lambda df: df.withColumn("k", (F.rand() * 3).cast("int")).groupBy("k").count(),
        "rand is not deterministic",
    ),
    "ids": (lambda df: df.groupBy(F.monotonically_increasing_id()).count(), ""),
    "limit": (lambda df: df.limit(10).groupBy("k").count(), ""),
    "sample": (lambda df: df.sample(0.5).groupBy("k").count(), ""),
    "file names": (lambda df: df.groupBy(F.input_file_name()).count(), ""),
    "a function": (lambda df: df.groupBy(F.udf(lambda k: str(k))("k")).count(), EVAL),
    "batches": (lambda df: df.mapInArrow(lambda bs: bs, df.schema).groupBy("k").count(), ""),
    "Java": (
        lambda df: df.groupBy(F.expr("java_method('java.util.UUID', 'randomUUID')")).count(),
        "",
    ),
    "a set with zero": (
        lambda df: df.where(F.col("id").cast("double").isin(ZEROS)).groupBy("k").count(),
        "",
    ),
    "a literal zero": (
        lambda df: df.where("id > 0.0D").groupBy("k").count(),
        "Spark takes different floating-point values for equal",
    ),
    "a sketch": (
        lambda df: df.selectExpr("kll_sketch_agg_bigint(id) AS v"),
        "kll_sketch_agg_bigint may depend on more than its inputs",
    ),
    "an encryption": (
        lambda df: df.selectExpr("aes_encrypt(string(id), '0123456789abcdef')").distinct(),
        "staticinvoke may depend on more than its inputs",
    ),
    "an RDD": (of_an_rdd, ""),
}


def test_what_is_in_doubt_is_not_held(ask: Asked, explained: Callable[[Query], str]) -> None:
    for name, (above, why) in DOUBTED.items():
        asked = of_sales(ask, above)(ask.session)
        asked.collect()
        said = explained(lambda session, asked=asked: asked.select("*"))
        assert re.search(rf"not reused: \w*Exchange .*\n  as .*{why}", said), (name, said)
        asked.select("*").collect()
        assert ask.reused() == 0, name


def test_a_session_that_was_detached_or_does_not_ask_for_it_reuses_nothing(
    sessions: list[SparkSession], ask: Asked, by_shop: Any
) -> None:
    ask(by_shop)
    assert spark_jobs(sessions[0], by_shop(ask.session).collect)[1] == 1
    holdfast.detach(sessions[0])
    alone = [spark_jobs(each, by_shop(each).collect)[1] for each in sessions]
    assert alone[0] == alone[1] > 1
    directory = {"intermediate-result-storage.directory": ask.path("kept")}
    holdfast.attach(sessions[0], directory)
    assert ask(by_shop, by_shop) == [0, 0]


# -- what is lost, fails, or has no room -----------------------------------------------------------


def test_lost_shuffle_files_are_made_again(ask: Asked, by_shop: Any) -> None:
    local = Path(ask.plain.conf.get("spark.local.dir") or "")
    before = {*local.glob("blockmgr-*/*/shuffle_*")}
    assert ask(by_shop) == [0]
    lost = {*local.glob("blockmgr-*/*/shuffle_*")} - before
    assert lost
    for file in lost:
        file.unlink(missing_ok=True)
    assert ask(by_shop) == [1]
    # Else its heartbeats fail, and Spark ends when sixty have.
    end = time.monotonic() + 30
    while not ask.plain.sparkContext._jsc.sc().getExecutorMemoryStatus().size():
        assert time.monotonic() < end, "Spark has no executor any more"
        time.sleep(0.05)


def test_sources_that_are_gone_are_an_error_as_with_spark(ask: Asked, by_shop: Any) -> None:
    ask(by_shop)
    listed = by_shop(ask.session)
    shutil.rmtree(ask.home / "sales")
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist|No such file"):
        listed.agg(F.max("s")).collect()


def test_what_there_is_no_room_for_is_not_held(
    sessions: list[SparkSession], ask: Asked, by_shop: Any
) -> None:
    holdfast.detach(sessions[0])
    least = {"implicit-cache.live-shuffles.max-size": "100 b"}
    holdfast.attach(sessions[0], config(ask.home, **least))
    ask(by_shop)
    end = time.monotonic() + 60
    while ask(by_shop) != [0]:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_what_is_worth_most_stays_where_there_is_room_for_one(
    sessions: list[SparkSession], ask: Asked
) -> None:
    holdfast.detach(sessions[0])
    holdfast.attach(
        sessions[0], config(ask.home, **{"implicit-cache.live-shuffles.max-size": "16 kb"})
    )
    # Of 10 KB each.
    slow = F.expr("sum(aggregate(sequence(0, 300), id, (sum, each) -> sum + each % 7))")
    dear = of_sales(ask, lambda read: read.groupBy(F.col("id") % 500).agg(slow))
    cheap = of_sales(ask, lambda read: read.groupBy(F.col("id") % 501).agg(F.sum("k")))
    assert ask(dear, dear, cheap, dear, cheap, dear) == [0, 1, 0, 1, 0, 1]


def test_a_query_that_fails_or_is_cancelled_costs_others_nothing(ask: Asked, by_shop: Any) -> None:
    ask(by_shop)
    failing = by_shop(ask.session).where("s > 0 AND raise_error('as asked') IS NULL")
    for _ in range(2):
        with pytest.raises(PySparkException, match="as asked"):
            failing.select("n").collect()
    slow = by_shop(ask.session).where("java_method('java.lang.Thread', 'sleep', 60000L) IS NULL")
    errors: list[Exception] = []

    def wait() -> None:
        try:
            slow.collect()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    context = ask.plain.sparkContext
    while not context.statusTracker().getActiveJobsIds():
        time.sleep(0.05)
    context.cancelAllJobs()
    thread.join()
    assert "cancelled" in str(errors[0])
    assert ask(by_shop) == [1]

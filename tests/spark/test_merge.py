"""MERGE, UPDATE and DELETE on attached sessions: their sources read what is kept."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import holdfast
from holdfast import VertexOutcome
from holdfast.testing import assert_reads, outcomes
from tests.spark.running_jobs import SlowJob

READ = [VertexOutcome.READ, VertexOutcome.RUN]
PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]

COLUMNS = "day BIGINT, n BIGINT, x DOUBLE, s STRUCT<a: INT, b: ARRAY<STRING>>"
ROWS = """VALUES (1L, 1L, DOUBLE('NaN'), NULL), (2L, NULL, -0.0D, named_struct('a', 2, 'b', NULL)),
                 (3L, 3L, 0.0D, NULL), (20L, 20L, NULL, named_struct('a', NULL, 'b', array('y'))),
                 (NULL, 30L, 1.0D, NULL), (3L, 4L, NULL, NULL)"""

BY_DAY = """SELECT day, count(*) AS n, -0.0D AS x, named_struct('a', 7, 'b', array(NULL, 'z')) AS s
            FROM days GROUP BY day"""


@pytest.fixture(scope="module")
def in_memory(spark: SparkSession) -> Any:
    """A class of catalogs of tables that take MERGE."""
    source = Path(__file__).with_name("MergeableTables.java").read_text(encoding="utf-8")
    if spark.version < "4.1":
        source = source.replace("streaming.runtime.", "streaming.")
    jvm: Any = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler.getClassLoader().loadClass("holdfast.MergeableTables")


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, in_memory: Any) -> Iterator[SparkSession]:
    """An attached session with two equal tables, `m.one` and `m.other`, and a view of files."""
    own = spark.newSession()
    in_memory.getConstructors()[0].newInstance(None).register(own._jsparkSession, "m")
    own.conf.set("spark.sql.shuffle.partitions", "2")
    for table in ("m.one", "m.other"):
        own.sql(f"CREATE TABLE {table} ({COLUMNS})")
        own.sql(f"INSERT INTO {table} {ROWS}")
    own.range(0, 100, 1, 1).selectExpr("id", "id % 7 AS day").write.parquet(str(tmp_path / "days"))
    attached = holdfast.attach(own, {"intermediate-result-storage.directory": str(tmp_path / "k")})
    attached.read.parquet(str(tmp_path / "days")).createOrReplaceTempView("days")
    yield attached
    holdfast.detach(attached)


def rows(session: SparkSession, table: str) -> list[str]:
    """The rows of a table, as texts that tell 0.0 from -0.0, and know NaN."""
    with session.holdfast.left_alone():
        return sorted(map(repr, session.table(table).collect()))


COMMANDS = {
    "MERGE": f"""MERGE INTO {{t}} t USING ({BY_DAY}) s ON t.day = s.day
        WHEN MATCHED AND t.day = 1 THEN DELETE WHEN MATCHED AND t.n = 4 THEN UPDATE SET x = s.x
        WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *""",
    "MERGE BY SOURCE": f"""MERGE INTO {{t}} t USING (SELECT * FROM ({BY_DAY}) WHERE day > 1) s
        ON t.day = s.day AND s.n > 3 WHEN NOT MATCHED AND s.day > 4 THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.day = 3 THEN DELETE
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 77""",
    "MERGE to insert": f"""MERGE INTO {{t}} t USING ({BY_DAY}) s ON t.day = s.day
        WHEN NOT MATCHED THEN INSERT *""",
    "MERGE nothing": f"""MERGE INTO {{t}} t USING (SELECT * FROM ({BY_DAY}) WHERE n < 0) s
        ON t.day = s.day WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *""",
    "UPDATE": f"UPDATE {{t}} SET n = 5, s.a = 6 WHERE day IN (SELECT day FROM ({BY_DAY}))",
    "UPDATE to": f"UPDATE {{t}} SET n = (SELECT max(n) FROM ({BY_DAY})) WHERE day > 2",
    "DELETE": f"DELETE FROM {{t}} WHERE day IN (SELECT day + 1 FROM ({BY_DAY}) WHERE n = 14)",
    "DELETE NOT IN": f"""DELETE FROM {{t}}
        WHERE NOT EXISTS (SELECT * FROM ({BY_DAY}) s WHERE s.day = n)""",
}


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [*((name, True) for name in COMMANDS), ("MERGE", False), ("UPDATE", False)],
)
@pytest.mark.sampled(8)
def test_what_changes_rows_reads_and_keeps(
    session: SparkSession, tmp_path: Path, name: str, is_kept: bool
) -> None:
    command = COMMANDS[name]
    with session.holdfast.left_alone():
        session.sql(command.format(t="m.other"))
    before = rows(session, "m.one")
    hot = session.sql(BY_DAY).cache()
    if is_kept:
        hot.count()
    session.sql(command.format(t="m.one"))
    assert {*outcomes(session)} == {*(READ if is_kept else PRODUCED)}
    assert rows(session, "m.one") == rows(session, "m.other")
    assert (rows(session, "m.one") == before) == (name == "MERGE nothing")
    # The groups of rows that are concerned are found with what is kept, too.
    plan = session.sql("EXPLAIN " + command.format(t="m.one")).first()
    assert plan is not None
    assert f"{tmp_path}/days" not in plan[0]


@pytest.mark.parametrize("is_kept", [False, True], ids=["produced", "read"])
@pytest.mark.sampled(2, 1)
def test_the_merge_of_a_table_reads_and_keeps(
    session: SparkSession, tmp_path: Path, is_kept: bool
) -> None:
    def merge(target: str) -> None:
        (
            session.sql(BY_DAY)
            .alias("s")
            .mergeInto(target, F.expr(f"s.day = {target.split('.')[1]}.day"))
            .whenMatched(F.col("s.day") == 1)
            .delete()
            .whenMatched()
            .update({"n": F.col("s.n")})
            .whenNotMatched()
            .insertAll()
            .merge()
        )

    merge("m.other")
    assert outcomes(session) == [VertexOutcome.RUN]
    hot = session.sql(BY_DAY).cache()
    if is_kept:
        hot.count()
    merge("m.one")
    assert outcomes(session) == (READ if is_kept else PRODUCED)
    assert rows(session, "m.one") == rows(session, "m.other")


def test_groups_are_those_of_the_rows_that_are_kept(session: SparkSession) -> None:
    drawn = F.udf(lambda _: random.randrange(10**9), "long")
    session.range(40).select(drawn("id").alias("day")).cache().createOrReplaceTempView("drawn")
    session.sql("INSERT INTO m.one SELECT day, NULL, NULL, NULL FROM drawn")
    session.sql("""MERGE INTO m.one t USING drawn s ON t.day = s.day
        WHEN MATCHED THEN UPDATE SET n = 1000
        WHEN NOT MATCHED THEN INSERT (day, n, x, s) VALUES (s.day, NULL, NULL, NULL)""")
    assert outcomes(session) == READ
    assert session.table("m.one").where("n = 1000").count() == 40
    assert session.table("m.one").count() == 46


WRITES: dict[str, Callable[[SparkSession], object]] = {
    "MERGE": lambda s: s.sql(COMMANDS["MERGE"].format(t="m.one")),
    "MERGE to insert": lambda s: s.sql(COMMANDS["MERGE to insert"].format(t="m.ONE")),
    "UPDATE": lambda s: s.sql("UPDATE m.one SET day = day + 1"),
    "DELETE": lambda s: s.sql("DELETE FROM m.one WHERE day = 1"),
    "INSERT": lambda s: s.sql("INSERT INTO m.one SELECT day + 1, 0, 0, NULL FROM counted"),
    "writeTo": lambda s: s.table("m.other").writeTo("m.one").append(),
    "mergeInto": lambda s: (
        s.table("counted")
        .alias("s")
        .mergeInto("m.one", F.expr("s.day = one.day"))
        .whenMatched()
        .delete()
        .merge()
    ),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.sampled(7, 2)
def test_what_is_kept_of_a_table_that_is_written_is_not_read(
    session: SparkSession, write: Callable[[SparkSession], object]
) -> None:
    target = session.table("m.one")
    counted = target.groupBy("day").count().cache()
    counted.createOrReplaceTempView("counted")
    before = sorted(map(repr, counted.collect()))
    assert outcomes(session) == PRODUCED
    session.table("m.other").groupBy("n").count().cache().count()
    write(session)
    with session.holdfast.left_alone():
        expected = session.table("m.one").groupBy("day").count().collect()
    assert sorted(map(repr, counted.collect())) == sorted(map(repr, expected)) != before
    assert outcomes(session) == PRODUCED
    assert sorted(map(repr, counted.collect())) == sorted(map(repr, expected))
    assert outcomes(session) == READ
    assert len(session.holdfast.list_cached()) == 2


def test_what_is_kept_of_a_table_while_it_is_written_is_not_read(
    session: SparkSession, tmp_path: Path
) -> None:
    counted = session.table("m.one").groupBy("n").count().cache()
    counted.count()

    def count_twice() -> None:
        assert counted.count() == counted.count() == 6
        assert outcomes(session) == PRODUCED

    with SlowJob(tmp_path) as slow:
        session.udf.register("slow", slow.function, "long")
        slow.run(lambda: session.sql("UPDATE m.one SET n = slow(5)"), count_twice)
    assert counted.count() == 1
    assert outcomes(session) == PRODUCED
    assert len(session.holdfast.list_cached()) == 1
    session.sql("INSERT INTO m.one VALUES (1, 1000, 0, NULL)")
    counted.unpersist()
    assert not session.holdfast.list_cached()


FAILURES = {
    "source": f"""MERGE INTO m.one t USING (SELECT day, raise_error('no') AS n FROM ({BY_DAY})) s
        ON t.day = s.day WHEN MATCHED THEN UPDATE SET n = s.n""",
    "rows": f"""MERGE INTO m.one t USING ({BY_DAY}) s ON t.day > s.day
        WHEN MATCHED THEN UPDATE SET n = s.n""",
}


@pytest.mark.parametrize("command", FAILURES.values(), ids=FAILURES)
@pytest.mark.sampled(2)
def test_a_merge_that_fails_leaves_nothing(session: SparkSession, command: str) -> None:
    before = rows(session, "m.one")
    with session.holdfast.left_alone(), pytest.raises(PySparkException) as expected:
        session.sql(command)
    session.sql(BY_DAY).cache()
    with pytest.raises(PySparkException) as failed:
        session.sql(command)
    assert failed.value.getCondition() == expected.value.getCondition()
    assert rows(session, "m.one") == before == rows(session, "m.other")
    # What was kept before it failed is whole.
    assert_reads(session.sql(BY_DAY))
    numbers = sorted(session.sql(f"SELECT n FROM ({BY_DAY})").collect())
    assert numbers == [Row(n=14)] * 5 + [Row(n=15)] * 2


def test_a_source_that_fails_is_not_kept(session: SparkSession, tmp_path: Path) -> None:
    failing = session.sql(
        f"SELECT day, CAST(raise_error('no') AS LONG) AS n FROM ({BY_DAY})"
    ).cache()
    failing.createOrReplaceTempView("failing")
    with pytest.raises(PySparkException, match="no"):
        session.sql("""MERGE INTO m.one t USING failing s ON t.day = s.day
            WHEN MATCHED THEN UPDATE SET n = s.n""")
    assert [kept.dataset_id for kept in session.holdfast.list_cached()] == [None]
    assert rows(session, "m.one") == rows(session, "m.other")

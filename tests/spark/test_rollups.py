"""Aggregates made of finer ones, or of what shuffles have left, give plain Spark's rows."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import zlib
from pathlib import Path

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import SparkSession

from holdfast import Environment
from tests.spark.implicit_cache import (
    PRODUCED,
    READ,
    SOLD,
    Keeping,
    Program,
    Stages,
    Tables,
    config,
)

from tests.spark.implicit_cache import keeping, program, session  # isort: skip

__all__ = ["keeping", "program", "session"]

SALES = (
    "id",
    "id % 40 AS shop",
    "CASE WHEN id % 11 <> 0 THEN id % 9 END AS v",
    "CASE WHEN id % 11 <> 0 THEN CAST(id * 7919 % 100003 / 100 AS DECIMAL(15, 2)) END AS price",
    "date_add(DATE'2020-01-01', CAST(id % 1000 AS INT)) AS day",
    "concat('n', id % 4) AS kind",
    "id % 5 / 4 AS share",
    f"{2**62} + id AS huge",
    "CAST(if(id IN (7, 47), 6e37BD, 1BD) AS DECIMAL(38, 0)) AS amount",
    # A field is called as a column is, a column has a dot in its name, and a struct one in it.
    "named_struct('shop', id % 9, 'in', named_struct('kind', concat('n', id % 4))) AS at",
    "concat('n', id % 4) AS `at.kind`",
)
SHOPS = "id AS shop", "CAST(id % 5 AS INT) AS region", "concat('City ', id % 7) AS Name"
SUM, COUNT, ALL = "sum(price) AS s", "count(*) AS n", "GROUP BY ALL"


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Tables(spark, tmp_path_factory.mktemp("rollups"))
    made.write("sales", spark.range(0, 3_000, 1, 2), *SALES)
    made.write("shops", spark.range(0, 40, 1, 1), *SHOPS)
    return made.home


@pytest.fixture
def tables(session: SparkSession, files: Path, tmp_path: Path) -> Tables:
    """Files that a test may change."""
    return Tables(session, shutil.copytree(files, tmp_path / "in"))


def by(keys: str, *measures: str) -> tuple[str, str]:
    return ", ".join((keys, *(measures or (COUNT,)))), f"GROUP BY {keys}"


# -- other groups are made of those that are kept --------------------------------------------------


def test_other_groups_are_made_of_what_is_kept(keeping: Keeping, tables: Tables) -> None:
    keeping.compute(tables.asking)
    # What is asked for of a join that is known is kept as it is, once it isn't made of others.
    assert keeping.ask(*by("region", SUM, COUNT)) == [PRODUCED]
    assert keeping.ask(*by("kind", "max(price) AS m")) == [PRODUCED]
    assert [each.rows for each in keeping.env.list_cached()] == [5, 20]
    for columns, rest in (
        ("kind, region, sum(price), max(price)", ALL),
        ("count(*), max(price)", "GROUP BY region"),
        ("sum(price) / count(*) + 1", "GROUP BY kind"),
    ):
        assert keeping.ask(columns, rest) == [READ]
    # By one task, which sorts them, too.
    for rest in ("GROUP BY kind ORDER BY s", "WHERE region < 3 GROUP BY kind"):
        table, stages = keeping.made(SUM, rest), Stages(keeping.env.spark)
        table.collect()
        assert len(stages.new()) == 1
    keeping.lose_files()
    keeping.ask("kind, region, count(*) AS n", ALL)
    assert keeping.ask("region, kind, count(*) AS n", ALL) == [READ]


def test_functions_of_groups(keeping: Keeping) -> None:
    measures = (
        "sum(price), avg(price), count(price), count(v, price), min(price), max(Name), sum(v), "
        "min(day), sum(price * (1 - price)), max(v) - min(v)"
    )
    for rest in ("GROUP BY region, kind", "GROUP BY region", "GROUP BY kind HAVING count(*) > 1"):
        keeping.ask(f"{measures}, count(*) AS n", rest)
    for columns, rest in (
        (f"region, kind, {measures}", ALL),
        # Of no rows as well.
        (measures, "WHERE kind = 'n0' AND kind = 'n1'"),
        (measures, "WHERE kind = 'none' GROUP BY region"),
    ):
        assert keeping.ask(columns, rest) == [READ]


def test_conditions_on_what_is_kept(keeping: Keeping) -> None:
    for condition in (
        "v > 3",
        "year(day) = 2021 AND kind LIKE 'n%'",
        "v IS NULL OR region = 2",
        "CAST(share AS STRING) = '0.5'",
    ):
        keeping.ask(f"region, {COUNT}, {SUM}", f"WHERE {condition} GROUP BY region")
    for rest in (
        "WHERE NOT kind IN ('n1', 'n3') AND v < 7 GROUP BY kind",
        "WHERE v IS NULL GROUP BY region",
        "WHERE CAST(share AS STRING) LIKE '0%' GROUP BY region",
        "WHERE year(day) > 2020 GROUP BY kind, region",
    ):
        keeping.ask(f"{COUNT}, {SUM}", rest)
        assert keeping.ask(f"{COUNT}, {SUM}", rest) in ([READ], [])
    assert "recurring: Aggregate, Join over sales, shops" in keeping.kept()


def test_a_condition_whose_values_are_many_is_kept_as_such(
    keeping: Keeping, tables: Tables
) -> None:
    # What leaves rows out pays more.
    keeping.compute(tables.asking, 4, of_some_rows=True)
    where = "WHERE day >= DATE'2021-01-01'"
    for column in ("region", "kind"):
        assert keeping.ask(f"{column}, {COUNT}", f"{where} GROUP BY {column}") == []
    assert keeping.ask(f"region, kind, {COUNT}", f"{where} {ALL}") == [PRODUCED]
    [kept] = keeping.env.list_cached()
    assert kept.rows == 40
    assert keeping.ask(COUNT, where) == [READ]
    other = "WHERE day >= DATE'2021-06-01' GROUP BY region"
    assert keeping.ask(f"region, {COUNT}", other) != [READ]


# What is compared, and with what in turn.
MANY = [
    ("day", ["day >= DATE'2021-01-01'", "day < DATE'2021-03-05'", "NOT day > DATE'2020-12-31'"]),
    ("day", ["day = DATE'2020-05-01'", "day IN (DATE'2020-05-02', NULL)", "day IS NOT NULL"]),
    ("price", ["price > 3.5", "price <= 12", "price <=> NULL OR price <> 700.07"]),
    ("id % 700", ["id % 700 <> 5", "id % 700 > 1e2", "id % 700 BETWEEN 10 AND 99"]),
    ("v * 9 + region", [f"(v * 9 + region) / 7 > {least}" for least in (1, 3, 9)]),
    ("price", [f"price BETWEEN {least} AND 900.123" for least in (7, 8.55, 100)]),
    ("day", ["CAST(day AS STRING) > '2021'", "day LIKE '%-01'", "day = '2021-02-01'"]),
    ("concat(kind, id % 300)", [f"concat(kind, id % 300) LIKE '{each}%'" for each in "mno"]),
    ("huge", ["huge > 4611686018427388900", "NOT huge = 0", "huge IS NULL OR huge > 7"]),
    ("day", [f"CAST(day AS TIMESTAMP) >= TIMESTAMP'2021-0{each}-01'" for each in (1, 2, 3)]),
]


@pytest.mark.parametrize(("compared", "conditions"), MANY)
@pytest.mark.sampled(10, 2)
def test_conditions_that_come_back_with_other_literals(
    keeping: Keeping, tables: Tables, compared: str, conditions: list[str]
) -> None:
    keeping.compute(tables.asking, 4, of_some_rows=True)
    columns = f"{COUNT}, {SUM}, max(v) AS m"
    for condition in conditions:
        keeping.ask(f"region, {columns}", f"WHERE {condition} GROUP BY region")
    assert keeping.kept() == ["recurring: Aggregate, Join over sales, shops"]
    for condition in conditions:
        # What shuffles have left may answer the first one.
        keeping.ask(f"region, {columns}", f"WHERE {condition} GROUP BY region")
        assert keeping.ask(columns, f"WHERE NOT ({condition})") == [READ]
    assert keeping.ask(*by(compared)) == [READ]


@pytest.mark.soak
def test_one_condition_may_come_back_and_another_one_not(keeping: Keeping, tables: Tables) -> None:
    keeping.compute(tables.asking, 4, of_some_rows=True)
    for day in ("2020-02-01", "2020-03-01", "2020-04-01", "2021-05-01"):
        where = f"WHERE day > DATE'{day}' AND price < huge GROUP BY region"
        found = keeping.ask(f"region, {COUNT}", where)
    assert found == [READ] and len(keeping.kept()) == 1


def test_fields_of_structs_are_grouped_by(
    keeping: Keeping, tables: Tables, capfd: pytest.CaptureFixture[str]
) -> None:
    keeping.compute(tables.asking)
    fine = by("at.in.kind, at.shop, `at.kind`", "max(price)", "sum(price)")
    assert keeping.ask(*fine) == [PRODUCED]
    assert keeping.ask("max(price)", "WHERE at.shop > 3 GROUP BY at.in.kind") == [READ]
    assert keeping.ask(*by("`at.kind`, at.shop", "sum(price)")) == [READ]
    assert "QueryContextLogger" not in capfd.readouterr().err


# -- what would be other rows ----------------------------------------------------------------------


def test_what_is_compared_under_other_settings_is_something_else(keeping: Keeping) -> None:
    made = "hour(CAST(day AS TIMESTAMP)) + 24 * (id % 200)"
    for zone in ("UTC", "Asia/Tokyo", "UTC"):
        keeping.set("session.timeZone", zone)
        for hour in (3, 11, 2_000):
            keeping.ask(f"kind, {COUNT}", f"WHERE {made} > {hour} GROUP BY kind")


def test_columns_are_told_apart(keeping: Keeping) -> None:
    # Which are called by each other's names,
    measures = f"region, {COUNT}, min(x) AS low, max(y) AS high"
    for one, other in (("x", "y"), ("y", "x")):
        join = f"(SELECT shop, id AS {one}, huge AS {other} FROM sales) JOIN shops USING (shop)"
        for least in (5, 700, 4_611_686_018_427_388_000):
            keeping.ask(measures, f"WHERE x > {least} GROUP BY region", join)
    # or the same,
    join = "shops a JOIN shops b ON a.region = b.region"
    for key in ("a.Name", "b.Name", "a.region"):
        keeping.ask(*by(key, "max(b.shop) AS m"), join)
    for keys in ("b.Name", "b.Name, a.Name"):
        assert keeping.ask(*by(keys, "max(b.shop)"), join) in ([READ], [])
    # or as another one was;
    renamed = "(SELECT shop AS region, region AS shop, Name FROM shops) a JOIN shops b"
    for join in ("shops b JOIN shops a ON a.region = b.region", f"{renamed} ON a.shop = b.region"):
        keeping.ask(*by("a.Name", "max(b.shop)"), join)
    # and texts that differ in case alone.
    for text in ("City 1", "city 1", "CITY 1"):
        keeping.ask(f"region, Name = '{text}' AS b, {COUNT}", f"GROUP BY region, Name = '{text}'")


UNMERGEABLE = {
    # Sums of floating-point numbers depend on their order.
    "sum(share) AS s": "region",
    "avg(v) AS a": "region",
    "count(DISTINCT kind) AS d": "region",
    "count(*) FILTER (WHERE v > 3) AS f": "region",
    "collect_set(kind) AS c": "region",
    "count(*) AS n": "share",
    "first(region) AS f": "region",
}


@pytest.mark.parametrize("measure", UNMERGEABLE)
@pytest.mark.sampled(3)
def test_what_can_not_be_merged_is_computed(keeping: Keeping, measure: str) -> None:
    columns, rest = by(UNMERGEABLE[measure], measure)
    for least in range(4):
        keeping.ask(columns, f"WHERE v > {least} {rest}")
        assert "other groups are made of it" not in keeping.explained(columns, rest)


def test_an_error_in_rows_that_are_left_out_costs_no_answer(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    with Environment(spark.newSession(), config=config(tmp_path)) as env:
        keeping = Keeping(env, spark.newSession(), tables)
        keeping.set("ansi.enabled", "true")
        for column in ("region", "kind", "Name", "region"):
            # Without the condition the sum overflows.
            keeping.ask(f"{column}, sum(huge) AS s", f"WHERE id = 7 GROUP BY {column}")
        with pytest.raises(ArithmeticException, match="ARITHMETIC_OVERFLOW"):
            keeping.made(*by("region", "sum(huge) AS s")).collect()


def test_sums_overflow_as_the_settings_of_their_session_have_it(
    keeping: Keeping, tables: Tables
) -> None:
    # Those of another session are in effect in the threads that find out what has been asked.
    keeping.set("ansi.enabled", "false")
    keeping.compute(tables.asking)
    for keys in ("kind, region", "region", "kind"):
        for function in ("sum", "avg"):
            keeping.ask(*by(keys, f"{function}(amount) AS a", COUNT))


# -- from program to program -----------------------------------------------------------------------


def test_another_program_reads_the_groups(program: Program) -> None:
    with program() as first:
        # Nobody knows yet whether the join is asked for again.
        assert first.ask(*by("region", "sum(v) AS s")) == []
        assert first.ask(*by("kind", SUM)) == [PRODUCED]
        # All of its rows would have to be computed.
        assert first.ask("region, sum(v) AS s", "WHERE kind = 'n1' GROUP BY region") == []
    with program() as second:
        assert second.ask(*by("kind", SUM)) == [READ]
        # Its number of rows is kept with each group.
        assert second.ask(*by("kind")) == [READ]
        shown = second.explained(COUNT, "WHERE kind = 'n1'")
        assert "read: recurring: Aggregate, Join over sales, shops\n" in shown


def test_nothing_is_kept_for_some_rows_alone(keeping: Keeping) -> None:
    keeping.ask(*by("region"))
    keeping.made(*by("kind")).first()
    assert keeping.kept() == []


def test_nothing_is_kept_of_what_is_read_from_a_table_that_is_cached(keeping: Keeping) -> None:
    hot = keeping.made("region, kind, v").cache()
    for column in ("region", "kind", "v", "region"):
        hot.groupBy(column).count().collect()
        keeping.learned()
    assert len(keeping.env.list_cached()) == 1


def ask_twice(keeping: Keeping) -> None:
    """Groups a join, and again by something else."""
    keeping.ask(*by("kind", "sum(v) AS s"))
    assert keeping.ask(*by("v")) == [PRODUCED]


def recorded(home: Path, questions: object = None) -> list[bytes]:
    """What is recorded of past queries; the questions of the newest one may be changed."""
    database = sqlite3.connect(home / "kept" / "catalog" / "catalog.db")
    try:
        found = database.execute("SELECT number, content FROM queries ORDER BY number").fetchall()
        texts = [zlib.decompress(content) for _, content in found]
        if questions is not None:
            changed = json.dumps(json.loads(texts[-1]) | {"questions": questions})
            values = zlib.compress(changed.encode()), found[-1][0]
            database.execute("UPDATE queries SET content = ? WHERE number = ?", values)
            database.commit()
        return texts
    finally:
        database.close()


def test_programs_pay_for_finer_groups_together(program: Program, tmp_path: Path) -> None:
    with program() as first:
        ask_twice(first)
        some = "WHERE kind = 'n1' AND day > DATE'2021-05-04' GROUP BY region"
        first.ask("region, min(v) AS m", some)
    with program() as second:
        assert second.ask(*by("region", "max(price) AS m")) == [PRODUCED]
        # By what the first one has grouped by as well, and with what it has measured.
        assert second.ask(*by("v, region", "sum(v) AS s", "max(price)")) == [READ]
    # No literals are recorded.
    texts = b"".join(recorded(tmp_path))
    assert b"kind" in texts and b"n1" not in texts
    # Digests, sizes and durations hold any four digits now and then.
    assert b"2021" not in re.sub(rb"[0-9a-f]{32,}|[0-9.e-]+(?=[],}])", b"", texts)


def test_another_program_has_asked_of_a_join_before_its_files_changed(
    program: Program, tables: Tables
) -> None:
    with program() as first:
        ask_twice(first)
    shops = "id AS shop", "7 AS region", "'City 7' AS Name"
    tables.write("shops", tables.session.range(50), *shops, mode="overwrite")
    with program() as second:
        # Finer groups are made for the first question, as two were computed yesterday.
        assert second.ask(*by("region", "min(v) AS m")) == [PRODUCED]
        assert second.ask(*by("v, kind", "sum(v) AS s")) == [READ]


EVIL = "java_method('java.lang.System', 'setProperty', 'holdfast.evil', 'yes')"
OTHERS = {
    "a method": EVIL,
    "a method in a call": f"concat(kind, {EVIL})",
    "a method in a lambda": f"transform(array(kind), each -> {EVIL})",
    "a subquery": "(SELECT max(Name) FROM shops)",
    "IN": "kind IN (SELECT Name FROM shops)",
    "random": "rand()",
    "a function": "mine(kind)",
    "a function of the catalog": "spark_catalog.default.mine(kind)",
    "no SQL": "no SQL at (",
    "no column": "missing",
    "an aggregate": "max(kind)",
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.sampled(6, 1)
def test_only_expressions_of_sparks_own_that_others_have_recorded_are_run(
    program: Program, session: SparkSession, tmp_path: Path, what: str
) -> None:
    """As somebody else's program may have written it, who doesn't leave literals out."""
    session.udf.register("mine", lambda kind: kind)
    with program() as first:
        ask_twice(first)
    (rows,) = {row[0] for each in recorded(tmp_path) for row in json.loads(each)["questions"]}
    evil = [rows, "others", 0, "", [[[OTHERS[what], 3.0]], ["count(1)"], []], None]
    recorded(tmp_path, [evil])
    with program() as second:
        by_region = by("region", "max(price) AS m")
        assert [second.ask(*by_region) for _ in range(2)] == [[PRODUCED], [READ]]
        assert all(OTHERS[what] not in each for each in second.kept())
        second.ask(*by("region, kind", "max(price) AS m"))
    jvm = session._jvm
    assert jvm is not None and jvm.java.lang.System.getProperty("holdfast.evil") is None


# -- what shuffles have left -----------------------------------------------------------------------


ANSWER = f"(SELECT kind, sum(share) AS s, count(*) AS n FROM {SOLD} GROUP BY kind)"
DRILLS = (
    f"(SELECT * FROM {ANSWER} ORDER BY s DESC, kind LIMIT 3)",
    f"(SELECT kind FROM {ANSWER} WHERE n > (SELECT avg(n) FROM {ANSWER}))",
    f"(SELECT sum(n) AS n FROM {ANSWER})",
    f"(SELECT kind, rank() OVER (ORDER BY n DESC) AS r FROM {ANSWER})",
    f"(SELECT a.kind, b.n FROM {ANSWER} a JOIN {ANSWER} b ON a.kind = b.kind)",
)


def test_a_question_about_an_answer_runs_no_shuffle_of_it(keeping: Keeping, tables: Tables) -> None:
    keeping.made("*", "", ANSWER).collect()
    for drill in DRILLS:
        keeping.learned()
        make = tables.asking("*", "", drill)
        expected = sorted(map(repr, make(keeping.plain).collect()))
        stages = Stages(keeping.env.spark)
        assert sorted(map(repr, make(keeping.env).collect())) == expected
        # Neither of the tables is read again.
        assert stages.rows() == 0
        result = keeping.env.last_job_result
        assert result is not None and result.reused_exchanges >= 1


def test_an_answer_of_files_that_have_changed_is_computed(keeping: Keeping, tables: Tables) -> None:
    keeping.made("*", "", ANSWER).collect()
    keeping.learned()
    tables.write("sales", tables.session.range(50), *SALES)
    assert sum(row.n for row in keeping.made(COUNT, "GROUP BY kind").collect()) == 3_050


def test_nothing_is_written_where_shuffles_alone_are_reused(
    session: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    less = config(tmp_path, **{"implicit-cache.results.enabled": False})
    with Environment(session, config=less) as env:
        tables.asking("*", "", ANSWER)(env).collect()
        stages = Stages(session)
        for drill in DRILLS[:2] * 2:
            tables.asking("*", "", drill)(env).collect()
        assert stages.rows() == 0
        assert env.list_cached() == []

"""Aggregates made of finer ones, or of what shuffles have left, give plain Spark's rows."""

from __future__ import annotations

import json
import logging
import re
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ArithmeticException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlalchemy import func, select, update

from holdfast import Environment
from holdfast.advice.query_records import read
from holdfast.advice.ran_query import RanQuery
from holdfast.advice.rollups import Groups
from holdfast.api.join_questions import aggregates
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.catalog_url import in_directory
from holdfast.catalog.schema import QUERIES
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.session_settings import session_inputs
from tests.spark.test_recurring_results import Keeping, config

READ, PRODUCED = ["read from cache"], ["produced"]


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session of its own, with its own settings."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    yield session


@pytest.fixture
def tables(session: SparkSession, tmp_path: Path) -> Path:
    """Two tables of files, `sales` and `shops`, with nulls."""
    some = F.when(F.col("id") % 11 == 0, None)
    session.range(3_000).select(
        "id",
        (F.col("id") % 40).alias("shop"),
        some.otherwise(F.col("id") % 9).alias("v"),
        some.otherwise((F.col("id") * 7919 % 100_003 / 100).cast("decimal(15,2)")).alias("price"),
        F.expr("date_add(DATE'2020-01-01', cast(id % 1000 AS INT))").alias("day"),
        F.concat(F.lit("n"), F.col("id") % 4).alias("kind"),
        (F.col("id") % 5 / 4).alias("share"),
        (F.lit(2**62) + F.col("id")).alias("huge"),
    ).write.parquet(str(tmp_path / "sales"))
    session.range(40).select(
        F.col("id").alias("shop"),
        (F.col("id") % 5).cast("int").alias("region"),
        F.concat(F.lit("City "), F.col("id") % 7).alias("Name"),
    ).write.parquet(str(tmp_path / "shops"))
    return tmp_path


@pytest.fixture
def keeping(session: SparkSession, tables: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """An environment that keeps what recurs, where no query may need plain Spark as a way out."""
    plain = session.newSession()
    plain.conf.set("spark.sql.shuffle.partitions", "3")
    with (
        caplog.at_level(logging.DEBUG, logger="holdfast.runtime.job_master"),
        Environment(session, config=config(tables)) as env,
    ):
        views(plain, tables)
        yield Keeping(env, plain)
    assert "is run as it was written" not in caplog.text


def views(session: Any, tables: Path) -> None:
    for name in ("sales", "shops"):
        session.read.parquet(str(tables / name)).createOrReplaceTempView(name)


SOLD = "sales JOIN shops USING (shop)"


def asking(tables: Path, columns: str, rest: str = "", join: str = SOLD) -> Any:
    def make(session: Any) -> DataFrame:
        views(session, tables)
        found: DataFrame = session.sql(f"SELECT {columns} FROM {join} {rest}")
        return found

    return make


def rollups_of(keeping: Keeping) -> list[str]:
    return [each.computes for each in keeping.env.list_cached()]


def test_other_groups_are_made_of_what_is_kept(keeping: Keeping, tables: Path) -> None:
    keeping.compute(partial(asking, tables))
    by_region = asking(tables, "region, sum(price) AS s, count(*) AS n", "GROUP BY region")
    # What is asked for of a join that is known is kept as it is, once it isn't made of others.
    assert keeping.run(by_region) == PRODUCED
    by_kind = asking(tables, "kind, max(price) AS m", "GROUP BY kind")
    assert keeping.run(by_kind) == PRODUCED
    assert [each.rows for each in keeping.env.list_cached()] == [5, 20]
    assert (
        keeping.run(asking(tables, "kind, region, sum(price), max(price)", "GROUP BY ALL")) == READ
    )
    assert keeping.run(asking(tables, "count(*), max(price)", "GROUP BY region")) == READ
    assert keeping.run(asking(tables, "sum(price) / count(*) + 1", "GROUP BY kind")) == READ


def test_groups_that_are_kept_are_read_by_one_task_which_sorts_them_too(
    keeping: Keeping, tables: Path
) -> None:
    keeping.compute(partial(asking, tables))
    for column in ("region", "kind"):
        keeping.run(asking(tables, f"{column}, sum(price) AS s", f"GROUP BY {column}"))
    for rest in ("GROUP BY kind ORDER BY s", "WHERE region < 3 GROUP BY kind"):
        make = asking(tables, "sum(price) AS s", rest)
        table = make(keeping.env)
        stages = Stages(keeping.env.spark)
        rows = table.collect()
        assert stages.number() == 1
        assert sorted(map(repr, rows)) == sorted(map(repr, make(keeping.plain).collect()))


MEASURES = (
    "sum(price)",
    "avg(price)",
    "count(price)",
    "count(*)",
    "count(v, price)",
    "min(price)",
    "max(Name)",
    "sum(v)",
    "min(day)",
    "sum(price * (1 - price))",
    "max(v) - min(v)",
)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.sampled(3)
def test_functions_of_groups(keeping: Keeping, tables: Path, measure: str) -> None:
    for rest in ("GROUP BY region, kind", "GROUP BY region", "GROUP BY kind HAVING count(*) > 1"):
        keeping.run(asking(tables, f"{measure} AS m, count(*) AS n", rest))
    assert keeping.run(asking(tables, f"region, kind, {measure}", "GROUP BY ALL")) == READ
    # Of no rows as well.
    assert keeping.run(asking(tables, measure, "WHERE kind = 'n0' AND kind = 'n1'")) == READ
    assert keeping.run(asking(tables, measure, "WHERE kind = 'none' GROUP BY region")) == READ


def test_conditions_on_what_is_kept(keeping: Keeping, tables: Path) -> None:
    for rest in (
        "WHERE v > 3 GROUP BY region",
        "WHERE kind IN ('n1', 'n2') GROUP BY region",
        "WHERE year(day) = 2021 AND kind LIKE 'n%' GROUP BY region",
        "WHERE v IS NULL OR region = 2 GROUP BY region",
        "WHERE CAST(share AS STRING) = '0.5' GROUP BY region",
    ):
        keeping.run(asking(tables, "region, count(*) AS n, sum(price) AS s", rest))
    for rest in (
        "WHERE v > 5 GROUP BY region",
        "WHERE NOT kind IN ('n1', 'n3') AND v < 7 GROUP BY kind",
        "WHERE v IS NULL GROUP BY region",
        "WHERE CAST(share AS STRING) LIKE '0%' GROUP BY region",
        "WHERE year(day) > 2020 GROUP BY kind, region",
    ):
        make = asking(tables, "count(*) AS n, sum(price) AS s", rest)
        keeping.run(make)
        assert keeping.run(make)[-1:] in (READ, []), rest
    assert "recurring: Aggregate, Join over sales, shops" in rollups_of(keeping)


def test_a_condition_whose_values_are_many_is_kept_as_such(keeping: Keeping, tables: Path) -> None:
    # What leaves rows out pays more.
    keeping.compute(partial(asking, tables), 4, of_some_rows=True)
    rest = "WHERE day >= DATE'2021-01-01' GROUP BY "
    for column in ("region", "kind"):
        assert keeping.run(asking(tables, f"{column}, count(*) AS n", rest + column)) == []
    assert keeping.run(asking(tables, "region, kind, count(*)", rest + "ALL")) == PRODUCED
    [kept] = keeping.env.list_cached()
    assert kept.rows == 40
    assert keeping.run(asking(tables, "count(*)", rest.removesuffix(" GROUP BY "))) == READ
    other = "WHERE day >= DATE'2021-06-01' GROUP BY region"
    assert keeping.run(asking(tables, "region, count(*) AS n", other)) != READ


MANY = (
    ("day", ["day >= DATE'2021-01-01'", "day < DATE'2021-03-05'", "NOT day > DATE'2020-12-31'"]),
    ("day", ["day = DATE'2020-05-01'", "day IN (DATE'2020-05-02', NULL)", "day IS NOT NULL"]),
    ("price", ["price > 3.5", "price <= 12", "price <=> NULL OR price <> 700.07"]),
    ("id % 700", ["id % 700 <> 5", "id % 700 > 1e2", "id % 700 BETWEEN 10 AND 99"]),
    ("v * 9 + region", [f"(v * 9 + region) / 7 > {least}" for least in (1, 3, 9)]),
    ("price", [f"price BETWEEN {least} AND 900.123" for least in (7, 8.55, 100)]),
    (
        "day",
        ["CAST(day AS STRING) > '2021'", "day LIKE '%-01'", "day = '2021-02-01'"],
    ),
    ("concat(kind, id % 300)", [f"concat(kind, id % 300) LIKE '{each}%'" for each in "mno"]),
    ("huge", ["huge > 4611686018427388900", "NOT huge = 0", "huge IS NULL OR huge > 7"]),
    (
        "day",
        [f"CAST(day AS TIMESTAMP) >= TIMESTAMP'2021-0{each}-01 03:00:00'" for each in (1, 2, 3)],
    ),
)


@pytest.mark.parametrize(("compared", "conditions"), MANY)
@pytest.mark.sampled(2)
def test_conditions_that_come_back_with_other_literals(
    keeping: Keeping, tables: Path, compared: str, conditions: list[str]
) -> None:
    keeping.compute(partial(asking, tables), 4, of_some_rows=True)
    columns = "region, count(*) AS n, sum(price) AS s, max(v) AS m"
    for condition in conditions:
        keeping.run(asking(tables, columns, f"WHERE {condition} GROUP BY region"))
    assert rollups_of(keeping) == ["recurring: Aggregate, Join over sales, shops"]
    for condition in conditions:
        # What shuffles have left may answer the first one.
        keeping.run(asking(tables, columns, f"WHERE {condition} GROUP BY region"))
        other = asking(tables, columns.removeprefix("region, "), f"WHERE NOT ({condition})")
        assert keeping.run(other) == READ
    of_it = asking(tables, f"{compared} AS c, count(*) AS n", f"GROUP BY {compared}")
    assert keeping.run(of_it) == READ


def test_one_condition_may_come_back_and_another_one_not(keeping: Keeping, tables: Path) -> None:
    def ask(day: str) -> Any:
        where = f"WHERE day > DATE'{day}' AND price < huge GROUP BY region"
        return asking(tables, "region, count(*) AS n", where)

    keeping.compute(partial(asking, tables), 4, of_some_rows=True)
    for day in ("2020-02-01", "2020-03-01", "2020-04-01"):
        keeping.run(ask(day))
    assert len(rollups_of(keeping)) == 1
    assert keeping.run(ask("2021-05-01")) == READ


def test_fields_of_structs_are_grouped_by(
    keeping: Keeping, tables: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # A field is called as a column is, a column has a dot in its name, and a struct one in it.
    nested = "named_struct('shop', v, 'in', named_struct('kind', kind))"
    keeping.plain.read.parquet(str(tables / "sales")).selectExpr(
        "shop", "price", f"{nested} AS at", "kind AS `at.kind`"
    ).write.parquet(str(tables / "nested"))

    def asking(columns: str, rest: str) -> Any:
        def make(session: Any) -> DataFrame:
            views(session, tables)
            session.read.parquet(str(tables / "nested")).createOrReplaceTempView("nested")
            found: DataFrame = session.sql(
                f"SELECT {columns} FROM nested JOIN shops USING (shop) {rest}"
            )
            return found

        return make

    keeping.compute(asking)
    by_all = "GROUP BY at.in.kind, at.shop, `at.kind`"
    columns = "at.in.kind, at.shop, `at.kind`, max(price), sum(price)"
    assert keeping.run(asking(columns, by_all)) == PRODUCED
    assert keeping.run(asking("max(price)", "WHERE at.shop > 3 GROUP BY at.in.kind")) == READ
    assert keeping.run(asking("sum(price), `at.kind`", "GROUP BY `at.kind`, at.shop")) == READ
    assert "QueryContextLogger" not in capfd.readouterr().err


def test_what_is_compared_under_other_settings_is_something_else(
    keeping: Keeping, tables: Path
) -> None:
    def ask(hour: int) -> Any:
        made = "hour(CAST(day AS TIMESTAMP)) + 24 * (id % 200)"
        return asking(tables, "kind, count(*) AS n", f"WHERE {made} > {hour} GROUP BY kind")

    for zone in ("UTC", "Asia/Tokyo", "America/New_York", "UTC"):
        for session in (keeping.env.spark, keeping.plain):
            session.conf.set("spark.sql.session.timeZone", zone)
        for hour in (3, 11, 2_000, 4_000):
            keeping.run(ask(hour))


def test_columns_that_are_called_by_each_others_names(keeping: Keeping, tables: Path) -> None:
    for one, other in (("x", "y"), ("y", "x"), ("x", "y")):
        join = f"(SELECT shop, id AS {one}, huge AS {other} FROM sales) JOIN shops USING (shop)"
        for least in (5, 700, 4_611_686_018_427_388_000):
            columns = "region, count(*) AS n, min(x) AS low, max(y) AS high"
            keeping.run(asking(tables, columns, f"WHERE x > {least} GROUP BY region", join))


@pytest.mark.parametrize(
    "columns",
    (
        # Sums of floating-point numbers depend on their order.
        "region, sum(share) AS s",
        "region, avg(v) AS a",
        "region, count(DISTINCT kind) AS d",
        "region, count(*) FILTER (WHERE v > 3) AS f",
        "region, collect_set(kind) AS c",
        "share, count(*) AS n",
        "region, first(region) AS f",
    ),
)
def test_what_can_not_be_merged_is_computed(keeping: Keeping, tables: Path, columns: str) -> None:
    key = columns.partition(",")[0]
    for least in range(4):
        keeping.run(asking(tables, columns, f"WHERE v > {least} GROUP BY {key}"))
        told = keeping.env.explain_kept(asking(tables, columns, f"GROUP BY {key}")(keeping.env))
        assert "other groups are made of it" not in told


def test_an_error_in_rows_that_are_left_out_costs_no_answer(
    session: SparkSession, tables: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session.conf.set("spark.sql.ansi.enabled", "true")
    plain = session.newSession()
    plain.conf.set("spark.sql.ansi.enabled", "true")
    views(plain, tables)
    with (
        caplog.at_level(logging.DEBUG, logger="holdfast.runtime.job_master"),
        Environment(session, config=config(tables)) as env,
    ):
        keeping = Keeping(env, plain)
        for column in ("region", "kind", "Name", "region"):
            # Without the condition the sum overflows.
            make = asking(tables, f"{column}, sum(huge) AS s", f"WHERE id = 7 GROUP BY {column}")
            keeping.run(make)
        with pytest.raises(ArithmeticException, match="ARITHMETIC_OVERFLOW"):
            asking(tables, "region, sum(huge) AS s", "GROUP BY region")(env).collect()
    assert "is run as it was written" in caplog.text
    assert caplog.text.count("is run as it was written") <= 2


def test_sums_overflow_as_the_settings_of_their_session_have_it(
    session: SparkSession, tables: Path
) -> None:
    plain = session.newSession()
    # Those of another session are in effect in the threads that find out what has been asked.
    for each in (session, plain):
        each.conf.set("spark.sql.ansi.enabled", "false")
    amount = F.expr("CAST(if(id IN (7, 47), 6e37BD, 1BD) AS DECIMAL(38, 0))")
    amounts = str(tables / "amounts")
    session.read.parquet(str(tables / "sales")).withColumn("amount", amount).write.parquet(amounts)

    def asking(columns: str, rest: str) -> Any:
        def make(session: Any) -> DataFrame:
            views(session, tables)
            session.read.parquet(amounts).createOrReplaceTempView("amounts")
            found: DataFrame = session.sql(
                f"SELECT {columns} FROM amounts JOIN shops USING (shop) {rest}"
            )
            return found

        return make

    with Environment(session, config=config(tables)) as env:
        keeping = Keeping(env, plain)
        keeping.compute(asking)
        for keys in ("kind, region", "region", "kind"):
            for function in ("sum", "avg"):
                columns = f"{keys}, {function}(amount) AS a, count(*) AS n"
                keeping.run(asking(columns, f"GROUP BY {keys}"))


def test_files_that_change_are_grouped_anew(keeping: Keeping, tables: Path) -> None:
    def ask() -> list[str]:
        found = keeping.run(asking(tables, "region, count(*) AS n", "GROUP BY region"))
        keeping.run(asking(tables, "kind, count(*) AS n", "GROUP BY kind"))
        return found

    keeping.compute(partial(asking, tables))
    ask()
    ask()
    assert keeping.run(asking(tables, "kind, region, count(*)", "GROUP BY ALL")) == READ
    sales = keeping.plain.read.parquet(str(tables / "sales")).limit(100).collect()
    schema = keeping.plain.read.parquet(str(tables / "sales")).schema
    keeping.plain.createDataFrame(sales, schema).write.mode("append").parquet(str(tables / "sales"))
    views(keeping.plain, tables)
    keeping.run(asking(tables, "kind, region, count(*)", "GROUP BY ALL"))
    ask()


def test_columns_that_are_called_the_same_are_told_apart(keeping: Keeping, tables: Path) -> None:
    join = "shops a JOIN shops b ON a.region = b.region"
    for rest in ("a.Name", "b.Name", "a.region", "a.Name"):
        keeping.run(asking(tables, f"{rest} AS k, max(b.shop) AS m", f"GROUP BY {rest}", join))
    for columns in ("a.Name, max(b.shop)", "b.Name, max(b.shop)", "b.Name, a.Name, max(b.shop)"):
        assert keeping.run(asking(tables, columns, "GROUP BY ALL", join)) in (READ, [])
    # What is called as another column was.
    swapped = "shops b JOIN shops a ON a.region = b.region"
    keeping.run(asking(tables, "a.Name, max(b.shop)", "GROUP BY ALL", swapped))
    other_names = "SELECT shop AS region, region AS shop, Name FROM shops"
    renamed = f"({other_names}) a JOIN shops b ON a.shop = b.region"
    for _ in range(2):
        keeping.run(asking(tables, "a.Name, max(b.shop)", "GROUP BY ALL", renamed))


def test_texts_that_differ_in_case_alone_are_told_apart(keeping: Keeping, tables: Path) -> None:
    for text in ("City 1", "city 1", "CITY 1", "City 1"):
        rest = f"GROUP BY region, Name = '{text}'"
        keeping.run(asking(tables, f"region, Name = '{text}' AS b, count(*) AS n", rest))


def test_another_program_reads_what_was_asked_of_a_known_join(
    session: SparkSession, tables: Path
) -> None:
    plain = session.newSession()
    views(plain, tables)
    by_kind = asking(tables, "kind, sum(price) AS s", "GROUP BY kind")
    some = asking(tables, "region, sum(v) AS s", "WHERE kind = 'n1' GROUP BY region")
    with Environment(session, config=config(tables)) as env:
        first = Keeping(env, plain)
        # Nobody knows yet whether the join is asked for again.
        assert first.run(asking(tables, "region, sum(v) AS s", "GROUP BY region")) == []
        assert first.run(by_kind) == PRODUCED
        # All of its rows would have to be computed.
        assert first.run(some) == []
    with Environment(session, config=config(tables)) as env:
        second = Keeping(env, plain)
        assert second.run(by_kind) == READ
        # Its number of rows is kept with each group.
        assert second.run(asking(tables, "kind, count(*) AS n", "GROUP BY kind")) == READ


def test_another_program_reads_the_groups(session: SparkSession, tables: Path) -> None:
    plain = session.newSession()
    views(plain, tables)
    with Environment(session, config=config(tables)) as env:
        first = Keeping(env, plain)
        first.compute(partial(asking, tables))
        first.run(asking(tables, "region, sum(price) AS s", "GROUP BY region"))
        assert first.run(asking(tables, "kind, count(*) AS n", "GROUP BY kind")) == PRODUCED
    with Environment(session, config=config(tables)) as env:
        second = Keeping(env, plain)
        assert second.run(asking(tables, "kind, region, sum(price)", "GROUP BY ALL")) == READ
        told = env.explain_kept(asking(tables, "count(*) AS n", "WHERE kind = 'n1'")(env))
        assert "read: recurring: Aggregate, Join over sales, shops\n" in told


def asked_twice(env: Environment, plain: SparkSession, tables: Path) -> Keeping:
    """A program that has grouped a join, and again by something else."""
    keeping = Keeping(env, plain)
    keeping.run(asking(tables, "kind, sum(v) AS s", "GROUP BY kind"))
    assert keeping.run(asking(tables, "v, count(*) AS n", "GROUP BY v")) == PRODUCED
    return keeping


def test_programs_pay_for_finer_groups_together(session: SparkSession, tables: Path) -> None:
    plain = session.newSession()
    views(plain, tables)
    with Environment(session, config=config(tables)) as env:
        first = asked_twice(env, plain, tables)
        some = "WHERE kind = 'n1' AND day > DATE'2021-05-04' GROUP BY region"
        first.run(asking(tables, "region, min(v) AS m", some))
    with Environment(session, config=config(tables)) as env:
        second = Keeping(env, plain)
        by_region = asking(tables, "region, max(price) AS m", "GROUP BY region")
        assert second.run(by_region) == PRODUCED
        # By what the first one has grouped by as well, and with what it has measured.
        finer = asking(tables, "v, region, sum(v) AS s, max(price)", "GROUP BY ALL")
        assert second.run(finer) == READ
    told = b"".join(told_of_queries(tables))
    assert b"`kind`" in told or b'"kind"' in told
    assert b"n1" not in told and b"n2" not in told and b"2021-" not in told
    # Digests, sizes and durations hold any four digits now and then.
    assert b"2021" not in re.sub(rb"[0-9a-f]{32,}|[0-9.e-]+(?=[],}])", b"", told)


def test_another_program_has_asked_of_a_join_before_its_files_changed(
    session: SparkSession, tables: Path
) -> None:
    plain = session.newSession()
    with Environment(session, config=config(tables)) as env:
        asked_twice(env, plain, tables)
    session.range(50).selectExpr("id AS shop", "7 AS region", "'City 7' AS Name").write.mode(
        "overwrite"
    ).parquet(str(tables / "shops"))
    with Environment(session, config=config(tables)) as env:
        second = Keeping(env, plain)
        # Finer groups are made for the first question, as two were computed yesterday.
        assert second.run(asking(tables, "region, min(v) AS m", "GROUP BY region")) == PRODUCED
        assert second.run(asking(tables, "v, kind, sum(v) AS s", "GROUP BY ALL")) == READ


EVIL = "java_method('java.lang.System', 'setProperty', 'holdfast.evil', 'yes')"


OTHERS = (
    EVIL,
    f"concat(kind, {EVIL})",
    f"transform(array(kind), each -> {EVIL})",
    "(SELECT max(Name) FROM shops)",
    "kind IN (SELECT Name FROM shops)",
    "rand()",
    "mine(kind)",
    "spark_catalog.default.mine(kind)",
    "no SQL at (",
    "missing",
    "max(kind)",
)


def test_only_expressions_of_sparks_own_are_grouped_by(keeping: Keeping, tables: Path) -> None:
    keeping.env.spark.udf.register("mine", lambda kind: kind)
    table = asking(tables, "region, sum(v) AS s", "GROUP BY region")(keeping.env)
    query = keeping.env._known_plans.query(table)
    asked = keeping.recurring.looked_at(query, session_inputs(keeping.env._plain))
    (aggregate,) = aggregates(asked)
    assert keeping.recurring._rollups is not None
    plans = keeping.recurring._rollups._plans
    own = plans.asked(asked.query, aggregate.grouped)
    assert own is not None

    def with_text(text: str) -> Query | None:
        finer = own.by_text().with_those_of(Groups({text: text}, {}))
        return plans.groups(asked.query, aggregate.grouped, finer)

    assert all(with_text(text) for text in ("kind", "year(day)", "concat(kind, 'x')", "v > 3"))
    assert [text for text in OTHERS if with_text(text) is not None] == []


def test_what_others_have_recorded_is_not_run(
    session: SparkSession, tables: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = session.newSession()
    with Environment(session, config=config(tables)) as env:
        asked_twice(env, plain, tables)
        (past, *_) = reversed(env._history.queries)
        history = [ran for content in told_of_queries(tables) if (ran := read(content))]
        (rows,) = {each.rows for ran in history for each in ran.questions}
        env._history.add(RanQuery(past, "evil"))
    content = told_of_queries(tables)[-1]
    # As somebody else's program may have written it, who doesn't leave literals out.
    document = json.loads(content)
    document["questions"] = [[rows, "evil", 0, "", [[[EVIL, 3.0]], ["count(1)"], []], None]]
    database = CatalogDatabase(in_directory(tables / "kept"))
    with database.writing() as connection:
        newest = select(func.max(QUERIES.c.number)).scalar_subquery()
        changed = zlib.compress(json.dumps(document).encode())
        connection.execute(
            update(QUERIES).where(QUERIES.c.number == newest).values(content=changed)
        )
    database.close()
    with (
        caplog.at_level(logging.DEBUG, logger="holdfast.runtime.job_master"),
        Environment(session, config=config(tables)) as env,
    ):
        second = Keeping(env, plain)
        by_region = asking(tables, "region, max(price) AS m", "GROUP BY region")
        # As it is asked for.
        assert second.run(by_region) == PRODUCED
        assert second.run(by_region) == READ
        assert all("java_method" not in each.computes for each in env.list_cached())
        second.run(asking(tables, "region, kind, max(price) AS m", "GROUP BY ALL"))
    assert session._jvm.java.lang.System.getProperty("holdfast.evil") is None
    assert not caplog.records


def told_of_queries(home: Path) -> list[bytes]:
    """What is recorded of past queries."""
    database = CatalogDatabase(in_directory(home / "kept"))
    try:
        with database.reading() as connection:
            return [zlib.decompress(row.content) for row in connection.execute(select(QUERIES))]
    finally:
        database.close()


def test_groups_that_are_lost_are_made_again(keeping: Keeping, tables: Path) -> None:
    keeping.compute(partial(asking, tables))
    for column in ("region", "kind"):
        keeping.run(asking(tables, f"{column}, count(*) AS n", f"GROUP BY {column}"))
    for kept in keeping.env.list_cached():
        for location in kept.locations:
            for file in Path(location).parent.glob("*.parquet"):
                file.unlink()
    keeping.run(asking(tables, "kind, region, count(*) AS n", "GROUP BY ALL"))
    assert keeping.run(asking(tables, "region, kind, count(*) AS n", "GROUP BY ALL")) == READ


def test_nothing_is_kept_for_some_rows_alone(keeping: Keeping, tables: Path) -> None:
    keeping.run(asking(tables, "region, count(*) AS n", "GROUP BY region"))
    asking(tables, "kind, count(*) AS n", "GROUP BY kind")(keeping.env).first()
    assert keeping.env.list_cached() == []


def test_a_join_is_no_cheaper_for_shuffles_that_are_reused(keeping: Keeping, tables: Path) -> None:
    make = asking(tables, "kind, count(*) AS n", "GROUP BY kind")
    # The second time is always run as the first one; later ones may be kept where they are slow.
    for _ in range(2):
        keeping.run(make)
    result = keeping.env.last_job_result
    assert result is not None and result.reused_seconds
    *_, first, last = keeping.recurring._history.queries
    # Its own tasks have read no files, and shuffled nothing.
    assert last.shuffle_bytes == 0 < first.shuffle_bytes
    assert last.root.seconds >= last.reused_seconds > 0
    # The join has most of it.
    assert sum(each.seconds for each in last.root.inputs) > last.root.seconds / 2


# -- what shuffles have left ------------------------------------------------------------------


DRILLS = (
    "SELECT * FROM ({}) ORDER BY s DESC, kind LIMIT 3",
    "SELECT kind FROM ({}) WHERE n > (SELECT avg(n) FROM ({}))",
    "SELECT sum(n) AS n FROM ({})",
    "SELECT kind, rank() OVER (ORDER BY n DESC) AS r FROM ({})",
    "SELECT a.kind, b.n FROM ({}) a JOIN ({}) b ON a.kind = b.kind",
)


@pytest.mark.parametrize("drill", DRILLS)
@pytest.mark.sampled(2)
def test_a_question_about_an_answer_runs_no_shuffle_of_it(
    keeping: Keeping, tables: Path, drill: str
) -> None:
    answer = f"SELECT kind, sum(share) AS s, count(*) AS n FROM {SOLD} GROUP BY kind"

    def make(session: Any) -> DataFrame:
        views(session, tables)
        found: DataFrame = session.sql(drill.format(answer, answer))
        return found

    def whole(session: Any) -> DataFrame:
        views(session, tables)
        found: DataFrame = session.sql(answer)
        return found

    whole(keeping.env).collect()
    keeping.learned()
    stages = Stages(keeping.env.spark)
    rows = make(keeping.env).collect()
    # Neither of the tables is read again.
    assert stages.rows() == 0
    assert sorted(map(repr, rows)) == sorted(map(repr, make(keeping.plain).collect()))
    result = keeping.env.last_job_result
    assert result is not None and result.reused_exchanges >= 1


class Stages:
    """Those that Spark runs from now on."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._before = {stage for stage, _ in self._stages()}

    def number(self) -> int:
        return sum(stage not in self._before for stage, _ in self._stages())

    def rows(self) -> int:
        """How many rows of files, and of what was kept, they have read."""
        return sum(rows for stage, rows in self._stages() if stage not in self._before)

    def _stages(self) -> Iterator[tuple[int, int]]:
        context = self._context
        context._jsc.sc().listenerBus().waitUntilEmpty()
        no_quantiles = context._gateway.new_array(context._jvm.double, 0)  # type: ignore[union-attr]
        stages = context._jsc.sc().statusStore().stageList(None, False, False, no_quantiles, None)
        for each in map(stages.apply, range(stages.size())):
            yield each.stageId(), each.inputRecords()


def test_nothing_is_written_where_shuffles_alone_are_reused(
    session: SparkSession, tables: Path
) -> None:
    less = config(tables, **{"implicit-cache.results.enabled": False})
    answer = asking(tables, "kind, sum(share) AS s, count(*) AS n", "GROUP BY kind")
    with Environment(session, config=less) as env:
        expected = sorted(row.n for row in answer(env).collect())
        stages = Stages(env.spark)
        counts = asking(tables, "count(*) AS n", "GROUP BY kind")
        assert sorted(row.n for row in counts(env).collect()) == expected
        assert stages.rows() == 0
        assert env.list_cached() == []
        # That is an order.
        views(env, tables)
        env.sql(f"SELECT kind, share, shop FROM {SOLD}").cache()
        sums = asking(tables, "kind, sum(share) AS s, count(*) AS n", "GROUP BY kind")
        assert sorted(row.n for row in sums(env).collect()) == expected


def test_an_answer_of_files_that_have_changed_is_computed(keeping: Keeping, tables: Path) -> None:
    answer = asking(tables, "kind, sum(share) AS s, count(*) AS n", "GROUP BY kind")
    less = asking(tables, "count(*) AS n", "GROUP BY kind")
    answer(keeping.env).collect()
    keeping.learned()
    rows = keeping.plain.read.parquet(str(tables / "sales")).limit(50)
    schema, found = rows.schema, rows.collect()
    keeping.plain.createDataFrame(found, schema).write.mode("append").parquet(str(tables / "sales"))
    views(keeping.plain, tables)
    assert sum(row.n for row in less(keeping.env).collect()) == 3_050
    keeping.run(less)

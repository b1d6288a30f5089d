"""Groups that were kept before files were added are put together with those of the new files."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from tests.spark.test_recurring_results import Keeping, config

READ, PRODUCED = "read from cache", "produced"
BY_REGION = "region, sum(price) AS p, count(*) AS n", "GROUP BY region"
BY_KIND = "kind, max(price) AS p, avg(price) AS a", "GROUP BY kind"


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of its own, with its own settings."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "3")
    return session


class Tables:
    """Tables of files, `sales` and `shops`, that are added to."""

    def __init__(self, session: SparkSession, home: Path) -> None:
        self.session = session
        self.home = home
        self._sold = 0
        self.sell(3_000)
        self.open_shops(0, 400)

    def sell(self, number: int, mode: str = "append", **columns: Any) -> None:
        ids = self.session.range(self._sold, self._sold + number, 1, 2)
        self._sold += number
        some = F.when(F.col("id") % 11 == 0, None)
        sales = ids.select(
            (F.col("id") % 41).alias("shop"),
            some.otherwise((F.col("id") * 7919 % 1_003 / 100).cast("decimal(15,2)")).alias("price"),
            F.concat(F.lit("n"), F.col("id") % 4).alias("kind"),
        )
        sales.withColumns(columns).write.mode(mode).parquet(str(self.home / "sales"))

    def open_shops(self, first: int, number: int) -> None:
        shops = self.session.range(first, first + number, 1, 1).select(
            F.col("id").alias("shop"), (F.col("id") % 5).cast("int").alias("region")
        )
        shops.write.mode("append").parquet(str(self.home / "shops"))

    def views(self, session: Any) -> None:
        for name in ("sales", "shops"):
            session.read.parquet(str(self.home / name)).createOrReplaceTempView(name)

    def asking(self, columns: str, rest: str, join: str = "sales JOIN shops USING (shop)") -> Any:
        def make(session: Any) -> DataFrame:
            self.views(session)
            found: DataFrame = session.sql(f"SELECT {columns} FROM {join} {rest}")
            return found

        return make


@pytest.fixture
def tables(session: SparkSession, tmp_path: Path) -> Tables:
    return Tables(session, tmp_path)


@pytest.fixture
def keeping(
    session: SparkSession, tables: Tables, caplog: pytest.LogCaptureFixture
) -> Iterator[Any]:
    """An environment that keeps what recurs, where no query may need plain Spark as a way out."""
    plain = session.newSession()
    plain.conf.set("spark.sql.shuffle.partitions", "3")
    with (
        caplog.at_level(logging.DEBUG, logger="holdfast.runtime.job_master"),
        Environment(session, config=config(tables.home)) as env,
    ):
        yield Keeping(env, plain)
    assert "is run as it was written" not in caplog.text


def keep(keeping: Keeping, tables: Tables, join: str = "sales JOIN shops USING (shop)") -> None:
    """Groups of a join are kept."""
    keeping.compute(partial(tables.asking, join=join))
    keeping.run(tables.asking(*BY_REGION, join))
    assert keeping.run(tables.asking(*BY_KIND, join)) == [PRODUCED]


@pytest.mark.parametrize("which", ["sales", "shops", "both"])
def test_files_that_are_added_are_grouped_by_themselves(
    keeping: Keeping, tables: Tables, which: str
) -> None:
    keep(keeping, tables)
    for number in range(2):
        if which != "shops":
            tables.sell(200)
        if which != "sales":
            # Sales of a shop are found twice from then on.
            tables.open_shops(30 + number, 3)
        found = keeping.run(tables.asking(*BY_REGION))
        assert READ in found and PRODUCED in found
        assert {*keeping.run(tables.asking(*BY_REGION))} == {READ}
        assert {*keeping.run(tables.asking(*BY_KIND))} == {READ}
        finer = "region, kind, sum(price), avg(price)", "WHERE kind <> 'n1' GROUP BY ALL"
        assert {*keeping.run(tables.asking(*finer))} == {READ}
        told = keeping.env.explain_kept(tables.asking(*BY_REGION)(keeping.env))
        if number == 0 and which != "both":
            assert told.count("read: recurring: Aggregate, Join over sales, shops") == 2
    assert told.count("read: ") == 1
    assert "read: recurring: Aggregate, Union, Join over sales, shops" in told


def test_what_is_added_is_kept_because_the_rest_is(keeping: Keeping, tables: Tables) -> None:
    keep(keeping, tables)
    tables.sell(100)
    told = keeping.env.explain_kept(tables.asking(*BY_REGION)(keeping.env))
    assert "files were added: their groups are kept beside those of the others" in told
    assert told.count("read: recurring: ") == 1


def test_new_directories_of_partitions(
    keeping: Keeping, session: SparkSession, tmp_path: Path
) -> None:
    home = tmp_path / "by day"

    def write(day: str, first: int) -> None:
        days = session.range(first, first + 500).select(
            (F.col("id") % 7).alias("shop"), "id", F.lit(day).cast("date").alias("day")
        )
        days.write.mode("append").partitionBy("day").parquet(str(home))

    def asking(columns: str, rest: str) -> Any:
        def make(session: Any) -> DataFrame:
            session.read.parquet(str(home)).createOrReplaceTempView("days")
            session.read.parquet(str(tmp_path / "shops")).createOrReplaceTempView("shops")
            found: DataFrame = session.sql(
                f"SELECT {columns} FROM days JOIN shops USING (shop) {rest}"
            )
            return found

        return make

    def ask(columns: str, by: str) -> list[str]:
        return keeping.run(asking(columns, f"GROUP BY {by}"))

    for number in range(3):
        write(f"2024-01-0{number + 1}", number * 500)
    keeping.compute(asking, by="day")
    ask("day, count(*) AS n", "day")
    assert ask("region, max(id) AS m", "region") == [PRODUCED]
    # Another day, and more of one that is there already.
    write("2024-02-01", 5_000)
    write("2024-01-02", 9_000)
    assert READ in ask("day, count(*) AS n", "day")
    assert {*ask("day, count(*) AS n, max(id) AS m", "day")} == {READ}
    shutil.rmtree(home / "day=2024-01-02")
    ask("day, count(*) AS n", "day")


@pytest.mark.parametrize(
    ("kind", "divided"),
    [
        ("LEFT JOIN", "sales"),
        ("RIGHT JOIN", "shops"),
        ("FULL JOIN", ""),
        ("LEFT SEMI JOIN", "sales"),
        ("LEFT ANTI JOIN", "sales"),
    ],
)
def test_outer_rows_need_all_of_the_other_table(
    keeping: Keeping, tables: Tables, kind: str, divided: str
) -> None:
    join = f"sales {kind} (SELECT * FROM shops WHERE shop % 3 = 1) USING (shop)"
    columns = ("shop % 5 AS r, sum(price) AS p", "GROUP BY shop % 5"), BY_KIND
    keeping.compute(partial(tables.asking, join=join), by="shop % 5")
    for each in columns:
        keeping.run(tables.asking(*each, join))
    by_both = "shop % 5 AS r, kind, sum(price) AS p", "GROUP BY shop % 5, kind"
    assert keeping.run(tables.asking(*by_both, join)) == [READ]
    tables.sell(200)
    found = keeping.run(tables.asking(*columns[0], join))
    assert (READ in found) == (divided == "sales")
    keeping.run(tables.asking(*columns[1], join))
    # Shops that some sales have not found before.
    tables.open_shops(400, 3)
    tables.open_shops(31, 1)
    found = keeping.run(tables.asking(*columns[0], join))
    assert (READ in found) == (divided == "shops")
    for each in columns * 2:
        keeping.run(tables.asking(*each, join))


def test_a_table_that_is_joined_with_itself(keeping: Keeping, tables: Tables) -> None:
    join = "sales a JOIN sales b ON a.shop = b.shop AND a.price < b.price - 9"
    columns = (
        ("a.kind AS k, count(*) AS n", "GROUP BY a.kind"),
        ("b.kind, max(b.price)", "GROUP BY 1"),
    )
    keeping.compute(partial(tables.asking, join=join), by="a.kind")
    for each in columns:
        keeping.run(tables.asking(*each, join))
    tables.sell(100)
    for each in columns * 2:
        keeping.run(tables.asking(*each, join))


def test_a_subquery_over_the_same_files_sees_all_of_them(keeping: Keeping, tables: Tables) -> None:
    highest = "(SELECT max(price) FROM sales)"
    join = f"(SELECT * FROM sales WHERE price > {highest} - 5) JOIN shops USING (shop)"
    keeping.compute(partial(tables.asking, join=join))
    for each in (BY_REGION, BY_KIND, BY_REGION):
        keeping.run(tables.asking(*each, join))
    tables.sell(50)
    found = keeping.run(tables.asking(*BY_REGION, join))
    assert READ not in found
    tables.sell(1, price=F.lit(100).cast("decimal(15,2)"))
    for each in (BY_REGION, BY_KIND):
        keeping.run(tables.asking(*each, join))


def test_an_aggregate_below_is_not_divided(keeping: Keeping, tables: Tables) -> None:
    join = (
        "(SELECT shop, kind, max(price) AS price FROM sales GROUP BY ALL) JOIN shops USING (shop)"
    )
    keeping.compute(partial(tables.asking, join=join))
    for each in (BY_REGION, BY_KIND, BY_REGION):
        keeping.run(tables.asking(*each, join))
    tables.sell(300)
    assert READ not in keeping.run(tables.asking(*BY_REGION, join))


def test_files_that_are_replaced_are_not_added(keeping: Keeping, tables: Tables) -> None:
    keep(keeping, tables)
    one, *_ = sorted((tables.home / "sales").glob("*.parquet"))
    one.unlink()
    tables.sell(10)
    assert READ not in keeping.run(tables.asking(*BY_REGION))
    tables.sell(500, mode="overwrite")
    assert READ not in keeping.run(tables.asking(*BY_KIND))


def test_columns_that_are_added_have_no_values_before(keeping: Keeping, tables: Tables) -> None:
    keep(keeping, tables)
    keeping.env.spark.conf.set("spark.sql.parquet.mergeSchema", "true")
    keeping.plain.conf.set("spark.sql.parquet.mergeSchema", "true")
    tables.sell(300, color=F.lit("red"))
    for _ in range(2):
        keeping.run(tables.asking(*BY_REGION))
        keeping.run(tables.asking("color, count(*) AS n", "GROUP BY color"))


def test_lost_groups_are_computed_of_their_own_files(keeping: Keeping, tables: Tables) -> None:
    keep(keeping, tables)
    tables.sell(200)
    keeping.run(tables.asking(*BY_REGION))
    for each in keeping.env.list_cached():
        for location in each.locations:
            shutil.rmtree(location, ignore_errors=True)
            Path(location).unlink(missing_ok=True)
    keeping.run(tables.asking(*BY_REGION))
    keeping.run(tables.asking(*BY_KIND))


def test_many_pieces_are_written_together(keeping: Keeping, tables: Tables) -> None:
    keep(keeping, tables)
    read = []
    for number in range(6):
        tables.sell(100 + number)
        if number % 3 == 2:
            tables.open_shops(30 + number, 2)
        keeping.run(tables.asking(*BY_REGION))
        read.append(keeping.run(tables.asking(*BY_KIND)))
    # Groups of all files, or of most, and those of files that have come since.
    assert [READ] in read and [READ, READ] in read
    assert {*map(len, read)} == {1, 2}
    finer = "region, kind, sum(price), avg(price)", "WHERE kind <> 'n1' GROUP BY ALL"
    assert {*keeping.run(tables.asking(*finer))} == {READ}


def test_what_was_written_together_is_a_result_like_others(
    session: SparkSession, tables: Tables
) -> None:
    plain = session.newSession()
    with Environment(session, config=config(tables.home)) as env:
        keeping = Keeping(env, plain)
        keep(keeping, tables)
        for _ in range(2):
            tables.sell(100)
            keeping.run(tables.asking(*BY_REGION))
        assert len(env.list_cached()) == 4
        assert keeping.run(tables.asking(*BY_KIND)) == [READ]
    with Environment(session, config=config(tables.home)) as env:
        keeping = Keeping(env, plain)
        assert keeping.run(tables.asking(*BY_KIND)) == [READ]
        # It is made again, of all of its files.
        for each in env.list_cached():
            for location in each.locations:
                shutil.rmtree(location, ignore_errors=True)
                Path(location).unlink(missing_ok=True)
        keeping.run(tables.asking(*BY_REGION))
        keeping.run(tables.asking(*BY_KIND))
        tables.sell(100)
        for asked in (BY_REGION, BY_KIND) * 2:
            keeping.run(tables.asking(*asked))


def test_what_is_worth_keeping_is_known_after_files_have_changed(
    keeping: Keeping, tables: Tables
) -> None:
    def ask(least: int) -> list[str]:
        where = f"WHERE price > {least} GROUP BY kind"
        return keeping.run(tables.asking("kind, count(*) AS n, sum(price) AS p", where))

    keeping.compute(tables.asking, 4, by="kind", of_some_rows=True)
    assert [ask(least) for least in (1, 2)] == [[], []]
    tables.sell(500, mode="overwrite")
    assert ask(3) == [PRODUCED]
    assert ask(4) == [READ]


def test_another_program_goes_on(session: SparkSession, tables: Tables) -> None:
    plain = session.newSession()
    with Environment(session, config=config(tables.home)) as env:
        keep(Keeping(env, plain), tables)
    tables.sell(200)
    with Environment(session, config=config(tables.home)) as env:
        found = Keeping(env, plain).run(tables.asking(*BY_REGION))
        assert READ in found and PRODUCED in found
    with Environment(session, config=config(tables.home)) as env:
        assert {*Keeping(env, plain).run(tables.asking(*BY_REGION))} == {READ}


def test_groups_under_other_settings_are_other_groups(keeping: Keeping, tables: Tables) -> None:
    keep(keeping, tables)
    tables.sell(200)
    for session in (keeping.env.spark, keeping.plain):
        session.conf.set("spark.sql.ansi.enabled", "false")
    assert READ not in keeping.run(tables.asking(*BY_REGION))

"""Groups that were kept before files were added are put together with those of the new files."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.spark import implicit_cache
from tests.spark.implicit_cache import PRODUCED, READ, SOLD, Keeping, Program

from tests.spark.implicit_cache import keeping, program, session  # isort: skip

__all__ = ["READ", "Tables", "keeping", "program", "session"]

BY_REGION = "region, sum(price) AS p, count(*) AS n", "GROUP BY region"
BY_KIND = "kind, max(price) AS p, avg(price) AS a", "GROUP BY kind"
FINER = "region, kind, sum(price), avg(price)", "WHERE kind <> 'n1' GROUP BY ALL"
SALES = 2_000
PRICE = "CASE WHEN id % 11 <> 0 THEN CAST(id * 7919 % 1003 / 100 AS DECIMAL(15, 2)) END AS price"


class Tables(implicit_cache.Tables):
    """Tables of files that are added to."""

    def __init__(self, session: SparkSession, home: Path, sold: int = 0) -> None:
        super().__init__(session, home)
        self._sold = sold

    def sell(self, number: int, mode: str = "append", **columns: Any) -> None:
        ids = self.session.range(self._sold, self._sold + number, 1, 2)
        self._sold += number
        sales = ids.selectExpr("id % 41 AS shop", PRICE, "concat('n', id % 4) AS kind")
        self.write("sales", sales.withColumns(columns), "*", mode=mode)

    def open_shops(self, first: int, number: int) -> None:
        ids = self.session.range(first, first + number, 1, 1)
        self.write("shops", ids, "id AS shop", "CAST(id % 5 AS INT) AS region")


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Tables(spark, tmp_path_factory.mktemp("pieces"))
    made.sell(SALES)
    made.open_shops(0, 400)
    return made.home


@pytest.fixture
def tables(session: SparkSession, files: Path, tmp_path: Path) -> Tables:
    return Tables(session, shutil.copytree(files, tmp_path / "in"), sold=SALES)


def keep(keeping: Keeping, tables: Tables, join: str = SOLD, by: str = "region") -> None:
    """Groups of a join are kept."""
    keeping.compute(partial(tables.asking, join=join), by=by)
    keeping.ask(f"{by} AS r, sum(price) AS p, count(*) AS n", f"GROUP BY {by}", join)
    assert keeping.ask(*BY_KIND, join) == [PRODUCED]


@pytest.mark.parametrize("which", ["sales", "shops", pytest.param("both", marks=pytest.mark.soak)])
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
        if number == 0:
            shown = keeping.explained(*BY_REGION)
            assert "files were added: their groups are kept beside those of the others" in shown
        found = keeping.ask(*BY_REGION)
        assert READ in found and PRODUCED in found
        assert {*keeping.ask(*BY_KIND)} == {*keeping.ask(*FINER)} == {READ}
        shown = keeping.explained(*BY_REGION)
        if number == 0 and which != "both":
            assert shown.count("read: recurring: Aggregate, Join over sales, shops") == 2
    # The next time, all of them are written as one.
    assert shown.count("read: ") == 1
    assert "read: recurring: Aggregate, Union, Join over sales, shops" in shown


def test_new_directories_of_partitions(
    keeping: Keeping, session: SparkSession, tables: Tables
) -> None:
    home = tables.home / "days"

    def write(day: str, first: int) -> None:
        columns = "id % 7 AS shop", "id", f"DATE'{day}' AS day"
        days = session.range(first, first + 500, 1, 2).selectExpr(*columns)
        days.write.mode("append").partitionBy("day").parquet(str(home))

    def ask(columns: str, by: str) -> list[str]:
        return keeping.ask(columns, f"GROUP BY {by}", join)

    join = SOLD.replace("sales", "days")
    for number in (1, 2):
        write(f"2024-01-0{number}", number * 500)
    keeping.compute(partial(tables.asking, join=join), by="day")
    ask("day, count(*) AS n", "day")
    assert ask("region, max(id) AS m", "region") == [PRODUCED]
    # Another day, and more of one that is there already.
    write("2024-02-01", 5_000)
    write("2024-01-02", 9_000)
    assert READ in ask("day, count(*) AS n", "day")
    assert {*ask("day, count(*) AS n, max(id) AS m", "day")} == {READ}
    shutil.rmtree(home / "day=2024-01-02")
    ask("day, count(*) AS n", "day")


# Of each kind, the table whose files can be read in turns.
KINDS = {
    "LEFT JOIN": "sales",
    "RIGHT JOIN": "shops",
    "FULL JOIN": "",
    "LEFT SEMI JOIN": "sales",
    "LEFT ANTI JOIN": "sales",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(5)
def test_outer_rows_need_all_of_the_other_table(
    keeping: Keeping, tables: Tables, kind: str
) -> None:
    join = f"sales {kind} (SELECT * FROM shops WHERE shop % 3 = 1) USING (shop)"
    by_shop = "shop % 5 AS r, sum(price) AS p", "GROUP BY shop % 5", join
    both = "shop % 5 AS r, kind, sum(price) AS p", "GROUP BY shop % 5, kind", join
    keep(keeping, tables, join, "shop % 5")
    assert keeping.ask(*both) == [READ]
    tables.sell(200)
    assert (READ in keeping.ask(*by_shop)) == (KINDS[kind] == "sales")
    keeping.ask(*BY_KIND, join)
    # Shops that some sales have not found before.
    tables.open_shops(400, 3)
    tables.open_shops(31, 1)
    assert (READ in keeping.ask(*by_shop)) == (KINDS[kind] == "shops")
    for each in ((*BY_KIND, join), by_shop):
        keeping.ask(*each)


NOT_DIVIDED = {
    "a subquery": "(SELECT * FROM sales WHERE price > (SELECT max(price) FROM sales) - 5)",
    "an aggregate": "(SELECT shop, kind, max(price) AS price FROM sales GROUP BY ALL)",
}


@pytest.mark.parametrize("what", NOT_DIVIDED)
def test_what_sees_all_files_is_not_divided(keeping: Keeping, tables: Tables, what: str) -> None:
    join = f"{NOT_DIVIDED[what]} JOIN shops USING (shop)"
    keeping.compute(partial(tables.asking, join=join))
    for each in (BY_REGION, BY_KIND, BY_REGION):
        keeping.ask(*each, join)
    tables.sell(50)
    assert READ not in keeping.ask(*BY_REGION, join)
    tables.sell(1, price=F.lit(100).cast("decimal(15,2)"))
    for each in (BY_REGION, BY_KIND):
        keeping.ask(*each, join)


@pytest.mark.soak
def test_a_table_that_is_joined_with_itself(keeping: Keeping, tables: Tables) -> None:
    join = "sales a JOIN sales b ON a.shop = b.shop AND a.price < b.price - 9"
    asked = (
        ("a.kind AS k, count(*) AS n", "GROUP BY a.kind"),
        ("b.kind, max(b.price)", "GROUP BY 1"),
    )
    keeping.compute(partial(tables.asking, join=join), by="a.kind")
    for number in range(3):
        for each in asked:
            keeping.ask(*each, join)
        if number == 0:
            tables.sell(100)


def test_other_settings_and_files_that_are_replaced_are_no_added_files(
    keeping: Keeping, tables: Tables
) -> None:
    keep(keeping, tables)
    tables.sell(200)
    keeping.set("ansi.enabled", "false")
    assert READ not in keeping.ask(*BY_REGION)
    keeping.set("ansi.enabled", "true")
    min((tables.home / "sales").glob("*.parquet")).unlink()
    tables.sell(10)
    assert READ not in keeping.ask(*BY_KIND)


def test_columns_that_are_added_have_no_values_before(keeping: Keeping, tables: Tables) -> None:
    keep(keeping, tables)
    keeping.set("parquet.mergeSchema", "true")
    tables.sell(300, color=F.lit("red"))
    for each in (BY_REGION, ("color, count(*) AS n", "GROUP BY color")) * 2:
        keeping.ask(*each)


@pytest.mark.soak
def test_many_pieces_are_written_together(keeping: Keeping, tables: Tables) -> None:
    keep(keeping, tables)
    read = []
    for number in range(6):
        tables.sell(100 + number)
        if number % 3 == 2:
            tables.open_shops(30 + number, 2)
        keeping.ask(*BY_REGION)
        read.append(keeping.ask(*BY_KIND))
    # Groups of all files, or of most, and those of files that have come since.
    assert [READ] in read and [READ, READ] in read
    assert {*map(len, read)} == {1, 2}
    assert {*keeping.ask(*FINER)} == {READ}


def test_another_program_reads_what_was_written_together_and_computes_what_is_lost(
    program: Program, tables: Tables
) -> None:
    with program() as keeping:
        keep(keeping, tables)
        tables.sell(100)
        keeping.ask(*BY_REGION)
    tables.sell(100)
    with program() as keeping:
        found = keeping.ask(*BY_REGION)
        assert READ in found and PRODUCED in found
        assert keeping.ask(*BY_KIND) == [READ]
        # It is made once more, of all of its files.
        keeping.lose_files()
        keeping.ask(*BY_REGION)
        tables.sell(100)
        for asked in (BY_REGION, BY_KIND):
            keeping.ask(*asked)


def test_what_is_worth_keeping_is_known_after_files_have_changed(
    keeping: Keeping, tables: Tables
) -> None:
    def ask(least: int) -> list[str]:
        some = f"WHERE price > {least} GROUP BY kind"
        return keeping.ask("kind, count(*) AS n, sum(price) AS p", some)

    keeping.compute(tables.asking, 4, by="kind", of_some_rows=True)
    assert [ask(least) for least in (1, 2)] == [[], []]
    tables.sell(500, mode="overwrite")
    assert [ask(least) for least in (3, 4)] == [[PRODUCED], [READ]]

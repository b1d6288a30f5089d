"""What queries compute again and again is kept unasked, and gives plain Spark's rows."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import VertexOutcome
from holdfast.cli.main import main
from holdfast.testing import outcomes
from tests.spark import implicit_cache
from tests.spark.implicit_cache import (
    NOTHING_REUSED,
    PRODUCED,
    READ,
    SOLD,
    Keeping,
    Program,
    Stages,
    Tables,
    config,
    program,
)

__all__ = ["Keeping", "config", "program"]

ROWS = 6_000
COLUMNS = ("id", "id % 70 AS shop", "id % 9 AS v", "'x' AS w")
SHOPS = ("id AS shop", "concat('n', id) AS name", "id % 5 AS region", "'unread' AS comment")


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    for key, value in implicit_cache.SETTINGS.items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    return session


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Tables(spark, tmp_path_factory.mktemp("recurring"))
    made.write("sales", spark.range(0, ROWS, 1, 2), *COLUMNS)
    made.write("shops", spark.range(0, 70, 1, 1), *SHOPS)
    return made.home


@pytest.fixture
def tables(session: SparkSession, files: Path, tmp_path: Path) -> Tables:
    """Files that a test may change."""
    return Tables(session, shutil.copytree(files, tmp_path / "in"))


@pytest.fixture
def keeping(program: Program) -> Iterator[Keeping]:
    with program(**NOTHING_REUSED) as keeping:
        yield keeping


def by(column: str, least: int = -1) -> tuple[str, str]:
    # An average of whole numbers isn't made of other groups: the join is kept, or nothing.
    return f"{column}, avg(v) AS s, count(*) AS n", f"WHERE v > {least} GROUP BY {column}"


def keep(keeping: Keeping) -> None:
    assert [keeping.ask(*by("region", least)) for least in range(2)] == [[], [PRODUCED]]


def test_a_join_that_recurs_is_kept_with_the_columns_that_are_used_and_it_is_shown(
    keeping: Keeping, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(*command: str) -> str:
        assert main([*command, "--directory", str(tmp_path / "kept")]) == 0
        return capsys.readouterr().out

    keep(keeping)
    assert keeping.ask(*by("region", 2)) == [READ]
    [kept] = keeping.env.list_cached()
    assert kept.computes.startswith("recurring: ") and kept.rows == ROWS
    schema = keeping.plain.read.parquet(*kept.locations).columns
    assert len([each for each in schema if not each.startswith("__")]) == 2
    asked: list[dict[str, Any]] = json.loads(shown("why", "--last", "3", "--json"))
    fates = [[part["outcome"] for part in each["parts"]] for each in asked]
    assert fates == [["not kept", "not kept"], ["kept", "not kept"], ["read", "not kept"]]
    assert asked[0]["parts"][0]["why"] == "asked for once"
    assert all(asked[0][each] > 0 for each in ("bytes_read", "shuffle_bytes", "task_seconds"))
    # A condition leaves out some of the rows until all of them are kept.
    rows = [each["parts"][0]["rows"] for each in asked]
    assert rows[0] < ROWS and rows[1:] == [ROWS, ROWS]
    assert re.match("kept before; took .* s to read", asked[2]["parts"][0]["why"])
    assert f"  kept: Join over sales, shops ({ROWS:,} rows" in shown("why", asked[1]["digest"][:8])
    advice = json.loads(shown("advise", "--min-saved", "0", "--json"))
    assert (advice["proposals"][0]["reads"], advice["reads"]) == (2, 1)
    said = " ".join(shown("advise", "--min-saved", "0").split())
    assert "What was kept unasked was read 1 times" in said
    # Other columns are computed.
    ran = [keeping.ask(*by(*each)) for each in (("name", 5), ("name", 6), ("region", 8))]
    assert ran == [[], [PRODUCED], [READ]]


def test_what_is_dearer_to_read_than_to_compute_is_computed(
    keeping: Keeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(keeping)
    history = "holdfast.advice.query_history.QueryHistory"
    monkeypatch.setattr(f"{history}.seconds_to_read", lambda *_: 1e6)
    shown = keeping.explained(*by("region", 4))
    assert re.search(r"not read: Join .*\n.*s to compute, and 1,000,000.0 s to read", shown)
    assert keeping.ask(*by("region", 4)) == []
    # Nor is it kept, where that is known before.
    monkeypatch.setattr(f"{history}.rates", SimpleNamespace(written=1e9, read=1.0))
    assert [keeping.ask(*by("name", least)) for least in range(2)] == [[]] * 2


def test_columns_are_called_as_the_query_calls_them(keeping: Keeping) -> None:
    # Rows are compared with their names.
    for names in ("Name, v, V", "REGION, ID") * 2:
        keeping.ask(names, "WHERE id < 900")
    assert keeping.kept()


@pytest.mark.soak
def test_a_part_has_the_columns_of_all_places_where_it_stands(keeping: Keeping) -> None:
    half = "SELECT CAST({} AS STRING) AS k, avg(v) AS n FROM " + SOLD + " GROUP BY 1"
    for keys in ("region name", "name v", "region v", "region w", "name w", "w region"):
        one, other = keys.split()
        keeping.ask("*", "", f"({half.format(one)} UNION ALL {half.format(other)})")
    for least in (1, 2, 3, 1, 2, 3):
        # Written in another way, a query uses what it needs.
        for columns in ("region, v", "region, v, name"):
            keeping.ask("region", "", f"(SELECT {columns} FROM {SOLD} WHERE v > {least})")
    assert keeping.kept()


def test_files_that_change_are_read_again(keeping: Keeping, tables: Tables) -> None:
    keep(keeping)
    more = tables.session.range(500)
    tables.write("sales", more, *COLUMNS)
    assert keeping.ask(*by("region", 3)) != [READ]
    keeping.ask(*by("region", 4))
    assert keeping.ask(*by("region", 5)) == [READ]
    # What recurs each day is kept the first time over new files.
    tables.write("sales", more, *COLUMNS, mode="overwrite")
    assert [keeping.ask(*by("region", least)) for least in (6, 7)] == [[PRODUCED], [READ]]


def test_a_cache_is_an_order(keeping: Keeping) -> None:
    cached = keeping.made("*").cache()
    for least in range(4):
        assert cached.where(F.col("v") > least).groupBy("region").count().count() == 5
        keeping.learned()
    keeping.idle()
    assert [each.startswith("recurring") for each in keeping.kept()] == [False]


ROW_NUMBER = "row_number() OVER (ORDER BY v) AS n"
NEVER_KEPT: dict[str, tuple[Callable[[DataFrame], DataFrame], str]] = {
    "random": (
        lambda t: t.select("v", F.rand().alias("r")).groupBy("v").agg(F.max("r")),
        "Aggregate over sales\n  in doubt: there is Rand,",
    ),
    "time": (
        lambda t: t.select("v", F.current_timestamp().alias("t")).distinct(),
        "Distinct over sales\n  in doubt: there is CurrentTimestamp,",
    ),
    "code": (
        lambda t: t.select(F.udf(lambda v: v, "long")("v").alias("v")).distinct(),
        "Distinct over sales\n  in doubt: Project runs functions that aren't Spark's",
    ),
    "session": (
        lambda t: t.join(t.sparkSession.sparkContext.parallelize([(1,)]).toDF(["v"]), "v"),
        "Join over sales, rows in memory\n  in doubt: there is an RDD,",
    ),
    "pairs": (
        lambda t: t.alias("a").join(t.where("id < 9").alias("b"), F.expr("a.id < b.id - 9")),
        "Join, Filter over sales\n  it joins by no equality, so that rows multiply",
    ),
    "ties": (
        lambda t: t.selectExpr("v", ROW_NUMBER).groupBy("v").agg(F.max("n")),
        "Aggregate, Window over sales\n  in doubt: there is RowNumber,",
    ),
    "first": (
        lambda t: t.groupBy("v").agg(F.first("id")),
        "Aggregate over sales\n  in doubt: there is First,",
    ),
}


def test_what_is_in_doubt_is_never_kept_and_says_why(
    keeping: Keeping, tables: Tables, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sales = keeping.env.read.parquet(str(tables.home / "sales"))
    for name, (make, why) in NEVER_KEPT.items():
        for _ in range(2):
            make(sales).collect()
            keeping.learned()
        assert f"not kept unasked: {why}" in keeping.env.explain_kept(make(sales)), name
    assert main(["why", "--last", "99", "--directory", str(tmp_path / "kept")]) == 0
    shown = re.sub(r"\n +", "\n  ", capsys.readouterr().out)
    assert [name for name, (_, why) in NEVER_KEPT.items() if f"not kept: {why}" not in shown] == []
    assert keeping.kept() == []


@pytest.mark.parametrize("join", ["sales", pytest.param(SOLD, marks=pytest.mark.soak)])
def test_what_spark_has_persisted_is_left_to_it(
    keeping: Keeping, tables: Tables, join: str
) -> None:
    persisted = tables.asking("*", "", join)(keeping.plain).persist()
    try:
        for least in range(2):
            assert keeping.ask(*by("region", least)) == []
        shown = keeping.explained(*by("region", 4))
        assert "Spark has persisted it, or a part of it" in shown
    finally:
        persisted.unpersist(blocking=True)
    assert "persisted" not in keeping.explained(*by("region", 4))
    # What it has persisted elsewhere does not matter.
    persisted = tables.asking("region, count(*)", "GROUP BY 1", "shops")(keeping.plain).persist()
    try:
        assert PRODUCED in [each for least in (5, 6) for each in keeping.ask(*by("region", least))]
    finally:
        persisted.unpersist(blocking=True)


def test_rows_of_files_that_spark_has_persisted_before_they_changed(
    keeping: Keeping, tables: Tables
) -> None:
    keep(keeping)
    persisted = keeping.plain.read.parquet(str(tables.home / "sales")).persist()
    try:
        persisted.count()
        # Not by Spark, which would look for what it has persisted of them.
        one = min((tables.home / "sales").glob("*.parquet"))
        pyarrow.parquet.write_table(pyarrow.parquet.read_table(one).slice(0, 5), one)
        one.with_name(f".{one.name}.crc").unlink()
        for _ in range(2):
            keeping.ask(*by("region"))
    finally:
        persisted.unpersist(blocking=True)
    for _ in range(2):
        keeping.ask(*by("region"))


WRITTEN = (
    "sales a, shops b WHERE a.shop = b.shop AND v > {}",
    "shops b, sales a WHERE v > {} AND b.shop = a.shop",
    "sales a JOIN shops b ON a.shop = b.shop WHERE v > {}",
    "sales a, shops b WHERE 1 = 1 AND a.shop = b.shop AND v > {}",
)
PAIRS = "sales a, shops b WHERE a.shop = b.shop"
EITHER = "(a.shop = b.shop AND v = 7 OR a.shop = b.shop AND v = 8)"
OTHERS = {
    "c.name, max(b.region)": "shops b, shops c, sales a WHERE a.shop = b.shop "
    "AND c.shop = a.shop AND v > {} GROUP BY c.name",
    "name": f"shops WHERE EXISTS (SELECT 1 FROM {PAIRS} AND b.region = shops.region AND v > 7)",
    "max(name), count(*)": f"sales a, shops b WHERE {EITHER} AND a.shop > {{}}",
    "a.region, avg(a.shop)": "shops a, shops b WHERE a.region > b.region AND a.shop > {} "
    "GROUP BY a.region",
}


def test_joins_whose_conditions_are_in_a_filter(keeping: Keeping) -> None:
    def ask(join: str, least: int) -> list[str]:
        return keeping.ask("region, avg(v) AS s", "GROUP BY region", join.format(least))

    assert [ask(WRITTEN[0], least) for least in range(2)] == [[], [PRODUCED]]
    assert [ask(join, 4) for join in WRITTEN] == [[READ]] * len(WRITTEN)


@pytest.mark.soak
def test_joins_whose_conditions_are_in_filters_of_other_kinds(keeping: Keeping) -> None:
    for columns, join in OTHERS.items():
        for least in range(3):
            keeping.ask(columns, "", join.format(least))
    assert "recurring: Join over sales, shops" in keeping.kept()


def test_a_program_keeps_at_once_what_others_have_computed_and_others_read_it(
    program: Program,
) -> None:
    for least, expected in enumerate(([], [PRODUCED], [READ])):
        with program(**NOTHING_REUSED) as keeping:
            assert keeping.ask(*by("region", least)) == expected
            shown = keeping.explained(*by("region", 4))
    assert "read: recurring: Join over sales, shops\n" in shown
    assert "not kept unasked: Aggregate, Filter, Join over sales, shops\n  asked for once" in shown


def test_what_is_kept_unasked_makes_room_for_what_is_cached(
    program: Program, tmp_path: Path
) -> None:
    def cached(keeping: Keeping) -> list[int]:
        keep(keeping)
        sizes = {each.rows: each.bytes or 0 for each in keeping.env.list_cached()}
        assert keeping.made("*", "", "shops").cache(name="shops").count() == 70
        sizes |= {each.rows: each.bytes or 0 for each in keeping.env.list_cached()}
        return [sizes[ROWS], sizes[70]]

    with program(tmp_path / "large", **NOTHING_REUSED) as keeping:
        largest = max(cached(keeping))
    # Either has room, and not both.
    most = {"intermediate-result-storage.max-size": f"{largest + 10} b"}
    with program(tmp_path / "small", **NOTHING_REUSED, **most) as keeping:
        cached(keeping)
        [kept] = [each.computes for each in keeping.env.list_cached() if each.dataset_id]
        assert kept.startswith("shops: ")
        # Of the join, it is the shops that are read.
        assert READ in keeping.ask(*by("region", 4))


# -- while the program is idle ---------------------------------------------------------------------


def take(keeping: Keeping) -> None:
    """An action that takes some rows does not wait for all to be kept."""
    for least in range(2):
        assert len(keeping.made(*by("region", least)).take(2)) == 2
        keeping.learned()
        assert outcomes(keeping.env) == [VertexOutcome.RUN]


def test_what_is_asked_for_in_part_is_kept_while_the_program_is_idle(keeping: Keeping) -> None:
    take(keeping)
    assert keeping.kept() == []
    stages = Stages(keeping.env.spark)
    keeping.idle()
    assert "holdfast" in {each.schedulingPool() for each in stages.new()}
    [kept] = keeping.env.list_cached()
    assert kept.rows == ROWS
    assert keeping.ask(*by("region", 5)) == [READ]


@pytest.mark.parametrize("seconds", [0, 60])
def test_a_program_may_wait_at_its_end_for_what_is_kept_while_it_is_idle(
    program: Program, seconds: int
) -> None:
    patient = {"implicit-cache.results.close-timeout": f"{seconds} s"}
    with program(**NOTHING_REUSED, **patient) as keeping:
        take(keeping)
        keeping.stop_asking()
    with program(**NOTHING_REUSED) as keeping:
        assert (keeping.ask(*by("region", 6)) == [READ]) == (seconds > 0)


def test_an_action_is_not_held_up_by_what_is_kept_while_the_program_is_idle(
    keeping: Keeping,
) -> None:
    begun, stopped = threading.Event(), threading.Event()
    slow = F.udf(lambda value: time.sleep(0.001) or value, "long")

    def produce() -> None:
        begun.set()
        try:
            keeping.env.spark.range(0, 200_000, 1, 2).select(slow("id")).collect()
        except Exception:
            stopped.set()
            raise

    keeping.produce_while_idle(produce)
    keeping.stop_asking()
    assert begun.wait(30)
    keeping.ask(*by("region"))
    # Alone it would take 100 s.
    assert stopped.wait(30)


def test_commands_show_what_was_reused(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with program() as keeping:
        for _ in range(2):
            keeping.made(*by("name", 1)).collect()
    assert main(["why", "--directory", str(tmp_path / "kept")]) == 0
    assert re.search(r"  reused: \d exchanges? of earlier queries, ", capsys.readouterr().out)

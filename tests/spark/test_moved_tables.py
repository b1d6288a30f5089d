"""Frames over a catalog's partitioned table, made before, between and after what moves it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast import VertexOutcome
from holdfast.testing import outcomes

QUERIES = {
    "table": "SELECT * FROM t",
    "filtered": "SELECT k FROM t WHERE p = 1",
    "grouped": "SELECT p, count(*) AS n, max(k) AS k FROM t GROUP BY p",
    "view": "SELECT k FROM v WHERE k > 0",
    "joined": "SELECT a.k, b.p FROM t a JOIN t b USING (k)",
}

CREATE = "CREATE TABLE {} ({}k INT, p INT) USING {} PARTITIONED BY (p)"
PARQUET = CREATE.format("t", "", "parquet")
ELSEWHERE = "INSERT OVERWRITE DIRECTORY '{path}/elsewhere' USING parquet SELECT 7 AS k"
# Each is played on a table of the rows (1, 1) and (2, 2).
CHANGES = {
    "created": ["DROP TABLE t", PARQUET, "INSERT INTO t VALUES (5, 1), (6, 3)"],
    "created as csv": [
        "DROP TABLE t",
        CREATE.format("t", "", "csv"),
        "INSERT INTO t VALUES (5, 1)",
    ],
    "created with other columns": [
        "DROP TABLE t",
        CREATE.format("t", "j INT, ", "parquet"),
        "INSERT INTO t VALUES (7, 5, 1)",
    ],
    "replaced by another": [
        CREATE.format("u", "", "parquet"),
        "INSERT INTO u VALUES (8, 1)",
        "DROP TABLE t",
        "ALTER TABLE u RENAME TO t",
    ],
    "renamed": [
        "ALTER TABLE t RENAME TO u",
        "INSERT INTO u VALUES (9, 1)",
        "ALTER TABLE u RENAME TO t",
    ],
    "written": ["INSERT INTO t VALUES (3, 1)"],
    "overwritten": ["INSERT OVERWRITE t PARTITION (p = 1) VALUES (4)"],
    "truncated": ["TRUNCATE TABLE t PARTITION (p = 1)"],
    "partitions": [
        "ALTER TABLE t DROP PARTITION (p = 1)",
        ELSEWHERE,
        "ALTER TABLE t ADD PARTITION (p = 3) LOCATION '{path}/elsewhere'",
        "ALTER TABLE t PARTITION (p = 3) RENAME TO PARTITION (p = 1)",
    ],
    "located": [
        ELSEWHERE,
        "ALTER TABLE t PARTITION (p = 1) SET LOCATION '{path}/elsewhere'",
        "REFRESH TABLE t",
    ],
    "repaired": [ELSEWHERE.replace("elsewhere", "warehouse/t/p=4"), "MSCK REPAIR TABLE t"],
    "view": ["CREATE OR REPLACE VIEW v AS SELECT k + 1 AS k FROM t"],
}


class World:
    """A session, plain or attached, with a database, a table in it, and frames over the table."""

    def __init__(self, session: SparkSession, database: str, home: Path) -> None:
        self.session = session
        self.other = session.newSession()
        self._database = database
        self._home = home / database
        self.frames: dict[str, DataFrame] = {}
        session.sql(f"CREATE DATABASE {database} LOCATION '{self._home}/warehouse'")
        for each in (session, self.other):
            each.sql(f"USE {database}")
        self.reset()

    def reset(self) -> None:
        for text in ("DROP TABLE IF EXISTS t", PARQUET, "INSERT INTO t VALUES (1, 1), (2, 2)"):
            self.session.sql(text)
        self.session.sql("CREATE OR REPLACE VIEW v AS SELECT k FROM t")

    def change(self, change: str, elsewhere: bool) -> None:
        for text in CHANGES[change]:
            session = self.other if elsewhere else self.session
            session.sql(text.replace("{path}", str(self._home)))

    def make(self, name: str, query: str, *, cached: bool = False) -> Any:
        self.frames.pop(name, None)
        try:
            frame = self.session.sql(query)
        except PySparkException as error:
            return error.getCondition()
        self.frames[name] = frame.cache() if cached else frame
        return self.frames[name]

    def ask(self, *names: str) -> list[Any]:
        return [(name, self._rows(name)) for name in names]

    def _rows(self, name: str) -> Any:
        if name not in self.frames:
            return "not made"
        # Spark plans a Dataset once: this is another one each time.
        try:
            return sorted(map(str, self.frames[name].select("*").collect()))
        except (PySparkException, Py4JJavaError):
            return "fails"

    def end(self) -> None:
        self.session.sql("USE default")
        self.session.sql(f"DROP DATABASE {self._database} CASCADE")


def release(session: Any, older: Any, how: str) -> None:
    """Has what was cached released, one way or another; plain Spark knows fewer."""
    is_attached = hasattr(session, "holdfast")
    match how:
        case "unpersist":
            older.unpersist()
        case "invalidate":
            older.invalidate_cache() if is_attached else older.unpersist()
        case "clearCache elsewhere":
            session.newSession().catalog.clearCache()
        case "invalidate_all" if is_attached:
            session.holdfast.invalidate_all()
        case "attached again" if is_attached:
            holdfast.detach(session)
            holdfast.attach(session)
        case "invalidate_all" | "attached again" | "clearCache":
            session.catalog.clearCache()


RELEASES = (
    *("nothing", "unpersist", "invalidate", "invalidate_all"),
    *("clearCache", "clearCache elsewhere", "attached again"),
)


@pytest.fixture
def worlds(
    spark: SparkSession, attached: SparkSession, tmp_path: Path
) -> Iterator[tuple[World, World]]:
    plain = World(spark.newSession(), "moved_plain", tmp_path)
    both = plain, World(attached, "moved_ours", tmp_path)
    yield both
    for world in both:
        world.end()


_STALE = pytest.mark.xfail(
    reason="a frame goes on with files that were listed under the old name, in Spark as well; "
    "Holdfast lists them when a frame is cached, and Spark when it is first asked",
    strict=True,
)
_LISTED_ANEW = ("unpersist", "invalidate")
CASES = [
    pytest.param(
        how,
        change,
        list(QUERIES)[(number + place) % len(QUERIES)],
        number % 3 == 0,
        marks=[_STALE] if change == "renamed" and how not in _LISTED_ANEW else [],
    )
    for number, how in enumerate(RELEASES)
    for place, change in enumerate(CHANGES)
]


def play(world: World, how: str, change: str, query: str, elsewhere: bool) -> list[Any]:
    """What all frames over the table answer, step by step."""
    older = world.make("older", query)
    world.make("early", query)
    older.cache()
    said = world.ask("older")
    release(world.session, older, how)
    world.change(change, elsewhere)
    world.make("kept", query, cached=True)
    world.make("between", query)
    world.reset()
    said += world.ask("early", "between", "kept")
    world.make("late", query, cached=True)
    world.change(change, elsewhere)
    world.make("last", query)
    return said + world.ask("early", "between", "late", "last")


@pytest.mark.sampled(43, 23)
@pytest.mark.parametrize(("how", "change", "query", "elsewhere"), CASES)
def test_all_frames_have_the_rows_that_spark_s_cache_gives(
    worlds: tuple[World, World], how: str, change: str, query: str, elsewhere: bool
) -> None:
    expected, ours = (play(world, how, change, QUERIES[query], elsewhere) for world in worlds)
    for should, answer in zip(expected, ours, strict=True):
        # A frame of before the table was replaced may have a listing of files that are gone.
        assert should[1] == "fails" or answer == should


# --- one by one -----------------------------------------------------------------------------------


@pytest.fixture
def session(attached: SparkSession) -> Iterator[SparkSession]:
    """An attached session in a database that it alone uses."""
    attached.sql("CREATE DATABASE moved_tables")
    attached.sql("USE moved_tables")
    yield attached
    attached.sql("USE default")
    attached.sql("DROP DATABASE moved_tables CASCADE")


def reads(session: SparkSession) -> bool:
    """Whether the last job has read what was kept."""
    return outcomes(session)[0] is VertexOutcome.READ


def created(session: SparkSession, row: str, how: str = "(k INT, p INT) USING parquet") -> None:
    session.sql("DROP TABLE IF EXISTS t")
    session.sql(f"CREATE TABLE t {how} PARTITIONED BY (p)")
    session.sql(f"INSERT INTO t VALUES ({row})")


def keys(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("k").collect())


def test_what_is_cached_after_all_else_is_gone_is_followed(session: SparkSession) -> None:
    created(session, "1, 1")
    assert keys(session.table("t").cache()) == [1]
    created(session, "2, 1")
    # Spark's cache is empty, and has been looked at.
    assert keys(session.table("t")) == [2]
    kept = session.table("t").cache()
    created(session, "3, 1")
    between = session.table("t")
    assert keys(kept) == [3]
    created(session, "4, 1")
    assert keys(between) == keys(session.table("t")) == [4]
    assert not session.holdfast.list_cached()


def test_what_is_kept_is_of_the_files_of_now_whichever_frame_is_first(
    session: SparkSession,
) -> None:
    created(session, "1, 1")
    early = session.table("t")
    created(session, "2, 1")
    # It remembers the files that it lists.
    assert keys(early) == [2]
    late = session.table("t").cache()
    session.sql("INSERT INTO t VALUES (3, 1)")
    assert keys(early) == [2, 3]
    assert keys(late) == keys(session.table("t")) == [2, 3]
    assert reads(session)
    created(session, "4, 1")
    assert keys(early.cache()) == keys(session.table("t")) == [4]
    assert reads(session)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(k INT, j INT, p INT) USING csv OPTIONS (sep ';')", "(k INT, j INT, p INT) USING csv"),
        ("(j INT, k INT, p INT) USING parquet", "(k INT, j INT, p INT) USING parquet"),
    ],
    ids=["options", "columns"],
)
def test_a_frame_reads_a_table_in_the_way_of_its_own_time(
    spark: SparkSession, session: SparkSession, before: str, after: str
) -> None:
    plain = spark.newSession()
    plain.sql("USE moved_tables")
    created(session, "1, 1, 1", before)
    early, expected = session.table("t"), plain.table("t")
    created(session, "2, 3, 1", after)
    assert keys(session.table("t").cache()) == [2]
    assert keys(session.table("t")) == [2]
    assert reads(session)
    assert early.collect() == expected.collect()


def test_environments_follow_the_same_table_until_each_is_closed(
    spark: SparkSession, session: SparkSession, tmp_path: Path
) -> None:
    config = {"intermediate-result-storage.directory": str(tmp_path / "other")}
    other = holdfast.attach(spark.newSession(), config)
    other.sql("USE moved_tables")
    created(session, "1, 1")
    mine, its = session.table("t").cache(), other.table("t").cache()
    assert keys(mine) == keys(its) == [1]
    session.sql("INSERT INTO t VALUES (2, 1)")
    for _ in range(2):
        assert keys(other.table("t")) == keys(session.table("t")) == [1, 2]
    assert reads(session) and reads(other)
    mine.unpersist()
    for _ in range(2):
        assert keys(other.table("t")) == [1, 2]
    assert reads(other)
    mine = session.table("t").cache()
    assert keys(mine) == [1, 2]
    holdfast.detach(other)
    assert keys(session.table("t")) == [1, 2]
    assert reads(session)
    session.sql("INSERT INTO t VALUES (3, 1)")
    assert keys(session.table("t")) == [1, 2, 3]
    assert session.holdfast.list_cached()

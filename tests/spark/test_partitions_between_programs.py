"""Results over a catalog's partitioned tables, which one program keeps and another asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from holdfast import VertexOutcome
from holdfast.spark.partition_reader import PartitionReader
from tests.two_programs.moved_partitions import QUERIES, Programs

pytestmark = pytest.mark.usefixtures("interpreted")

READERS = ("parquet", "orc", "csv", "json")
PARTS = {
    "all": {1, 2, 3},
    "grouped": {1, 2, 3},
    "both": {1, 2},
    "inside": {1, 2, 3},
    "other": {2, 3},
}


@pytest.fixture
def programs(spark: SparkSession, tmp_path: Path) -> Iterator[Programs]:
    home = tmp_path / "home"
    spark.sql(f"CREATE DATABASE between_programs LOCATION '{home}/warehouse'")
    yield Programs(spark, home)
    spark.sql("DROP DATABASE between_programs CASCADE")


def create(programs: Programs, reader: str = "parquet") -> None:
    programs.sql(
        f"CREATE TABLE t (k INT, p INT) USING {reader} PARTITIONED BY (p)",
        "INSERT INTO t VALUES (10, 1), (20, 2), (30, 3)",
        "CREATE OR REPLACE VIEW v AS SELECT p, k FROM t WHERE k > 0",
    )


@pytest.mark.parametrize("reader", READERS)
def test_what_one_program_keeps_the_next_one_finds(programs: Programs, reader: str) -> None:
    create(programs, reader)
    for query in ["all", "one"] if reader != "parquet" else QUERIES:
        programs.asks(QUERIES[query])
        assert programs.finds(QUERIES[query]), query


def test_what_one_program_has_cached_is_listed_again_for_others_after_a_command(
    programs: Programs,
) -> None:
    create(programs)
    with programs.program() as one, programs.program() as other:
        one.sql(QUERIES["all"]).cache().collect()
        programs.sql("INSERT INTO t VALUES (11, 1)")
        assert sorted(map(str, other.sql(QUERIES["all"]).collect())) == programs.plain(
            QUERIES["all"]
        )
        assert sorted(map(str, one.sql(QUERIES["all"]).collect())) == programs.plain(QUERIES["all"])


def test_what_is_handed_out_lists_its_tables_when_it_is_run(programs: Programs) -> None:
    create(programs)
    kept = "SELECT p, max(k) AS m FROM t GROUP BY p"
    queries = [QUERIES[each] for each in ("all", "one", "joined", "inside")]
    queries.append(f"SELECT k, m FROM t JOIN ({kept}) USING (p)")
    with programs.program() as env:
        frames = [env.sql(query).to_dataframe() for query in queries]
        programs.sql("INSERT INTO t VALUES (11, 1), (40, 4)")
        for query, frame in zip(queries, frames, strict=True):
            assert sorted(map(str, frame.collect())) == programs.plain(query), query
        env.sql(kept).cache().collect()
        frame = env.sql(queries[-1]).to_dataframe()
        programs.sql("ALTER TABLE t DROP PARTITION (p = 2)", "INSERT INTO t VALUES (12, 1)")
        # What is kept is read as it was.
        assert sorted(frame.collect()) == [(10, 11), (11, 11), (12, 11), (30, 30), (40, 40)]


def test_what_spark_has_cached_below_is_none_of_what_has_been_listed(programs: Programs) -> None:
    create(programs)
    programs.sql(
        "CREATE TABLE u (k INT, p INT) USING parquet PARTITIONED BY (p)",
        "INSERT INTO u VALUES (100, 1), (200, 2)",
    )
    query = "SELECT a.k, b.k AS l FROM t a JOIN u b USING (p)"
    rows = programs.plain(query)
    with programs.program() as env:
        cached = env.sql(query).cache()
        assert sorted(map(str, cached.collect())) == rows
        of_spark = programs.session().table("t").persist()
        try:
            assert sorted(map(str, env.sql(query).collect())) == rows
        finally:
            of_spark.unpersist()
        assert sorted(map(str, env.sql(query).collect())) == rows


@pytest.mark.parametrize("name", ["to_dataframe", "pandas_api"])
@pytest.mark.parametrize("is_refused", [False, True])
def test_so_it_does_on_pandas_and_where_nothing_kept_can_be_read(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, name: str, is_refused: bool
) -> None:
    create(programs)
    query = "SELECT k, m FROM t JOIN (SELECT max(k) AS m FROM t) WHERE p < 5"
    with programs.program() as env:
        table, whole = env.sql(query), env.sql(QUERIES["all"])
        env.sql("SELECT max(k) AS m FROM t").cache().collect()
        if is_refused:
            monkeypatch.delattr(PartitionReader, "plan")
        frames = [getattr(each, name)() for each in (whole, table)]
        programs.sql("INSERT INTO t VALUES (11, 1), (40, 4)")
        if name == "pandas_api":
            frames = [frame.to_spark() for frame in frames]
        assert sorted(map(str, frames[0].collect())) == programs.plain(QUERIES["all"])
        most = 40 if is_refused else 30
        assert sorted(frames[1].collect()) == [(key, most) for key in (10, 11, 20, 30, 40)]


# Of each, the partitions whose rows it changes; the rest has the same rows in the same files.
CHANGES: dict[str, tuple[set[int], list[str]]] = {
    "added": (
        set(),
        ["ALTER TABLE t ADD PARTITION (p = 9) LOCATION '{path}/new'"],
    ),
    "dropped": ({1}, ["ALTER TABLE t DROP PARTITION (p = 1)"]),
    "renamed": ({1}, ["ALTER TABLE t PARTITION (p = 1) RENAME TO PARTITION (p = 8)"]),
    "located": ({1}, ["ALTER TABLE t PARTITION (p = 1) SET LOCATION '{path}/new'"]),
    "repaired": (
        set(),
        [
            "INSERT OVERWRITE DIRECTORY '{path}/warehouse/t/p=9' USING parquet SELECT 7 AS k",
            "MSCK REPAIR TABLE t",
        ],
    ),
    "overwritten": ({1}, ["INSERT OVERWRITE t PARTITION (p = 1) VALUES (11)"]),
    "overwritten by the same": ({1}, ["INSERT OVERWRITE t PARTITION (p = 1) VALUES (10)"]),
    "overwritten dynamically": (
        {1},
        [
            "SET spark.sql.sources.partitionOverwriteMode = dynamic",
            "INSERT OVERWRITE t PARTITION (p) VALUES (11, 1)",
        ],
    ),
    "appended": ({1}, ["INSERT INTO t VALUES (11, 1)"]),
    "truncated": ({1}, ["TRUNCATE TABLE t PARTITION (p = 1)"]),
    "swapped": (
        {1, 2},
        [
            "ALTER TABLE t PARTITION (p = 1) RENAME TO PARTITION (p = 8)",
            "ALTER TABLE t PARTITION (p = 2) RENAME TO PARTITION (p = 1)",
            "ALTER TABLE t PARTITION (p = 8) RENAME TO PARTITION (p = 2)",
        ],
    ),
    "in one directory": (
        {1, 2},
        [
            "ALTER TABLE t PARTITION (p = 1) SET LOCATION '{path}/new'",
            "ALTER TABLE t PARTITION (p = 2) SET LOCATION '{path}/new'",
        ],
    ),
    "created": (
        {1, 2, 3},
        [
            "DROP TABLE t",
            "CREATE TABLE t (k INT, p INT) USING parquet PARTITIONED BY (p)",
            "INSERT INTO t VALUES (10, 1), (20, 2), (30, 3)",
        ],
    ),
}


@pytest.mark.sampled(5, 1)
@pytest.mark.parametrize("change", CHANGES)
def test_what_has_moved_is_computed_and_what_filters_leave_out_is_not(
    programs: Programs, change: str
) -> None:
    create(programs)
    programs.elsewhere("new", 7)
    moved, texts = CHANGES[change]
    reached = {name: PARTS.get(name, {1}) for name in QUERIES}
    programs.finds_what_stays(reached, moved, texts)
    for name, query in QUERIES.items():
        assert programs.finds(query), name


def test_other_values_under_one_path_are_other_rows(programs: Programs) -> None:
    """The files are the very same ones."""
    programs.elsewhere("x", 1)
    programs.elsewhere("y", 1)
    query = "SELECT p, k FROM t"
    found = []
    for first, second in ((1, 2), (2, 1), (1, 2)):
        programs.sql(
            "DROP TABLE IF EXISTS t",
            "CREATE TABLE t (k INT, p INT) USING parquet PARTITIONED BY (p) LOCATION '{path}/t'",
            f"ALTER TABLE t ADD PARTITION (p = {first}) LOCATION '{{path}}/x'",
            f"ALTER TABLE t ADD PARTITION (p = {second}) LOCATION '{{path}}/y'",
        )
        found.append(programs.finds(query))
    assert found == [False, False, True]


def test_the_same_files_under_other_columns_are_other_rows(programs: Programs) -> None:
    create(programs)
    programs.sql(
        "CREATE TABLE u (k BIGINT, p STRING) USING parquet PARTITIONED BY (p)",
        "ALTER TABLE u ADD PARTITION (p = '1') LOCATION '{path}/warehouse/t/p=1'",
    )
    assert not programs.finds("SELECT * FROM t WHERE p = 1")
    assert not programs.finds("SELECT * FROM u WHERE p = '1'")


@pytest.fixture
def listed(spark: SparkSession) -> Callable[[Callable[[], Any]], int]:
    """How many files an action lists."""
    jvm: Any = spark._jvm
    metrics = jvm.org.apache.spark.metrics.source.HiveCatalogMetrics

    def count(action: Callable[[], Any]) -> int:
        metrics.reset()
        action()
        found: int = metrics.METRIC_FILES_DISCOVERED().getCount()
        return found

    return count


@pytest.mark.parametrize("name", ["one", "above", "joined", "other"])
def test_what_filters_leave_out_is_not_listed(
    programs: Programs, listed: Callable[[Callable[[], Any]], int], name: str
) -> None:
    create(programs)
    query = QUERIES[name]
    assert listed(lambda: programs.plain(query)) == len(PARTS.get(name, {1}))
    with programs.program() as env:
        table = env.sql(query)
        table.cache()
        # What it computes is computed from what has been listed.
        assert listed(table.collect) == 0
    with programs.program() as env:
        table = env.sql(query)
        # Files of what is kept are listed, too.
        assert listed(lambda: env.substituted(table)) <= 2 * len(PARTS.get(name, {1}))


def test_what_is_read_from_a_kept_result_names_no_files_of_it(programs: Programs) -> None:
    create(programs)
    query = QUERIES["grouped"]
    programs.asks(query)
    with programs.program() as env:
        substituted = env.substituted(env.sql(query))
        assert len(substituted.collect()) == 3
        assert substituted.inputFiles() == []


def test_a_part_that_is_cached_answers_what_has_more_conditions(programs: Programs) -> None:
    create(programs)
    with programs.program() as env:
        env.sql("SELECT * FROM t").cache().collect()
        for query in ("SELECT * FROM t WHERE p = 1", QUERIES["above"], QUERIES["both"]):
            assert sorted(map(str, env.sql(query).collect())) == programs.plain(query)
            assert env.last_job_result is not None
            assert env.last_job_result.vertices[0].outcome is VertexOutcome.READ
        # Its own condition is what counts where that is cached, too.
        env.sql("SELECT * FROM t WHERE p = 2").cache().collect()
    programs.sql("INSERT INTO t VALUES (11, 1)")
    assert programs.finds("SELECT * FROM t WHERE p = 2")
    assert not programs.finds("SELECT * FROM t")


def test_what_another_program_adds_is_seen_where_nothing_is_cached(programs: Programs) -> None:
    create(programs)
    query = QUERIES["grouped"]
    programs.asks(query)
    with programs.program() as env:
        assert sorted(map(str, env.sql(query).collect())) == programs.plain(query)
        programs.sql("INSERT INTO t VALUES (40, 4)")
        assert sorted(map(str, env.sql(query).collect())) == programs.plain(query)
        assert "p=4" in str(env.sql(query).collect())


def test_a_table_that_is_gone_fails_as_in_spark(programs: Programs) -> None:
    create(programs)
    with programs.program() as env:
        early = env.sql("SELECT k FROM t")
        programs.sql("DROP TABLE t")
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            early.collect()

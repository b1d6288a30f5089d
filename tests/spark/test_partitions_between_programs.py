"""Results over a catalog's partitioned tables, which one program keeps and another asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from holdfast import VertexOutcome
from holdfast.testing import outcomes
from tests.two_programs import moved_partitions
from tests.two_programs.moved_partitions import QUERIES, Programs

TABLE = "CREATE TABLE t (k INT, p INT) USING parquet PARTITIONED BY (p)"
ROWS = "INSERT INTO t VALUES (10, 1), (20, 2), (30, 3)"
READERS = ("csv", "orc", "json")
PARTS = {
    "all": {1, 2, 3},
    "grouped": {1, 2, 3},
    "both": {1, 2},
    "inside": {1, 2, 3},
    "other": {2, 3},
}
ASKED = ("all", "one", "viewed", "joined", "both", "inside")


@pytest.fixture
def programs(spark: SparkSession, tmp_path: Path) -> Iterator[Programs]:
    home = tmp_path / "home"
    spark.sql(f"CREATE DATABASE between_programs LOCATION '{home}/warehouse'")
    yield Programs(spark, home)
    spark.sql("DROP DATABASE between_programs CASCADE")


def rows(table: DataFrame) -> list[str]:
    return sorted(map(str, table.collect()))


def create(programs: Programs, reader: str = "parquet") -> None:
    view = "CREATE OR REPLACE VIEW v AS SELECT p, k FROM t WHERE k > 0"
    programs.sql(TABLE.replace("parquet", reader), ROWS, view)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.sampled(3)
def test_what_one_program_keeps_the_next_one_finds(programs: Programs, reader: str) -> None:
    create(programs, reader)
    programs.asks(QUERIES["one"])
    assert programs.finds(QUERIES["one"])


def test_what_one_program_has_cached_is_listed_again_for_others_after_a_command(
    programs: Programs,
) -> None:
    create(programs)
    with programs.program() as one, programs.program() as other:
        one.sql(QUERIES["all"]).cache().collect()
        programs.sql("INSERT INTO t VALUES (11, 1), (40, 4)")
        expected = programs.plain(QUERIES["all"])
        assert rows(other.sql(QUERIES["all"])) == rows(one.sql(QUERIES["all"])) == expected


def test_what_is_handed_out_lists_its_tables_when_it_is_run(programs: Programs) -> None:
    create(programs)
    kept = "SELECT p, max(k) AS m FROM t GROUP BY p"
    queries = [QUERIES[each] for each in ("all", "joined", "inside")]
    queries.append(f"SELECT k, m FROM t JOIN ({kept}) USING (p)")
    with programs.program() as env:
        frames = [env.sql(query).to_dataframe() for query in queries]
        on_pandas = env.sql(queries[0]).pandas_api()
        programs.sql("INSERT INTO t VALUES (11, 1), (40, 4)")
        for query, frame in zip(queries, frames, strict=True):
            assert rows(frame) == programs.plain(query), query
        assert rows(on_pandas.to_spark()) == programs.plain(queries[0])
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
    expected = programs.plain(query)
    with programs.program() as env:
        cached = env.sql(query).cache()
        assert rows(cached) == expected
        of_spark = programs.session().table("t").persist()
        try:
            assert rows(env.sql(query)) == expected
        finally:
            of_spark.unpersist()
        assert rows(env.sql(query)) == expected


CHANGES = moved_partitions.CHANGES | {
    "repaired": (
        set(),
        [
            "INSERT OVERWRITE DIRECTORY '{path}/warehouse/t/p=9' USING parquet SELECT 7 AS k",
            "MSCK REPAIR TABLE t",
        ],
    ),
    "overwritten dynamically": (
        {1},
        [
            "SET spark.sql.sources.partitionOverwriteMode = dynamic",
            "INSERT OVERWRITE t PARTITION (p) VALUES (11, 1)",
        ],
    ),
    "truncated": ({1}, ["TRUNCATE TABLE t PARTITION (p = 1)"]),
    "created": ({1, 2, 3}, ["DROP TABLE t", TABLE, ROWS]),
}


@pytest.mark.sampled(12, 1)
@pytest.mark.parametrize("change", CHANGES)
def test_what_has_moved_is_computed_and_what_filters_leave_out_is_not(
    programs: Programs, change: str
) -> None:
    create(programs)
    programs.elsewhere("new", 7)
    moved, texts = CHANGES[change]
    programs.finds_what_stays({name: PARTS.get(name, {1}) for name in ASKED}, moved, texts)
    assert programs.finds(QUERIES["joined"])


def test_other_values_under_one_path_are_other_rows(programs: Programs) -> None:
    """The files are the very same ones."""
    programs.elsewhere("x", 1)
    programs.elsewhere("y", 1)
    query = "SELECT p, k FROM t"
    found = []
    for first, second in ((1, 2), (2, 1), (1, 2)):
        programs.sql(
            "DROP TABLE IF EXISTS t",
            f"{TABLE} LOCATION '{{path}}/t'",
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
@pytest.mark.sampled(4, 1)
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
            assert rows(env.sql(query)) == programs.plain(query)
            assert outcomes(env)[0] is VertexOutcome.READ
        # Its own condition is what counts where that is cached, too.
        env.sql("SELECT * FROM t WHERE p = 2").cache().collect()
    programs.sql("INSERT INTO t VALUES (11, 1)")
    assert programs.finds("SELECT * FROM t WHERE p = 2")


def test_a_table_that_is_gone_fails_as_in_spark(programs: Programs) -> None:
    create(programs)
    with programs.program() as env:
        early = env.sql("SELECT k FROM t")
        programs.sql("DROP TABLE t")
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            early.collect()

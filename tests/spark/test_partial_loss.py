"""Of a kept result that has lost partitions, only these are produced again."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import (
    Environment,
    ExecutionVertex,
    JobExecutionResult,
    ResultPartitionDescriptor,
    VertexOutcome,
)
from holdfast.testing import outcomes

FILES, ROWS = 5, 100
KEYS = 40
PRODUCED, READ, RUN = VertexOutcome.PRODUCED, VertexOutcome.READ, VertexOutcome.RUN
# A task for each file; shuffles with several partitions, also of few rows.
SETTINGS = {
    "spark.sql.files.openCostInBytes": str(1 << 27),
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.adaptive.coalescePartitions.minPartitionNum": "4",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
Read = Callable[[str], Any]
Make = Callable[[Read], Any]


@pytest.fixture(autouse=True)
def _several_partitions(settings: Callable[..., Any]) -> Iterator[None]:
    with settings(SETTINGS):
        yield


@pytest.fixture(scope="module")
def sources(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of `facts`, by `k`, and of `names`."""
    home = tmp_path_factory.mktemp("sources")
    facts = spark.range(0, ROWS, 1, FILES).selectExpr(
        "id",
        f"CASE WHEN id % 11 > 0 THEN id % {KEYS} END AS k",
        "id / 7 AS d",
        "array(id, NULL) AS xs",
        "CAST(id AS DECIMAL(12, 2)) AS m",
    )
    facts.write.parquet(str(home / "facts"))
    names = spark.range(0, KEYS, 1, 2).selectExpr("id AS k", "concat('n', id % 3) AS name")
    names.write.parquet(str(home / "names"))
    return home


def reader(session: Any, home: Path) -> Read:
    return lambda name: session.read.parquet(str(home / name))


@dataclass(frozen=True)
class Kept:
    """A table that is kept, and how to lose parts of it."""

    env: Environment
    table: Any
    plain: DataFrame

    def answers(self) -> list[str]:
        """The same rows as plain Spark's."""
        rows = list(map(repr, self.table.collect()))
        assert Counter(rows) == Counter(map(repr, self.plain.collect()))
        return rows

    @property
    def result(self) -> JobExecutionResult:
        """The last job's."""
        assert self.env.last_job_result is not None
        return self.env.last_job_result

    @property
    def vertex(self) -> ExecutionVertex:
        """What became of the table."""
        (vertex,) = [each for each in self.result.vertices if each.dataset_id is not None]
        return vertex

    @property
    def partitions(self) -> tuple[ResultPartitionDescriptor, ...]:
        """Its files."""
        (partitions,) = self.result.persistent_result_partitions.descriptors.values()
        return partitions

    def file(self, place: int) -> Path:
        """That of one of its partitions."""
        return Path(self.partitions[place].location)

    def restores(self, taken_over: int | None) -> None:
        """The next job takes over so many partitions, and produces all others; None: everything."""
        self.answers()
        assert (self.vertex.outcome, self.vertex.taken_over) == (PRODUCED, taken_over)
        assert len(self.result.losses) == 1
        self.reads()

    def loses(self, *places: int) -> None:
        """The next job produces these partitions, and takes over all others."""
        whole = len(self.partitions)
        for file in [self.file(place) for place in places]:
            file.unlink()
        self.restores(whole - len(places))

    def reads(self) -> None:
        """What is kept is as it should be."""
        self.answers()
        assert self.vertex.outcome is READ


Keep = Callable[[Make], Kept]


@pytest.fixture
def keep(spark: SparkSession, env: Environment, sources: Path) -> Keep:
    """Keeps what a function makes of a reader of `facts` and `names`."""

    def kept(make: Make) -> Kept:
        table = make(reader(env, sources)).cache()
        table.collect()
        return Kept(env, table, make(reader(spark, sources)))

    return kept


def scanned(read: Read) -> Any:
    """Rows of `facts`, in a task for each file."""
    return read("facts").where("id % 3 < 2").selectExpr("id + 1 AS i", "k", "xs", "d")


def joined(read: Read) -> Any:
    """Both tables, shuffled by `k`."""
    return read("facts").join(read("names"), "k").drop("d")


def grouped(read: Read) -> Any:
    return read("facts").groupBy("k").agg(F.sum("m"), F.avg("d"), F.count("*"))


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def overwrite(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[10:20] = bytes(10)
    file.write_bytes(content)


def link_elsewhere(file: Path) -> None:
    moved = file.with_name("_moved")
    file.rename(moved)
    file.symlink_to(moved)
    os.utime(file, ns=(0, 0), follow_symlinks=False)
    os.truncate(moved, 100)


@pytest.mark.parametrize("make", [scanned, joined, grouped])
@pytest.mark.parametrize("damage", [truncate, overwrite, link_elsewhere])
@pytest.mark.sampled(4)
def test_a_partition_is_damaged(keep: Keep, make: Make, damage: Callable[[Path], None]) -> None:
    kept = keep(make)
    damage(kept.file(1))
    kept.restores(len(kept.partitions) - 1)


@pytest.mark.parametrize("make", [joined, scanned, grouped])
@pytest.mark.sampled(3)
def test_losses_one_after_the_other(keep: Keep, make: Make) -> None:
    kept = keep(make)
    assert len(kept.partitions) >= 3
    kept.loses(1)
    before = {each.location for each in kept.partitions}
    for place in (0, 1):
        kept.file(place).unlink()
    kept.answers()
    # Those that were produced together are lost together.
    assert kept.vertex.taken_over
    assert before.isdisjoint(each.location for each in kept.partitions)
    kept.reads()


def test_only_the_lost_rows_are_computed_and_it_is_said(
    keep: Keep, spark: SparkSession, tally: Any
) -> None:
    seen = F.udf(tally.counting(lambda number: number), "long")
    kept = keep(lambda read: read("facts").select(seen("id").alias("id"), "k"))
    before = tally.count()
    for place in (1, 2):
        kept.file(place).unlink()
    kept.table.collect()
    assert tally.count() - before == 2 * ROWS // FILES
    assert f"{FILES - 2} partitions were taken over, 2 recomputed" in repr(kept.result)
    # It is one directory, in which nothing else is.
    (directory,) = {Path(each.location).parent for each in kept.partitions}
    assert os.listdir(directory.parent) == [directory.name]
    assert len([*directory.glob("part-*")]) == FILES


def test_all_partitions_are_lost(keep: Keep) -> None:
    kept = keep(joined)
    shutil.rmtree(kept.file(0).parent)
    kept.restores(None)


def test_a_partition_is_lost_while_it_is_read(keep: Keep) -> None:
    kept = keep(scanned)
    last = str(kept.file(-1))

    @F.udf("long")
    def passed(number):  # PySpark would take hints for its own.
        Path(last).unlink(missing_ok=True)
        return number

    rows = kept.table.select(passed.asNondeterministic()("i").alias("i")).collect()
    assert sorted(row.i for row in rows) == [each + 1 for each in range(ROWS) if each % 3 < 2]
    assert (len(kept.result.losses), kept.vertex.taken_over) == (1, FILES - 1)
    kept.reads()


BROADCASTS, ADAPTIVE = "spark.sql.autoBroadcastJoinThreshold", "spark.sql.adaptive.enabled"
FILES_SPLIT = "spark.sql.files.maxPartitionBytes"
# What is run, under which settings, and under which others after the loss.
RUNS: dict[str, tuple[Make, dict[str, str], dict[str, str]]] = {
    "broadcast": (joined, {BROADCASTS: str(1 << 20)}, {}),
    "not adaptive": (joined, {ADAPTIVE: "false"}, {}),
    "to fewer partitions": (joined, {}, {"spark.sql.shuffle.partitions": "7"}),
    "split smaller": (scanned, {}, {FILES_SPLIT: "50"}),
    "split larger": (scanned, {}, {"spark.sql.files.openCostInBytes": "1"}),
    "adaptive only before": (joined, {}, {ADAPTIVE: "false"}),
    "broadcast later": (joined, {}, {BROADCASTS: str(1 << 30)}),
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.sampled(3)
def test_settings_that_change_no_rows(keep: Keep, settings: Any, name: str) -> None:
    make, before, after = RUNS[name]
    with settings(before):
        kept = keep(make)
        with settings(after):
            kept.file(2).unlink()
            # Of those without rows none is taken over.
            kept.restores(sum(each.rows > 0 for each in kept.partitions) - 1)


def test_partitions_without_rows_are_not_taken_over(keep: Keep) -> None:
    kept = keep(lambda read: read("facts").where("id % 100 BETWEEN 25 AND 65"))
    assert [each.rows > 0 for each in kept.partitions] == [False, False, True, True, True]
    for lost in (-1, 0):
        kept.file(lost).unlink()
        kept.restores(2)


def test_a_result_of_a_kept_one_that_is_lost_as_well(keep: Keep) -> None:
    kept = keep(lambda read: scanned(read).drop("d").cache().join(read("names"), "k"))
    for partitions in kept.result.persistent_result_partitions.descriptors.values():
        Path(partitions[-1].location).unlink()
    kept.answers()
    assert outcomes(kept.env) == [PRODUCED, PRODUCED, RUN]
    assert all(each.taken_over for each in kept.result.vertices if each.dataset_id is not None)


def test_a_source_that_has_changed(
    spark: SparkSession, env: Environment, sources: Path, tmp_path: Path
) -> None:
    shutil.copytree(sources / "facts", tmp_path / "facts")

    def ids(session: Any) -> Any:
        return session.read.parquet(str(tmp_path / "facts")).select("id")

    first = Kept(env, ids(env).cache(), ids(spark))
    first.answers()
    first.file(1).unlink()
    spark.range(1000, 1003).coalesce(1).write.mode("append").parquet(str(tmp_path / "facts"))
    second = Kept(env, ids(env).cache(), ids(spark))
    second.answers()
    assert (second.vertex.outcome, second.vertex.taken_over) == (PRODUCED, None)


def test_rows_that_were_lost_must_come_again(keep: Keep, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = keep(joined)
    kept.file(1).unlink()
    # Rows of another hash come instead.
    monkeypatch.setattr("holdfast.storage.row_layout.Remainder.each_slot", [0])
    kept.restores(None)


OTHERWISE: dict[str, Make] = {
    "in order": lambda read: read("facts").orderBy("d", "id"),
    "numbered": lambda read: read("facts").select("id", F.monotonically_increasing_id()),
    "limited": lambda read: read("facts").limit(60),
    "drawn": lambda read: read("facts").select("id", F.rand(3).alias("r")),
    # Which row of a group is the first is up to the shuffle, and by what it is shuffled next.
    "first by chance": lambda read: (
        read("facts")
        .selectExpr("*", "row_number() OVER (PARTITION BY id % 5 ORDER BY 1) AS n")
        .where("n <= 3")
        .select("k", "n")
        .join(read("names"), "k")
    ),
    # Partitions are by hash of the key: but which rows tie first is this run's choice.
    "numbered ties": lambda read: read("facts").selectExpr(
        "k", "id", "row_number() OVER (PARTITION BY k ORDER BY m > 50) AS n"
    ),
    "in said partitions": lambda read: read("facts").repartition(6, "k").select("id", "k"),
    "summed floats": lambda read: (
        read("facts")
        .groupBy((F.col("id") % 7).alias("g"))
        .agg(F.sum("d").alias("s"))
        .selectExpr("CAST(s AS BIGINT) % 40 AS k")
        .join(read("names"), "k", "left")
    ),
    "without its key": lambda read: read("facts").join(read("names"), "k").select("id", "name"),
}
BY_CHANCE = ("first by chance", "numbered ties")


@pytest.mark.parametrize("name", OTHERWISE)
@pytest.mark.sampled(3)
def test_what_another_run_may_distribute_otherwise_is_produced_as_a_whole(
    keep: Keep, name: str
) -> None:
    kept = keep(OTHERWISE[name])
    kept.file(0).unlink()
    rows = list(map(repr, kept.table.collect())) if name in BY_CHANCE else kept.answers()
    assert (kept.vertex.outcome, kept.vertex.taken_over) == (PRODUCED, None)
    if name == "in order":
        assert rows == list(map(repr, kept.plain.collect()))


# -- what others have kept -------------------------------------------------------------------------


@pytest.fixture
def other(spark: SparkSession, tmp_path: Path) -> Iterator[Environment]:
    """Another program on the same storage directory."""
    directory = str(tmp_path / "kept")
    config = {"intermediate-result-storage.directory": directory}
    with Environment(spark, config=config) as environment:
        yield environment


def test_a_partition_that_another_program_has_kept(
    keep: Keep, other: Environment, sources: Path
) -> None:
    kept = keep(joined)
    again = Kept(other, joined(reader(other, sources)).cache(), kept.plain)
    again.reads()
    again.loses(1)
    kept.reads()


def test_what_is_not_wanted_here_is_read_and_not_kept_again(
    keep: Keep, other: Environment, sources: Path, tmp_path: Path
) -> None:
    kept = keep(grouped)
    asked = grouped(reader(other, sources))
    assert asked.count() == kept.plain.count()
    assert outcomes(other) == [READ, RUN]
    above = asked.where("k = 3").cache()
    assert above.count() == 1
    assert {*outcomes(other)} == {READ, PRODUCED, RUN}
    above.invalidate_cache()
    for file in (tmp_path / "kept").rglob("part-*.parquet"):
        file.unlink()
    assert asked.count() == kept.plain.count()
    assert outcomes(other) == [RUN]
    assert other.last_job_result is not None and len(other.last_job_result.losses) == 1

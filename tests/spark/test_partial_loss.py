"""Of a kept result that has lost partitions, only these are produced again."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast import Environment, JobExecutionResult
from holdfast.api.cached_table import CachedTable
from holdfast.runtime.execution_graph import ExecutionVertex
from holdfast.runtime.partitions import ResultPartitionDescriptor
from holdfast.runtime.vertex_outcome import VertexOutcome

FILES, ROWS = 5, 100
KEYS = 40
# A task for each file; shuffles with several partitions, also of few rows.
SETTINGS = {
    "spark.sql.files.openCostInBytes": str(1 << 27),
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.adaptive.coalescePartitions.minPartitionNum": "4",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


@pytest.fixture(autouse=True)
def _several_partitions(settings: Callable[..., Any]) -> Iterator[None]:
    with settings(SETTINGS):
        yield


@pytest.fixture(scope="module")
def sources(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of `facts`, by `k`, and of `names`."""
    home = tmp_path_factory.mktemp("sources")
    facts = spark.range(0, ROWS, 1, FILES).select(
        "id",
        F.when(F.col("id") % 11 > 0, F.col("id") % KEYS).alias("k"),
        (F.col("id") / 7).alias("d"),
        F.array(F.col("id"), F.lit(None)).alias("xs"),
        F.col("id").cast("decimal(12,2)").alias("m"),
    )
    facts.write.parquet(str(home / "facts"))
    names = spark.range(0, KEYS, 1, 2).select(
        F.col("id").alias("k"), F.concat(F.lit("n"), F.col("id") % 3).alias("name")
    )
    names.write.parquet(str(home / "names"))
    return home


@dataclass(frozen=True)
class Kept:
    """A table that is kept, and how to lose parts of it."""

    env: Environment
    table: CachedTable
    expected: Counter[str]
    plain: DataFrame

    def answers(self) -> None:
        """The same rows as plain Spark's."""
        assert Counter(map(repr, self.table.collect())) == self.expected

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
        """Where it lies."""
        (partitions,) = self.result.persistent_result_partitions.descriptors.values()
        return partitions

    def manifest(self) -> dict[str, Any]:
        """What its manifest says."""
        directory = Path(self.partitions[0].location).parent
        found: dict[str, Any] = json.loads((directory / "_manifest.json").read_text())
        return found

    def file(self, place: int) -> Path:
        """That of one of its partitions."""
        return Path(self.partitions[place].location)

    def restores(self, lost: int) -> None:
        """The next job produces so many partitions, and takes over all others."""
        before = len(self.partitions)
        self.answers()
        assert self.vertex.outcome is VertexOutcome.PRODUCED
        assert len(self.result.losses) == 1
        assert self.vertex.taken_over == before - lost, self.result
        self.reads()

    def produces_everything(self) -> None:
        """The next job takes nothing over."""
        self.answers()
        assert (self.vertex.outcome, self.vertex.taken_over) == (VertexOutcome.PRODUCED, None)
        self.reads()

    def reads(self) -> None:
        """What is kept is as it should be."""
        self.answers()
        assert self.vertex.outcome is VertexOutcome.READ


Keep = Callable[[Callable[[Any], DataFrame]], Kept]


@pytest.fixture
def keep(spark: SparkSession, env: Environment, sources: Path) -> Keep:
    """Keeps what a function makes of a reader of `facts` and `names`."""

    def kept(make: Callable[[Any], DataFrame]) -> Kept:
        def read(name: str) -> DataFrame:
            return env.read.parquet(str(sources / name))

        table: Any = make(read)
        plain = ClassicDataFrame(table._jdf, spark)
        made = Kept(env, table.cache(), Counter(map(repr, plain.collect())), plain)
        made.table.collect()
        assert all(each.taken_over is None for each in made.result.vertices)
        return made

    return kept


def scanned(read: Any) -> DataFrame:
    """Rows of `facts`, in a task for each file."""
    table: DataFrame = read("facts")
    return table.where("id % 3 < 2").selectExpr("id + 1 AS i", "k", "xs", "d")


def joined(read: Any) -> DataFrame:
    """Both tables, shuffled by `k`."""
    table: DataFrame = read("facts").join(read("names"), "k").drop("d")
    return table


def grouped(read: Any) -> DataFrame:
    table: DataFrame = read("facts").groupBy("k").agg(F.sum("m"), F.avg("d"), F.count("*"))
    return table


def delete(file: Path) -> None:
    file.unlink()


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
@pytest.mark.parametrize("lose", [delete, truncate, overwrite, link_elsewhere])
@pytest.mark.sampled(5)
def test_one_partition_is_lost(
    keep: Keep, make: Callable[[Any], DataFrame], lose: Callable[[Path], None]
) -> None:
    kept = keep(make)
    assert len(kept.partitions) >= 3
    lose(kept.file(1))
    kept.restores(1)


@pytest.mark.parametrize("make", [scanned, joined, grouped])
def test_losses_one_after_the_other(keep: Keep, make: Callable[[Any], DataFrame]) -> None:
    kept = keep(make)
    for _ in range(2):
        for lost in (1, 2):
            for place in range(lost):
                kept.file(place).unlink()
            before = {each.location for each in kept.partitions}
            kept.answers()
            # Those that were produced together are lost together.
            assert kept.vertex.taken_over is not None and kept.vertex.taken_over > 0
            assert before.isdisjoint(each.location for each in kept.partitions)
            kept.reads()


def test_only_the_lost_rows_are_read(spark: SparkSession, keep: Keep) -> None:
    kept = keep(scanned)
    rows = sum(each.rows for each in kept.partitions[1:3])
    for place in (1, 2):
        kept.file(place).unlink()
    kept.restores(2)
    read = tasks_that_keep(spark, str(kept.vertex.dataset_id))
    # A third of what a file has is filtered out.
    assert len(read) == 2 and rows <= sum(read) <= 2 * ROWS // FILES


def tasks_that_keep(spark: SparkSession, dataset_id: str) -> list[int]:
    """For each task of the last Spark job that keeps a dataset, how many rows it has read."""
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(30_000)
    jobs = store.jobsList(None)
    listed = [jobs.apply(place) for place in range(jobs.size())]
    text = f"keeps {dataset_id}"
    ours = [job for job in listed if text in str(job.description())]
    last = max(ours, key=lambda job: job.jobId())
    tasks = store.taskList(last.stageIds().last(), 0, 1000)
    return [
        tasks.apply(place).taskMetrics().get().inputMetrics().recordsRead()
        for place in range(tasks.size())
    ]


@pytest.mark.parametrize("make", [scanned, joined])
def test_all_partitions_are_lost(keep: Keep, make: Callable[[Any], DataFrame]) -> None:
    kept = keep(make)
    shutil.rmtree(kept.file(0).parent)
    kept.produces_everything()


def test_a_partition_is_lost_while_it_is_read(keep: Keep) -> None:
    kept = keep(scanned)
    last = str(kept.file(-1))

    @F.udf("long")
    def passed(number):  # type: ignore[no-untyped-def] # PySpark would take hints for its own.
        Path(last).unlink(missing_ok=True)
        return number

    rows = kept.table.select(passed.asNondeterministic()("i").alias("i")).collect()
    assert Counter(row.i for row in rows) == Counter(
        each + 1 for each in range(ROWS) if each % 3 < 2
    )
    assert len(kept.result.losses) == 1
    assert kept.vertex.taken_over == FILES - 1
    kept.reads()


@pytest.mark.parametrize(
    ("make", "changed"),
    [
        (scanned, {"spark.sql.files.maxPartitionBytes": "50"}),
        (scanned, {"spark.sql.files.openCostInBytes": "1"}),
        (joined, {"spark.sql.shuffle.partitions": "7"}),
        (joined, {"spark.sql.adaptive.enabled": "false"}),
        (joined, {"spark.sql.autoBroadcastJoinThreshold": str(1 << 30)}),
    ],
)
@pytest.mark.sampled(3)
def test_a_setting_changed_that_changes_no_rows(
    keep: Keep,
    settings: Callable[..., Any],
    make: Callable[[Any], DataFrame],
    changed: dict[str, str],
) -> None:
    kept = keep(make)
    kept.file(1).unlink()
    with settings(changed):
        before = len(kept.partitions)
        kept.answers()
        assert kept.vertex.taken_over == before - 1
        kept.reads()


def test_without_adaptive_execution(keep: Keep, settings: Callable[..., Any]) -> None:
    with settings({"spark.sql.adaptive.enabled": "false"}):
        kept = keep(joined)
        assert len(kept.partitions) == 16
        kept.file(2).unlink()
        before = sum(each.rows > 0 for each in kept.partitions)
        kept.answers()
        assert kept.vertex.taken_over == before - 1
        kept.reads()


def test_a_join_that_is_broadcast(keep: Keep, settings: Callable[..., Any]) -> None:
    with settings({"spark.sql.autoBroadcastJoinThreshold": str(1 << 20)}):
        kept = keep(joined)
        assert len(kept.partitions) == FILES
        kept.file(0).unlink()
        kept.restores(1)


def test_partitions_without_rows_are_not_taken_over(keep: Keep) -> None:
    kept = keep(lambda read: read("facts").where("id % 100 BETWEEN 25 AND 65"))
    assert [each.rows > 0 for each in kept.partitions] == [False, False, True, True, True]
    for lost, taken_over in ((-1, 2), (0, 2), (1, 2)):
        kept.file(lost).unlink()
        kept.answers()
        assert kept.vertex.taken_over == taken_over
        kept.reads()


def test_partitions_are_the_new_attempts_own(keep: Keep) -> None:
    kept = keep(scanned)
    kept.file(0).unlink()
    kept.restores(1)
    (directory,) = {Path(each.location).parent for each in kept.partitions}
    assert os.listdir(directory.parent) == [directory.name]
    names = {each["file"] for each in kept.manifest()["partitions"]}
    assert names == {name for name in os.listdir(directory) if name.startswith("part-")}


def test_a_result_of_a_kept_one_that_is_lost_as_well(env: Environment, keep: Keep) -> None:
    kept = keep(lambda read: scanned(read).drop("d").cache().join(read("names"), "k"))
    for partitions in kept.result.persistent_result_partitions.descriptors.values():
        Path(partitions[-1].location).unlink()
    kept.answers()
    produced = [each for each in kept.result.vertices if each.dataset_id is not None]
    assert [each.outcome for each in produced] == [VertexOutcome.PRODUCED] * 2
    assert all(each.taken_over for each in produced), produced
    kept.answers()


def test_a_source_that_has_changed(
    spark: SparkSession, env: Environment, sources: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "facts"
    shutil.copytree(sources / "facts", copy)
    first = env.read.parquet(str(copy)).select("id").cache()
    first.collect()
    result = env.last_job_result
    assert result is not None
    (partitions,) = result.persistent_result_partitions.descriptors.values()
    Path(partitions[1].location).unlink()
    spark.range(1000, 1003).coalesce(1).write.mode("append").parquet(str(copy))
    second = env.read.parquet(str(copy)).select("id").cache()
    assert Counter(second.collect()) == Counter(
        Row(id=each) for each in (*range(ROWS), 1000, 1001, 1002)
    )
    assert env.last_job_result is not None
    assert all(each.taken_over is None for each in env.last_job_result.vertices)


def _numbered(read: Any) -> DataFrame:
    table: DataFrame = read("facts").select("id", F.monotonically_increasing_id().alias("at"))
    return table


def _limited(read: Any) -> DataFrame:
    table: DataFrame = read("facts").limit(60)
    return table


def _ordered(read: Any) -> DataFrame:
    table: DataFrame = read("facts").orderBy("d", "id")
    return table


def _drawn(read: Any) -> DataFrame:
    table: DataFrame = read("facts").select("id", F.rand(3).alias("r"))
    return table


def _first_by_chance(read: Any) -> DataFrame:
    """Which row of a group is the first is up to the shuffle, and by what it is shuffled next."""
    ties = read("facts").selectExpr("*", "row_number() OVER (PARTITION BY id % 5 ORDER BY 1) AS n")
    table: DataFrame = ties.where("n <= 3").select("k", "n").join(read("names"), "k")
    return table


def _numbered_ties(read: Any) -> DataFrame:
    """Partitions are by hash of the key: but which rows tie first is this run's choice."""
    table: DataFrame = read("facts").selectExpr(
        "k", "id", "row_number() OVER (PARTITION BY k ORDER BY m > 50) AS n"
    )
    return table


def _in_said_partitions(read: Any) -> DataFrame:
    table: DataFrame = read("facts").repartition(6, "k").select("id", "k")
    return table


def _summed_by_floats(read: Any) -> DataFrame:
    sums = read("facts").groupBy((F.col("id") % 7).alias("g")).agg(F.sum("d").alias("s"))
    table: DataFrame = sums.selectExpr("cast(s AS bigint) % 40 AS k").join(
        read("names"), "k", "left"
    )
    return table


def _without_its_key(read: Any) -> DataFrame:
    table: DataFrame = read("facts").join(read("names"), "k").select("id", "name")
    return table


@pytest.mark.parametrize(
    "make",
    [
        _numbered,
        _limited,
        _ordered,
        _drawn,
        _first_by_chance,
        _numbered_ties,
        _in_said_partitions,
        _summed_by_floats,
        _without_its_key,
    ],
)
@pytest.mark.sampled(2)
def test_what_another_run_may_distribute_otherwise(
    env: Environment, keep: Keep, make: Callable[[Any], DataFrame]
) -> None:
    kept = keep(make)
    assert kept.manifest()["dataset"]["layout"] is None
    kept.file(0).unlink()
    rows = list(map(repr, kept.table.collect()))
    assert kept.vertex.taken_over is None
    if make is _ordered:
        assert rows == [repr(row) for row in kept.plain.collect()]
    elif make not in (_first_by_chance, _numbered_ties):
        assert Counter(rows) == kept.expected


def test_rows_that_were_lost_must_come_again(keep: Keep) -> None:
    kept = keep(joined)
    kept.file(1).unlink()
    (result,) = kept.env._manager.results.find().values()
    description = result.kept.manifest.dataset
    assert description.layout is not None
    by = description.layout.by.model_copy(update={"slots": 15})
    # It is said that these rows had another hash.
    description.__dict__["layout"] = description.layout.model_copy(update={"by": by})
    kept.produces_everything()


def test_a_partition_that_another_program_has_kept(
    spark: SparkSession, env: Environment, keep: Keep, sources: Path
) -> None:
    kept = keep(joined)
    directory = kept.file(0).parents[3]
    with Environment(
        spark, config={"intermediate-result-storage.directory": str(directory)}
    ) as other:
        table: Any = joined(lambda name: other.read.parquet(str(sources / name)))
        again = Kept(other, table.cache(), kept.expected, kept.plain)
        again.reads()
        assert again.file(0) != kept.file(0)
        again.file(1).unlink()
        again.restores(1)
    kept.reads()


def test_it_is_said(keep: Keep) -> None:
    kept = keep(scanned)
    kept.file(1).unlink()
    kept.answers()
    assert f"{FILES - 1} partitions were taken over, 1 recomputed" in repr(kept.result)

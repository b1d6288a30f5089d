"""What a start's shuffles have written is read by the next start, and by no other job."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from holdfast.api import recovery
from holdfast.graph.plan_cuts import CutLimits
from holdfast.spark.recovery.retained_shuffles import RetainedShuffles
from tests.spark.starts import Query, Starts, recovered_tasks

# What is imported here counts in the digests of functions below.
SETTINGS = {
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.files.openCostInBytes": "134217728",
}


@pytest.fixture
def starts(spark: SparkSession, tmp_path: Path) -> Iterator[Starts]:
    with Starts(spark, tmp_path, {}) as found:
        yield found


@pytest.fixture(autouse=True)
def _joins_that_shuffle(settings: Any) -> Iterator[None]:
    with settings(SETTINGS):
        yield


@pytest.fixture(scope="module")
def orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven files, one of which has most of the rows."""
    path = tmp_path_factory.mktemp("orders")
    for number, rows in enumerate((5, 2000, 30, 0, 7, 1, 11)):
        spark.range(0, rows, 1, 1).selectExpr(
            f"id + {1000 * number} AS id",
            "if(id % 3 = 0, 0, id % 11) AS k",
            "double(id % 7) AS x",
            "if(id % 5 = 0, NULL, string(id)) AS s",
        ).write.parquet(str(path / f"n={number}"))
    return path


def grouped(read: DataFrame) -> DataFrame:
    return read.groupBy("k").agg(F.count("*").alias("c"), F.sum("x").alias("x"), F.max("s"))


def joined(read: DataFrame) -> DataFrame:
    return read.join(grouped(read), "k").groupBy("c").agg(F.sum("id"), F.countDistinct("s"))


def windowed(read: DataFrame) -> DataFrame:
    return read.selectExpr("k", "sum(id) OVER (PARTITION BY k) AS t").distinct()


def unioned(read: DataFrame) -> DataFrame:
    return read.select("k").union(read.select("n")).groupBy("k").count()


def nested(read: DataFrame) -> DataFrame:
    most = grouped(read).groupBy("c").agg(F.max("k").alias("k"))
    return read.join(most, "k", "left_anti").repartition(5, "n").groupBy("n").count()


def round_robin(read: DataFrame) -> DataFrame:
    return read.repartition(3).groupBy("k").agg(F.sum("id"))


def with_a_subquery(read: DataFrame) -> DataFrame:
    mean = read.agg(F.avg("x").alias("mean"))
    return read.where(F.col("x") > mean.scalar()).groupBy("k").count()


def with_a_function(read: DataFrame) -> DataFrame:
    longer = F.udf(lambda k: k + 1, LongType())
    return read.select(longer("k").alias("k")).groupBy("k").count()


def broadcast(read: DataFrame) -> DataFrame:
    few = read.groupBy("k").agg(F.max("s").alias("s"), F.sum("x").alias("x")).where("k > 2")
    return (
        read.drop("s", "x")
        .join(F.broadcast(few), "k")
        .join(F.broadcast(read.where("n = 4").select("id")), "id", "left_anti")
    )


QUERIES = (
    broadcast,
    joined,
    windowed,
    unioned,
    nested,
    round_robin,
    with_a_subquery,
    with_a_function,
    grouped,
)
VARIANTS = {
    "adaptive": {},
    "not adaptive": {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "9"},
    "skewed": {
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.sql.adaptive.forceOptimizeSkewedJoin": "true",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "1k",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "500",
    },
    "broadcasting": {"spark.sql.autoBroadcastJoinThreshold": "10m"},
}


def over(orders: Path, query: Callable[[DataFrame], DataFrame]) -> Query:
    return lambda session: query(session.read.parquet(str(orders)))


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.__name__)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.sampled(11)
def test_only_what_is_missing_runs(
    spark: SparkSession,
    starts: Starts,
    orders: Path,
    settings: Any,
    query: Callable[[DataFrame], DataFrame],
    variant: str,
) -> None:
    asked = over(orders, query)
    with settings(VARIANTS[variant]):
        expected, before = starts.plain_rows(asked), dict(spark.conf.getAll)
        # Vertices alone keep rows that are shuffled round-robin, and without adaptive execution.
        by_vertices = query is round_robin or variant == "not adaptive"
        assert starts.leave(asked) >= 7 or by_vertices
        starts.lose(0.6, query.__name__)
        starts.leave(asked)
        left = starts.lose(0.3, query.__name__)
        rows, result = starts.run(asked)
        assert rows == expected
        # Vertices that the job was cut into are recovered as such.
        assert recovered_tasks(result) == left or len(result.vertices) - 1 > 0
        assert dict(spark.conf.getAll) == before
    assert starts.outputs() == []


KILLED_IN = (broadcast, nested, with_a_subquery, with_a_function)
KILLED = """
import json, os, signal, sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.spark.starts import Starts
from tests.spark.test_retained_shuffles import KILLED_IN, over

settings = json.loads(sys.argv[1])
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
starts = Starts(spark, Path(sys.argv[2]), {})
left = []
for query in KILLED_IN:
    before = sum(left)
    left.append(starts.leave(over(Path(sys.argv[3]), query)) - before)
print(json.dumps(left), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_another_driver_reads_what_a_killed_one_has_left(
    spark: SparkSession, starts: Starts, orders: Path
) -> None:
    keys = ("spark.sql.", "spark.driver.bindAddress", "spark.driver.host", "spark.ui.")
    given = {k: v for k, v in spark.sparkContext.getConf().getAll() if k.startswith(keys)}
    given |= SETTINGS | {"spark.local.dir": str(starts.home / "local")}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, json.dumps(given), str(starts.home), str(orders)],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=Path(__file__).parents[2],
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    for query, left in zip(KILLED_IN, json.loads(killed.stdout.splitlines()[-1]), strict=True):
        asked = over(orders, query)
        rows, result = starts.run(asked)
        assert rows == starts.plain_rows(asked), query.__name__
        assert recovered_tasks(result) == left or len(result.vertices) > 1, query.__name__


def test_jobs_beside_each_other_do_not_mix(starts: Starts, orders: Path) -> None:
    asked = [over(orders, each) for each in (grouped, with_a_function, grouped)]
    asked[2] = over(orders, lambda read: grouped(read.where("x > 1")))
    left = [starts.leave(each) for each in asked]
    for each, expected in zip(asked, (left[0], left[1] - left[0], left[2] - left[1]), strict=True):
        rows, result = starts.run(each)
        assert (rows, recovered_tasks(result)) == (starts.plain_rows(each), expected)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.shuffle.partitions", "3"),
        ("spark.sql.files.openCostInBytes", "0"),
        ("spark.sql.adaptive.enabled", "false"),
        ("spark.sql.ansi.enabled", "false"),
    ],
)
@pytest.mark.sampled(2)
def test_settings_that_change_between_starts(
    starts: Starts, orders: Path, settings: Any, key: str, value: str
) -> None:
    asked = over(orders, joined)
    starts.leave(asked)
    starts.lose(0.5, key)
    with settings({key: value}):
        assert starts.run(asked)[0] == starts.plain_rows(asked)


# -- programs that change between starts -----------------------------------------------------------


@pytest.fixture
def no_vertices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shuffles alone are kept, as where vertices cost too much beside them."""
    limits = CutLimits(least_saved=0, least_retained=0, most_cuts=0, keeps_shuffles=True)
    monkeypatch.setattr(recovery, "_limits", lambda _, **__: limits)


class Tie:
    """Comes out in another way in each start, as a limit may."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __holdfast_digest__(self) -> str:
        return "a tie"


@pytest.mark.usefixtures("no_vertices")
@pytest.mark.parametrize("way", ["by a subquery", "by a broadcast"])
def test_what_all_tasks_are_given_counts_by_its_content(
    starts: Starts, orders: Path, way: str
) -> None:
    def asked(value: int) -> Query:
        tie = Tie(value)

        def query(read: DataFrame) -> DataFrame:
            chosen = F.udf(lambda _: tie.value, LongType())
            one = read.where("id = 1").select(chosen("id").alias("v"))
            if way == "by a broadcast":
                every = read.join(F.broadcast(one), read.k > F.col("v") - 100)
            else:
                every = read.select("k", one.scalar().alias("v"))
            return every.groupBy("k").agg(F.count("*"), F.min("v"), F.max("v"))

        return over(orders, query)

    assert starts.leave(asked(1)) >= 7
    for each in starts.home.glob("store/**/*.rows"):
        each.unlink()
    starts.lose(0.5, way)
    rows, result = starts.run(asked(2))
    assert rows == starts.plain_rows(asked(2))
    assert recovered_tasks(result) == 0


def by_literals(session: Any, path: str) -> tuple[DataFrame, DataFrame]:
    named = session.read.parquet(path).withColumn("s", F.expr("concat('no #', id % 3)"))
    return named.where("s <> 'no #1'"), named.where("s <> 'no #2'")


def by_functions(session: Any, path: str) -> tuple[DataFrame, DataFrame]:
    read = session.read.parquet(path)
    even = F.udf(lambda number: number if number % 2 == 0 else -1, LongType())
    by_three = F.udf(lambda number: number if number % 3 == 0 else -1, LongType())
    return read.select(even("id").alias("id")), read.select(by_three("id").alias("id"))


def by_options(session: Any, path: str) -> tuple[DataFrame, DataFrame]:
    reader = session.read.schema("id LONG")
    one, other = (reader.option("comment", sign).csv(f"{path}-text").select("id") for sign in "12")
    return one, other


@pytest.mark.usefixtures("no_vertices")
@pytest.mark.parametrize("way", [by_literals, by_functions, by_options])
def test_parts_of_a_query_that_change_places(
    spark: SparkSession,
    starts: Starts,
    orders: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[[Any, str], tuple[DataFrame, DataFrame]],
) -> None:
    # What computes the same has one scope.
    keep = RetainedShuffles.query
    monkeypatch.setattr(RetainedShuffles, "query", lambda self, _, *of: keep(self, "scope", *of))
    if way is by_options:
        text = spark.read.parquet(str(orders)).select("id", "n")
        text.write.mode("overwrite").partitionBy("n").csv(f"{orders}-text")

    spark.read.parquet(str(orders)).createOrReplaceTempView("read_orders")
    for name, part in zip(("one", "other"), way(spark, str(orders)), strict=True):
        part.createOrReplaceTempView(f"read_{name}")

    def asked(*names: str) -> Query:
        # The order of conditions is free, and a program may take them from a set.
        conditions = " AND ".join(f"id IN (SELECT id FROM read_{name})" for name in names)
        text = f"SELECT k, count(*), sum(id) FROM read_orders WHERE {conditions} GROUP BY k"
        return lambda session: session.sql(text)

    starts.config["pipeline.name"] = "nightly"
    assert starts.leave(asked("one", "other")) >= 14
    starts.lose(0.6, way.__name__)
    rows, _ = starts.run(asked("other", "one"))
    assert rows == starts.plain_rows(asked("one", "other"))


# -- what is kept, and what is not -----------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        lambda read: read.orderBy("id"),
        lambda read: read.repartitionByRange(3, "id").groupBy("k").count(),
        lambda read: read.sparkSession.range(100).groupBy((F.col("id") % 3).alias("k")).count(),
    ],
    ids=["in order", "by ranges", "without files"],
)
def test_rows_by_range_and_without_files_are_not_kept(
    starts: Starts, orders: Path, query: Callable[[DataFrame], DataFrame]
) -> None:
    assert starts.leave(over(orders, query)) == 0


def test_what_is_shuffled_by_chance_is_not_kept(
    starts: Starts, orders: Path, settings: Any
) -> None:
    asked = over(orders, lambda read: read.repartition(5, "k").repartition(3).groupBy("n").count())
    with settings({"spark.sql.execution.sortBeforeRepartition": "false"}):
        # A task that runs a second time would distribute them in another way.
        starts.leave(asked)
        assert len({each.parent for each in starts.outputs()}) == 1


def test_tasks_that_collect_what_is_broadcast_are_not_run_again(
    starts: Starts, orders: Path, tally: Any
) -> None:
    counting = F.udf(tally.counting(lambda value: value), LongType())

    def asked(read: DataFrame) -> DataFrame:
        few = read.where("n > 1").select(counting("id").alias("id"))
        return read.join(F.broadcast(few), "id").groupBy("k").count()

    starts.leave(over(orders, asked))
    rows_of_few = tally.count()
    assert rows_of_few >= 49
    starts.leave(over(orders, asked))
    assert tally.count() == rows_of_few
    next(path for path in starts.outputs() if path.name == "2.rows").unlink()
    rows, _ = starts.run(over(orders, asked))
    assert rows_of_few < tally.count() < 2 * rows_of_few
    assert rows == starts.plain_rows(over(orders, asked))


# -- what is damaged -------------------------------------------------------------------------------

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "other bytes": lambda content: bytes(255 - byte for byte in content),
    "cut short": lambda content: content[:-1],
    "empty": lambda content: b"",
    "zeros": lambda content: bytes(len(content)),
    "another beginning": lambda content: content[8:],
}


@pytest.mark.parametrize("suffix", [".rows", ".data", ".index"])
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.sampled(5)
def test_what_is_damaged_is_made_again(
    starts: Starts, orders: Path, suffix: str, damage: str
) -> None:
    asked = over(orders, broadcast)
    starts.leave(asked)
    damaged = list(starts.home.glob(f"store/**/shuffles/*/*{suffix}"))
    assert damaged
    for each in damaged:
        content = each.read_bytes()
        # Spark's own file is the same one.
        each.unlink()
        each.write_bytes(DAMAGES[damage](content))
    assert starts.run(asked)[0] == starts.plain_rows(asked)


@pytest.mark.parametrize("way", ["no data", "directories", "all gone"])
def test_what_is_no_output_is_no_loss(starts: Starts, orders: Path, way: str) -> None:
    asked = over(orders, grouped)
    left = starts.leave(asked)
    shuffles = {each.parent for each in starts.outputs()}
    for shuffle in shuffles:
        if way == "no data":
            for each in shuffle.glob("*.data"):
                each.unlink()
        elif way == "directories":
            (shuffle / "0-1-2-3.index").mkdir()
            (shuffle / "a-1-b-3.index").write_bytes(bytes(8 * 5))
            (shuffle / "notes.txt").touch()
        else:
            shutil.rmtree(shuffle)
    rows, result = starts.run(asked)
    assert rows == starts.plain_rows(asked)
    assert (recovered_tasks(result) == left) == (way == "directories")


def test_an_output_that_is_lost_late_is_made_again(
    spark: SparkSession, starts: Starts, orders: Path, settings: Any
) -> None:
    with settings({"spark.sql.adaptive.coalescePartitions.enabled": "false"}):
        asked = over(orders, lambda read: read.groupBy("id").count())
        starts.leave(asked)
        for index in starts.outputs():
            last = int.from_bytes(index.read_bytes()[-16:-8], "big")
            data = index.with_suffix(".data")
            if data.exists():
                content = data.read_bytes()
                data.unlink()
                # Other tasks have given their rows by the time this is found out.
                data.write_bytes(content[:last] + bytes(255 - byte for byte in content[last:]))
        rows, result = starts.run(asked)
        assert rows == starts.plain_rows(asked)
        assert recovered_tasks(result) > 0
    # Else its heartbeats fail, and Spark ends when sixty have.
    end = time.monotonic() + 30
    while not spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size():
        assert time.monotonic() < end, "Spark has no executor any more"
        time.sleep(0.05)

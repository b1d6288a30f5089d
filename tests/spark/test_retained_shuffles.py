"""What shuffles have written is read by a later start's, as far as it is there, and by no other."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from holdfast.spark.java_classes import object_of
from holdfast.spark.plan_reader import PlanReader
from holdfast.spark.recovery.retained_shuffles import RetainedShuffles, is_retainable
from holdfast.spark.session_settings import session_inputs

Settings = Callable[[Mapping[str, str]], AbstractContextManager[None]]
SCOPE = "what is computed"


@dataclass
class Starts:
    """Starts of one job, one after the other, over what the ones before have left."""

    spark: SparkSession
    directory: Path

    def run(self, query: DataFrame, scope: str = SCOPE) -> tuple[Counter[str], int]:
        """The query's rows, and how many of its tasks weren't run."""
        shuffles = RetainedShuffles(self.spark, self.directory)
        try:
            read = PlanReader.of(self.spark).read(query._jdf.queryExecution().analyzed())
            retained = shuffles.query(scope, operators=read.operators)
            rows = Counter(
                map(repr, shuffles.over(query, retained, session_inputs(self.spark)).collect())
            )
            self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
            return rows, retained.recovered()
        finally:
            shuffles.close()

    def outputs(self) -> list[Path]:
        """The indices of what map tasks have left, and the rows of those that collect."""
        return sorted([*self.directory.glob("*/*.index"), *self.directory.glob("*/*.rows")])

    def lose(self, share: float, chance: random.Random) -> int:
        """Loses some outputs, and says how many are left."""
        lost = [each for each in self.outputs() if chance.random() < share]
        for each in lost:
            # Data without an index is what a driver leaves that is killed between the two.
            each.unlink()
        return len(self.outputs())


@pytest.fixture
def starts(spark: SparkSession, tmp_path: Path) -> Starts:
    directory = tmp_path / "shuffles"
    directory.mkdir()
    return Starts(spark, directory)


@pytest.fixture(scope="module")
def orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven files, one of which has most of the rows."""
    path = tmp_path_factory.mktemp("orders")
    for number, rows in enumerate((5, 2000, 30, 0, 7, 1, 11)):
        spark.range(0, rows, 1, 1).select(
            (F.col("id") + 1000 * number).alias("id"),
            F.when(F.col("id") % 3 == 0, F.lit(0)).otherwise(F.col("id") % 11).alias("k"),
            (F.col("id") % 7).cast("double").alias("x"),
            F.when(F.col("id") % 5 == 0, None).otherwise(F.col("id").cast("string")).alias("s"),
        ).write.parquet(str(path / f"n={number}"))
    return path


@pytest.fixture(scope="module")
def setting(request: pytest.FixtureRequest) -> Settings:
    """Sets something inside of a block."""
    found: Settings = request.getfixturevalue("settings")
    return found


@pytest.fixture(autouse=True)
def joins_that_shuffle(setting: Settings) -> Iterator[None]:
    values = {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.files.openCostInBytes": "134217728",
    }
    with setting(values):
        yield


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


def dealt_in_turn(read: DataFrame) -> DataFrame:
    return read.repartition(3).groupBy("k").agg(F.sum("id"))


def with_a_subquery(read: DataFrame) -> DataFrame:
    read.createOrReplaceTempView("read_orders")
    return read.sparkSession.sql(
        "SELECT k, count(*) FROM read_orders WHERE x > (SELECT avg(x) FROM read_orders) GROUP BY k"
    )


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


QUERIES = [
    grouped,
    joined,
    windowed,
    unioned,
    nested,
    dealt_in_turn,
    with_a_subquery,
    with_a_function,
    broadcast,
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.__name__)
@pytest.mark.sampled(2)
def test_only_what_is_missing_runs(
    spark: SparkSession, starts: Starts, orders: Path, query: Callable[[DataFrame], DataFrame]
) -> None:
    expected = Counter(map(repr, query(spark.read.parquet(str(orders))).collect()))
    assert starts.run(query(spark.read.parquet(str(orders)))) == (expected, 0)
    all_of_them = len(starts.outputs())
    assert all_of_them >= 7
    assert starts.run(query(spark.read.parquet(str(orders)))) == (expected, all_of_them)
    chance = random.Random(query.__name__)
    for share in (0.6, 1):
        left = starts.lose(share, chance)
        rows, recovered = starts.run(query(spark.read.parquet(str(orders))))
        assert rows == expected
        assert recovered == left
        assert len(starts.outputs()) >= all_of_them


@settings(max_examples=12)
@given(st.data())
def test_whatever_is_lost_the_rows_are_the_same(
    spark: SparkSession, orders: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    query = data.draw(st.sampled_from(QUERIES))
    settings = {
        "spark.sql.adaptive.enabled": data.draw(st.sampled_from(["true", "true", "false"])),
        "spark.sql.adaptive.coalescePartitions.enabled": data.draw(
            st.sampled_from(["true", "false"])
        ),
        "spark.sql.adaptive.forceOptimizeSkewedJoin": "true",
        "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": data.draw(
            st.sampled_from(["1k", "256m"])
        ),
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": data.draw(
            st.sampled_from(["500", "64m"])
        ),
        "spark.sql.autoBroadcastJoinThreshold": data.draw(st.sampled_from(["-1", "10m"])),
        "spark.sql.shuffle.partitions": str(data.draw(st.sampled_from([1, 4, 9]))),
    }
    directory = tmp_path_factory.mktemp("shuffles")
    starts = Starts(spark, directory)
    before = {key: spark.conf.get(key, None) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        expected = Counter(map(repr, query(spark.read.parquet(str(orders))).collect()))
        chance = random.Random(data.draw(st.integers(0, 1 << 20)))
        for _ in range(3):
            rows, _ = starts.run(query(spark.read.parquet(str(orders))))
            assert rows == expected
            starts.lose(data.draw(st.floats(0, 1)), chance)
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)
        shutil.rmtree(directory)


IN_ANOTHER_PROCESS = """
import json, sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.spark.test_retained_shuffles import QUERIES, Starts

settings = json.loads(sys.argv[1])
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
starts = Starts(spark, Path(sys.argv[2]))
told = []
for query in QUERIES:
    rows, recovered = starts.run(query(spark.read.parquet(sys.argv[3])), query.__name__)
    told.append([sorted(rows.elements()), recovered])
print(json.dumps(told))
spark.stop()
"""


def test_another_driver_goes_on_with_them(
    spark: SparkSession, starts: Starts, orders: Path
) -> None:
    expected = []
    for query in QUERIES:
        before = len(starts.outputs())
        rows, _ = starts.run(query(spark.read.parquet(str(orders))), query.__name__)
        expected.append([sorted(rows.elements()), len(starts.outputs()) - before])
    local = str(Path(spark.conf.get("spark.local.dir") or "").with_name("another-local"))
    settings = {
        key: str(spark.conf.get(key))
        for key in (
            "spark.driver.bindAddress",
            "spark.driver.host",
            "spark.sql.autoBroadcastJoinThreshold",
            "spark.sql.files.openCostInBytes",
            "spark.sql.shuffle.partitions",
            "spark.ui.enabled",
        )
    } | {"spark.local.dir": local}
    ended = subprocess.run(
        [
            *(sys.executable, "-c", IN_ANOTHER_PROCESS),
            *(json.dumps(settings), str(starts.directory), str(orders)),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=Path(__file__).parents[2],
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == expected


def test_another_query_reads_nothing_of_it(
    spark: SparkSession, starts: Starts, orders: Path, setting: Settings
) -> None:
    read = spark.read.parquet(str(orders))
    starts.run(grouped(read))
    assert starts.run(grouped(read), "another scope")[1] == 0
    with setting({"spark.sql.shuffle.partitions": "3"}):
        assert starts.run(grouped(read))[1] == 0
    with setting({"spark.sql.files.openCostInBytes": "0"}):
        # Fewer map tasks, each with several files.
        assert starts.run(grouped(read))[1] == 0
    assert starts.run(grouped(read.where("x > 1")))[1] == 0
    assert starts.run(grouped(read))[1] > 0


def test_functions_of_the_same_name_are_told_apart(
    spark: SparkSession, starts: Starts, orders: Path
) -> None:
    read = spark.read.parquet(str(orders))
    once, twice = (
        read.select("n", F.udf(function, LongType())("k").alias("v"))
        for function in (lambda k: k + 1, lambda k: k * 100)
    )
    query = once.groupBy("v").count().union(twice.groupBy("v").count())
    expected = Counter(map(repr, query.collect()))
    assert starts.run(query) == (expected, 0)
    for _ in range(2):
        rows, recovered = starts.run(query)
        assert rows == expected
        assert recovered > 0
        # Of either's map tasks some are left.
        starts.lose(0.5, random.Random(1))


@pytest.mark.parametrize("way", ["by a subquery", "by a broadcast", "in a cache"])
def test_what_all_tasks_are_given_counts_by_its_content(
    spark: SparkSession, starts: Starts, orders: Path, tmp_path: Path, way: str
) -> None:
    read = spark.read.parquet(str(orders))
    read.createOrReplaceTempView("read_orders")
    for value in (1, 2):
        # As a limit, or a tie, may come out in another way in each start.
        path = str(tmp_path / f"given-{value}")
        spark.range(value, value + 1).write.parquet(path)
        spark.read.parquet(path).createOrReplaceTempView("given")
        if way == "by a broadcast":
            one = F.broadcast(spark.table("given").agg(F.max("id").alias("v")))
            every = read.crossJoin(one)
        else:
            every = spark.sql("SELECT k, (SELECT max(id) FROM given) AS v FROM read_orders")
        if way == "in a cache":
            every.cache()
        query = every.groupBy("k").agg(F.count("*"), F.min("v"), F.max("v"))
        rows, recovered = starts.run(query)
        assert rows == Counter(map(repr, query.collect()))
        assert recovered == 0
        assert starts.run(query)[1] > 0
        starts.lose(0.5, random.Random(way))
        every.unpersist()


def by_literals(spark: SparkSession, path: str) -> tuple[DataFrame, DataFrame]:
    named = spark.read.parquet(path).withColumn("s", F.expr("concat('no #', id % 3)"))
    return named.where("s <> 'no #1'"), named.where("s <> 'no #2'")


def by_functions(spark: SparkSession, path: str) -> tuple[DataFrame, DataFrame]:
    read = spark.read.parquet(path)
    even = F.udf(lambda number: number if number % 2 == 0 else -1, LongType())
    by_three = F.udf(lambda number: number if number % 3 == 0 else -1, LongType())
    return read.select(even("id").alias("id")), read.select(by_three("id").alias("id"))


def by_options(spark: SparkSession, path: str) -> tuple[DataFrame, DataFrame]:
    text = f"{path}-as-text"
    read = spark.read.parquet(path).select("id", "n")
    read.write.mode("overwrite").partitionBy("n").csv(text)
    reader = spark.read.schema("id LONG")
    one, other = (reader.option("comment", sign).csv(text).select("id") for sign in "12")
    return one, other


@pytest.mark.parametrize("way", [by_literals, by_functions, by_options])
def test_parts_of_a_query_that_change_places_are_told_apart(
    spark: SparkSession,
    starts: Starts,
    orders: Path,
    way: Callable[[SparkSession, str], tuple[DataFrame, DataFrame]],
) -> None:
    spark.read.parquet(str(orders)).createOrReplaceTempView("read_orders")
    for name, part in zip(("one", "other"), way(spark, str(orders)), strict=True):
        part.createOrReplaceTempView(f"read_{name}")

    def query(first: str, second: str) -> DataFrame:
        # The order of conditions is nobody's concern, and a program may take them from a set.
        return spark.sql(
            "SELECT k, count(*), sum(id) FROM read_orders "
            f"WHERE id IN (SELECT id FROM read_{first}) AND id IN (SELECT id FROM read_{second}) "
            "GROUP BY k"
        )

    expected = Counter(map(repr, query("one", "other").collect()))
    chance = random.Random(way.__name__)
    for _ in range(2):
        for names in (("one", "other"), ("other", "one")):
            rows, _ = starts.run(query(*names))
            assert rows == expected
            starts.lose(0.6, chance)


def test_rows_by_chance_and_by_range_are_not_kept(
    spark: SparkSession, starts: Starts, orders: Path, setting: Settings
) -> None:
    read = spark.read.parquet(str(orders))
    starts.run(read.orderBy("id"))
    starts.run(read.repartitionByRange(3, "id").groupBy("k").count())
    starts.run(spark.range(100).groupBy((F.col("id") % 3).alias("k")).count())
    assert starts.outputs() == []
    shuffled = read.repartition(5, "k").repartition(3).groupBy("n").count()
    with setting({"spark.sql.execution.sortBeforeRepartition": "false"}):
        # Who runs a second time deals them out in another way.
        starts.run(shuffled)
    assert len({each.parent for each in starts.outputs()}) == 1
    starts.run(shuffled)
    assert len({each.parent for each in starts.outputs()}) == 3


def test_what_is_broadcast_is_collected_once(
    spark: SparkSession, starts: Starts, orders: Path
) -> None:
    read = spark.read.parquet(str(orders)).hint("broadcast")
    expected = Counter(map(repr, grouped(read).join(read, "k").collect()))
    for lost in ("nothing", "some", "all"):
        query = grouped(spark.read.parquet(str(orders))).join(read, "k")
        before = starts.outputs()
        if lost != "nothing":
            for each in before[:: 2 if lost == "some" else 1]:
                each.unlink()
        left = len(starts.outputs())
        assert starts.run(query) == (expected, left)
        kept = sorted(each.name for each in starts.outputs() if each.suffix == ".rows")
        assert kept == [f"{number}.rows" for number in range(7)]
    rows, recovered = starts.run(query)
    assert (rows, recovered) == (expected, len(starts.outputs()))


def test_tasks_that_collect_are_not_run_again(
    spark: SparkSession, starts: Starts, orders: Path
) -> None:
    read = spark.read.parquet(str(orders))
    seen = spark.sparkContext.accumulator(0)

    def counted(value: int) -> int:
        seen.add(1)
        return value

    few = read.where("n > 1").select(F.udf(counted, LongType())("id").alias("id"))
    query = read.join(F.broadcast(few), "id")
    expected, _ = starts.run(query)
    rows_of_few = seen.value
    assert rows_of_few >= read.where("n > 1").count() > 0
    assert starts.run(query)[0] == expected
    assert seen.value == rows_of_few
    [lost] = starts.directory.glob("*/2.rows")
    lost.unlink()
    assert starts.run(query)[0] == expected
    assert rows_of_few < seen.value < 2 * rows_of_few


@pytest.mark.parametrize("way", ["cut short", "other bytes", "empty", "zeros", "a directory"])
@pytest.mark.sampled(3)
def test_collected_rows_that_are_damaged_are_collected_again(
    spark: SparkSession, starts: Starts, orders: Path, way: str
) -> None:
    query = broadcast(spark.read.parquet(str(orders)))
    expected, _ = starts.run(query)
    damaged = [each for each in starts.outputs() if each.suffix == ".rows"]
    assert len(damaged) == 2
    whole = len(starts.outputs()) - 2
    for each in damaged:
        content = each.read_bytes()
        each.unlink()
        if way == "a directory":
            each.mkdir()
        else:
            each.write_bytes(
                {
                    "cut short": content[:-1],
                    "other bytes": bytes(255 - byte for byte in content),
                    "empty": b"",
                    "zeros": bytes(len(content)),
                }[way]
            )
    assert starts.run(query) == (expected, whole)


def test_no_rows_are_no_rows(spark: SparkSession, starts: Starts, orders: Path) -> None:
    nothing = spark.read.parquet(str(orders)).where("id < 0 AND s = 'x'").groupBy("k").count()
    assert starts.run(nothing) == (Counter(), 0)
    rows, recovered = starts.run(nothing)
    assert (rows, recovered) == (Counter(), len(starts.outputs()))
    total = spark.read.parquet(str(orders)).where("id < 0").agg(F.count("*"))
    for _ in range(2):
        rows, _ = starts.run(total, "total")
        assert rows == Counter(["Row(count(1)=0)"])


@pytest.mark.parametrize(
    "way", ["cut short", "other bytes", "no data", "another index", "empty", "zeros"]
)
def test_what_is_damaged_is_made_again(
    spark: SparkSession, starts: Starts, orders: Path, way: str
) -> None:
    query = joined(spark.read.parquet(str(orders)))
    expected, _ = starts.run(query)
    for index in starts.outputs():
        data = index.with_suffix(".data")
        if not data.exists():
            continue
        content = data.read_bytes()
        # Spark's own file is the same one.
        data.unlink()
        if way == "cut short":
            data.write_bytes(content[:-1])
        elif way == "other bytes":
            data.write_bytes(bytes(255 - byte for byte in content))
        elif way == "another index":
            data.write_bytes(content)
            offsets = index.read_bytes()
            index.unlink()
            index.write_bytes(offsets[8:])
        elif way == "empty":
            data.write_bytes(content)
            index.unlink()
            index.touch()
        elif way == "zeros":
            data.touch()
            offsets = index.read_bytes()
            index.unlink()
            index.write_bytes(bytes(len(offsets)))
    rows, _ = starts.run(query)
    assert rows == expected


def test_data_that_was_left_without_its_index_gives_way(
    spark: SparkSession, tmp_path: Path, orders: Path
) -> None:
    query = grouped(spark.read.parquet(str(orders)))
    outputs: list[list[Path]] = []
    for name in ("one", "two"):
        before = Starts(spark, tmp_path / name)
        before.directory.mkdir()
        expected, _ = before.run(query)
        outputs.append(before.outputs())
    starts = Starts(spark, tmp_path / "three")
    left = set()
    for one, two in zip(*outputs, strict=True):
        place, number, *counts = two.name.split("-")
        later = 2 * int(number) - int(one.name.split("-")[1])
        left.add(starts.directory / two.parent.name / "-".join([place, str(later), *counts]))
    for index in left:
        index.parent.mkdir(parents=True, exist_ok=True)
        index.with_suffix(".data").write_bytes(b"half")
    assert starts.run(query) == (expected, 0)
    # Else what the tasks would be called was not foreseen.
    assert set(starts.outputs()) == left
    assert starts.run(query) == (expected, len(left))


def test_an_output_that_is_lost_late_is_made_again(
    spark: SparkSession, starts: Starts, orders: Path, setting: Settings
) -> None:
    with setting({"spark.sql.adaptive.coalescePartitions.enabled": "false"}):
        query = spark.read.parquet(str(orders)).groupBy("id").count()
        expected, _ = starts.run(query)
        for index in starts.outputs():
            offsets = index.read_bytes()
            last = int.from_bytes(offsets[-16:-8], "big")
            data = index.with_suffix(".data")
            content = data.read_bytes() if data.exists() else b""
            data.unlink(missing_ok=True)
            # Other tasks have given their rows by the time this is found out.
            data.write_bytes(content[:last] + bytes(255 - byte for byte in content[last:]))
        rows, recovered = starts.run(query)
    assert rows == expected
    assert recovered > 0
    # Else its heartbeats fail, and Spark ends when sixty have.
    end = time.monotonic() + 30
    while not spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size():
        assert time.monotonic() < end, "Spark has no executor any more"
        time.sleep(0.05)


def test_what_is_no_output_is_passed_over(
    spark: SparkSession, starts: Starts, orders: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = joined(spark.read.parquet(str(orders)))
    expected, _ = starts.run(query)
    all_of_them = len(starts.outputs())
    for shuffle in starts.directory.iterdir():
        (shuffle / "0-1-2-3.index").mkdir()
        (shuffle / "a-1-b-3.index").write_bytes(bytes(8 * 5))
        (shuffle / "notes.txt").touch()
    assert starts.run(query) == (expected, all_of_them)
    assert not caplog.text


def test_what_lies_on_another_file_system_is_not_read(
    spark: SparkSession,
    starts: Starts,
    orders: Path,
    elsewhere: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    query = joined(spark.read.parquet(str(orders)))
    expected, _ = starts.run(query)
    shutil.copytree(starts.directory, elsewhere)
    kept = starts.outputs()
    starts.directory = elsewhere
    assert starts.run(query) == (expected, 0)
    assert "must be on the same file system as spark.local.dir" in caplog.text
    assert len(starts.outputs()) == len(kept)


def test_whether_files_can_be_kept_is_known_before_they_are_written(
    spark: SparkSession, starts: Starts, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shuffles = RetainedShuffles(spark, starts.directory)
    assert shuffles.keeps_all
    shuffles.close()
    assert not caplog.text
    elsewhere.mkdir()
    for directory in (elsewhere, starts.directory / "missing"):
        shuffles = RetainedShuffles(spark, directory)
        assert not shuffles.keeps_all
        shuffles.close()
        assert f"could not be retained in {directory}" in caplog.text
    # What was tried out is gone, here as among Spark's own files.
    assert [*starts.directory.iterdir(), *elsewhere.iterdir()] == []
    own = [*Path(str(spark.conf.get("spark.local.dir"))).glob("blockmgr-*")]
    assert own
    assert [left for each in own for left in each.glob("holdfast-*")] == []


def test_a_write_and_a_count_have_their_shuffles_kept(
    spark: SparkSession, starts: Starts, orders: Path, tmp_path: Path
) -> None:
    query = grouped(spark.read.parquet(str(orders)))
    expected = Counter(map(repr, query.collect()))
    found = []
    for number in range(2):
        shuffles = RetainedShuffles(spark, starts.directory)
        written, counted = shuffles.query("written"), shuffles.query("counted")
        target = str(tmp_path / f"out-{number}")
        shuffles.over(query, written, session_inputs(spark)).write.parquet(target)
        assert Counter(map(repr, spark.read.parquet(target).collect())) == expected
        assert shuffles.over(query, counted, session_inputs(spark)).count() == expected.total()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        found.append((written.recovered() > 0, counted.recovered() > 0))
        shuffles.close()
    assert found == [(False, False), (True, True)]


def test_a_start_that_has_lost_its_directory_keeps_nothing_and_answers(
    spark: SparkSession, starts: Starts, orders: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = joined(spark.read.parquet(str(orders)))
    expected, _ = starts.run(query)
    taken = starts.directory.rename(starts.directory.with_name("taken"))
    assert starts.run(query) == (expected, 0)
    assert not starts.directory.exists()
    assert "could not be retained" in caplog.text
    taken.rename(starts.directory)
    assert starts.run(query)[1] > 0


SLOW_LISTENER = """
package holdfast;

import java.util.concurrent.CountDownLatch;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

public final class SlowListener extends SparkListener {
    private final CountDownLatch end = new CountDownLatch(1);

    public SlowListener() {}

    public void onTaskEnd(SparkListenerTaskEnd event) {
        try {
            end.await();
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        }
    }

    public void end() {
        end.countDown();
    }
}
"""


def test_other_listeners_hold_up_nothing(spark: SparkSession, starts: Starts, orders: Path) -> None:
    query = grouped(spark.read.parquet(str(orders)))
    context = spark.sparkContext._jsc.sc()
    slow = object_of(spark, "SlowListener", SLOW_LISTENER)
    shuffles = RetainedShuffles(spark, starts.directory)
    context.addSparkListener(slow)
    try:
        shuffles.over(query, shuffles.query(SCOPE), session_inputs(spark)).collect()
        limit = time.monotonic() + 20
        while len(starts.outputs()) < 7 and time.monotonic() < limit:
            time.sleep(0.01)
        assert len(starts.outputs()) == 7
    finally:
        slow.end()
        context.removeSparkListener(slow)
        shuffles.close()


def test_the_person_s_session_is_as_it_was(
    spark: SparkSession, starts: Starts, orders: Path
) -> None:
    before = dict(spark.conf.getAll)
    starts.run(grouped(spark.read.parquet(str(orders))))
    outputs = starts.outputs()
    grouped(spark.read.parquet(str(orders))).collect()
    assert dict(spark.conf.getAll) == before
    assert starts.outputs() == outputs


def test_several_starts_at_a_time_do_not_mix(
    spark: SparkSession, tmp_path: Path, orders: Path
) -> None:
    query = grouped(spark.read.parquet(str(orders)))
    directories = [tmp_path / name for name in ("a", "b")]
    for directory in directories:
        directory.mkdir()
    first, second = (RetainedShuffles(spark, directory) for directory in directories)
    for each in (first, second):
        each.over(query, each.query(SCOPE), session_inputs(spark)).collect()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    left = [sorted(path.parent.name for path in each.glob("*/*.index")) for each in directories]
    assert left[0] == left[1] != []
    first.close()
    second.close()


def test_a_local_session_can_keep_what_its_shuffles_write(spark: SparkSession) -> None:
    assert is_retainable(spark, spans_machines=False)
    # Task executors are told of nothing by the driver's own tasks.
    assert not is_retainable(spark, spans_machines=True)

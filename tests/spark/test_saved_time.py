"""How much time jobs say that they have saved, given what a production has taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.advice.proposal import StorageRates
from holdfast.api.table_session import plain_session
from holdfast.runtime.saved_time import NeededPart, saved_seconds
from holdfast.spark.plans.needed_part import needed_part

WHOLE = NeededPart()
RATES = StorageRates(written=10.0, read=50.0)


def test_what_is_saved_is_what_is_needed_less_reading_it() -> None:
    # 10 s on two cores, of which 2 s are writing 40 bytes; reading them takes 0.4 s.
    assert saved_seconds(10.0, 40, WHOLE, 2, RATES) == pytest.approx(7.6)
    narrow = NeededPart(work=0.125, bytes=0.25)
    assert saved_seconds(10.0, 40, narrow, 2, RATES) == pytest.approx(1 - 0.1)
    # What is dearer to read than to compute saves nothing, and costs nothing here.
    assert saved_seconds(0.1, 4_000, WHOLE, 2, RATES) == 0.0
    # Rates are assumed: not all of a production is writing.
    assert saved_seconds(10.0, 1_000, WHOLE, 100, StorageRates(1.0, 1_000.0)) == pytest.approx(4.99)
    assert saved_seconds(0.0, 0, WHOLE, 1, RATES) == 0.0


@pytest.fixture
def env(spark: SparkSession, tmp_path: Path) -> Iterator[Environment]:
    session = spark.newSession()
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    config = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    wide = [F.sha2((F.col("id") + n).cast("string"), 256).alias(f"text{n}") for n in range(6)]
    session.range(2_000).select("id", (F.col("id") % 50).alias("k"), *wide).write.parquet(
        str(tmp_path / "sold")
    )
    session.range(50).select(F.col("id").alias("k"), F.lit("a shop").alias("shop")).write.parquet(
        str(tmp_path / "shops")
    )
    with Environment(session, config) as env:
        yield env


def joined(env: Environment, tmp_path: Path) -> DataFrame:
    sold, shops = (env.read.parquet(str(tmp_path / name)) for name in ("sold", "shops"))
    return sold.join(shops, "k")


def part(env: Environment, of: DataFrame, asked: DataFrame) -> NeededPart:
    digest = env._bridge.query(of).root.digest
    return needed_part(plain_session(env.spark), env._bridge.query(asked), digest)


def test_columns_and_filters_say_what_is_needed(env: Environment, tmp_path: Path) -> None:
    whole = joined(env, tmp_path)
    assert part(env, whole, whole) == WHOLE
    assert part(env, whole, whole.sort("id")) == WHOLE
    narrow = part(env, whole, whole.groupBy("shop").agg(F.sum("id")))
    assert 0 < narrow.work < 0.5 and 0 < narrow.bytes < 0.3
    wider = part(env, whole, whole.groupBy("shop").agg(F.sum("id"), F.max("text1")))
    assert narrow.work < wider.work < 1
    some = part(env, whole, whole.where("id = 7").groupBy("shop").agg(F.sum("id")))
    assert 0 < some.work < narrow.work
    assert part(env, whole.groupBy("k").count(), whole) == WHOLE


def test_all_that_shows_it_shows_the_same(env: Environment, tmp_path: Path) -> None:
    kept = joined(env, tmp_path).cache()
    kept.collect()
    saved = []
    for asked in (kept, kept.groupBy("shop").agg(F.sum("id"))):
        asked.collect()
        result = env.last_job_result
        assert result is not None
        saved.append(result.saved_seconds)
    assert saved[0] > saved[1] >= 0
    (listed,) = env.list_cached()
    assert listed.saved_seconds == pytest.approx(sum(saved))

"""What `holdfast.testing` says of DataFrames, and what it says where that isn't so."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import holdfast.testing
from holdfast import Environment, VertexOutcome
from holdfast.errors import EnvironmentClosedError
from holdfast.testing import (
    assert_computes,
    assert_differ,
    assert_reads,
    assert_same,
    difference,
    outcomes,
    parts,
    settle,
)

pytest_plugins = ["holdfast.testing.plugin"]


def numbers(session: SparkSession) -> DataFrame:
    return session.range(60).selectExpr("id", "id % 7 AS k")


def test_what_is_kept_is_read(holdfast_session: SparkSession, holdfast_directory: Path) -> None:
    hot = numbers(holdfast_session).groupBy("k").count()
    assert_computes(hot)
    with pytest.raises(AssertionError, match=r"would be read:\n== Holdfast ==\nnothing is cached"):
        assert_reads(hot)
    hot = hot.cache()
    assert [part.fate.value for part in parts(hot)] == ["to be kept by the next job"]
    assert hot.count() == 7
    assert outcomes(holdfast_session) == [VertexOutcome.PRODUCED, VertexOutcome.RUN]
    again = numbers(holdfast_session).groupBy("k").count().where("k > 3")
    assert_reads(again)
    assert_reads(again, times=1)
    with pytest.raises(AssertionError, match="expected that 2 kept results would be read"):
        assert_reads(again, times=2)
    with pytest.raises(AssertionError, match=r"nothing would be read:\n== Holdfast ==\nread: "):
        assert_computes(again)
    # Nothing was run for all that.
    assert outcomes(holdfast_session) == [VertexOutcome.PRODUCED, VertexOutcome.RUN]
    assert any(holdfast_directory.rglob("*.parquet"))


def test_a_kept_result_that_is_read_at_two_places_is_one(holdfast_session: SparkSession) -> None:
    hot = numbers(holdfast_session).groupBy("k").count().cache()
    other = numbers(holdfast_session).groupBy("k").agg(F.max("id")).cache()
    joined = hot.join(hot.withColumnRenamed("count", "n"), "k").join(other, "k")
    assert [part.fate.value for part in parts(joined)] == ["to be kept by the next job"] * 2
    assert joined.count() == 7
    assert_reads(joined, times=2)
    assert outcomes(holdfast_session).count(VertexOutcome.READ) == 0
    joined.count()
    assert outcomes(holdfast_session).count(VertexOutcome.READ) == 2


def test_what_is_left_to_be_kept_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "implicit-cache.enabled": True,
        "implicit-cache.results.min-saved-time": "0 s",
        "implicit-cache.live-shuffles.max-size": "1 b",
    }
    numbers(spark).write.parquet(str(tmp_path / "one"))
    own = spark.newSession()
    # A broadcast that is reused would leave nothing that is worth keeping.
    own.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    session = holdfast.attach(own, config)
    environment = session.holdfast
    try:
        one = session.read.parquet(str(tmp_path / "one"))
        joined = one.join(one.withColumnRenamed("id", "other"), "k")
        for least in range(4):
            # What takes some rows only keeps none.
            assert len(joined.where(f"id > {least}").groupBy("k").agg(F.avg("id")).take(2)) == 2
        settle(session)
        assert_reads(joined.where("id > 7").groupBy("k").agg(F.avg("id")))
    finally:
        holdfast.detach(session)
    with pytest.raises(EnvironmentClosedError, match="from_dataframe"):
        environment.from_dataframe(one)


def test_where_two_computations_part(holdfast_session: SparkSession, tmp_path: Path) -> None:
    spark = holdfast_session
    for name in ("one", "other"):
        numbers(spark).write.parquet(str(tmp_path / name))
    one = spark.read.parquet(str(tmp_path / "one"))
    other = spark.read.parquet(str(tmp_path / "other"))
    assert_same(one.where("id > 4 AND k = 1"), one.where("k = 1").where("4 < id"))
    assert_differ(one.where("id > 4"), one.where("id > 5"), "expression")
    assert_differ(one.distinct(), one.where("id > 4"), "operator")
    assert_differ(one.where("id > 4"), other.where("id > 4"), "source")
    assert_differ(one.select(F.expr("uuid()")), one.select(F.expr("uuid()")), "reason")
    found = difference(one.groupBy("k").count(), other.groupBy("k").count())
    assert found is not None and "one" in found.one and "other" in found.other
    with pytest.raises(AssertionError, match="they differ in an expression: Filter .*4.*5"):
        assert_same(one.where("id > 4"), one.where("id > 5"))
    with pytest.raises(AssertionError, match="found the same one"):
        assert_differ(one, one)
    with pytest.raises(AssertionError, match="expected a difference in kind 'source'"):
        assert_differ(one.where("id > 4"), one.where("id > 5"), "source")


def test_a_setting_is_told(holdfast_session: SparkSession) -> None:
    other = holdfast_session.newSession()
    assert_same(numbers(holdfast_session), numbers(other))
    other.conf.set("spark.sql.caseSensitive", "true")
    assert_differ(numbers(holdfast_session), numbers(other), "setting")
    found = difference(numbers(holdfast_session), numbers(other))
    assert found is not None and found.other == "case sensitive=true"


def test_plain_spark_is_refused(spark: SparkSession) -> None:
    for refused in (lambda: parts(spark.range(3)), lambda: assert_reads(spark.range(3))):
        with pytest.raises(TypeError, match=r"attach its session with holdfast\.attach\(spark\)"):
            refused()
    for asks in (outcomes, settle):
        with pytest.raises(TypeError, match=r"attach it with holdfast\.attach\(spark\)"):
            asks(spark)


def test_examples(spark: SparkSession, env: Environment) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    names = {"spark": spark, "env": env}
    failed, tried = doctest.testmod(holdfast.testing, extraglobs=names, optionflags=flags)
    assert tried > 10 and not failed

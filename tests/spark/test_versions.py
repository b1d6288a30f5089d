"""A Spark that differs from those that our Java classes are written for costs what needs them."""

from __future__ import annotations

import logging
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.errors import UnsupportedSparkError
from holdfast.spark import compatibility, java_classes
from holdfast.spark.compatibility import check
from holdfast.spark.java_classes import compiled, new_object
from holdfast.spark.per_context import PerContext
from holdfast.spark.streams import placement
from holdfast.spark.versions import (
    DIFFERENCES,
    NEEDED_FOR,
    NEWEST,
    adapted,
    is_at_least,
    version_of,
)
from tests.spark.conftest import Probe

JAVA = files("holdfast.spark").joinpath("java")


def _source(name: str) -> str:
    return JAVA.joinpath(f"{name}.java").read_text(encoding="utf-8")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has the Spark that runs lack something that a class of ours touches."""

    def lacking(*names: str) -> None:
        def broken(name: str, source: str, spark: str) -> str:
            text = adapted(name, source, spark)
            if name in names:
                text = text.replace("package holdfast;", "package holdfast; import no.such.Plan;")
            return text

        monkeypatch.setattr(java_classes, "adapted", broken)
        monkeypatch.setattr(java_classes, "_COMPILED", java_classes._none_yet())
        monkeypatch.setattr(compatibility, "_checked", PerContext(compatibility._failed))

    return lacking


def test_each_class_has_features_that_need_it() -> None:
    assert {f"{name}.java" for name in NEEDED_FOR} == {each.name for each in JAVA.iterdir()}


def test_each_difference_is_in_its_source() -> None:
    for each in DIFFERENCES:
        assert each.ours in _source(each.java_class), each
    for name in NEEDED_FOR:
        assert adapted(name, _source(name), "4.3.0") == _source(name)
        assert adapted(name, _source(name), "5.0.0") == _source(name)


def test_this_spark_has_everything(
    spark: SparkSession, without: Any, caplog: pytest.LogCaptureFixture
) -> None:
    without()
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        check(spark)
    assert [record for record in caplog.records if "differs" in record.getMessage()] == []


def test_what_is_lost_is_said_once(
    spark: SparkSession, without: Any, caplog: pytest.LogCaptureFixture
) -> None:
    without("RetainedShuffles", "UncachedQueries")
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        check(spark)
        check(spark.newSession())
    (warning,) = [r.getMessage() for r in caplog.records if "differs" in r.getMessage()]
    lost, left, *why = warning.splitlines()[1:]
    assert lost == "  not available: verifying results; recovering shuffles"
    assert left.startswith("  available: ") and NEEDED_FOR["PlanReader"] in left
    assert [line.split(":")[0].strip() for line in why] == ["UncachedQueries", "RetainedShuffles"]


def test_nothing_is_left_where_plans_cannot_be_read(
    spark: SparkSession, without: Any, caplog: pytest.LogCaptureFixture
) -> None:
    without("PlanReader")
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        check(spark)
    assert "jobs run as if there were no Holdfast" in caplog.text


def test_an_environment_looks(
    spark: SparkSession, without: Any, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    without("ScanSplits")
    config = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        with Environment(spark, config):
            # Waits for the thread that looks, as one context is looked at once.
            check(spark)
    assert NEEDED_FOR["ScanSplits"] in caplog.text


_ALL = {"PlanReader", "KnownContent", "FileVersions", "WrittenTables"}


@pytest.mark.parametrize("name", sorted(NEEDED_FOR.keys() - _ALL))
def test_jobs_answer_without(
    probe: Probe, without: Any, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _forget_objects(monkeypatch)
    without(name)
    with pytest.raises(UnsupportedSparkError, match=f"class {name} "):
        compiled(probe.spark, name)
    query = f"SELECT e, count(*) AS n FROM parquet.`{probe.home}/riders.parquet` GROUP BY e"
    plain = sorted(probe.plain_rows(query))
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "other"),
        "intermediate-result-storage.verify-fraction": 1.0,
        "execution.batch.job-recovery.enabled": True,
        "high-availability.storageDir": str(tmp_path / "jobs"),
    }
    with Environment(probe.spark, config) as env:
        table = env.sql(query).cache()
        for _ in range(2):
            assert sorted(probe.rows(table)) == plain
        assert sorted(probe.rows(table.to_dataframe())) == plain
        table.write.parquet(str(tmp_path / "out"))
    assert sorted(probe.rows(probe.spark.read.parquet(str(tmp_path / "out")))) == plain


@pytest.mark.parametrize("version", ["4.0.0", "4.3.0"])
def test_rows_go_to_the_partition_of_their_number(
    spark: SparkSession, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_at_least(spark.version, version_of(version) or NEWEST):
        pytest.skip("this Spark is older")
    monkeypatch.setattr(placement, "is_at_least", lambda _, since: is_at_least(version, since))
    numbers = spark.range(100).select((F.col("id") % 7).cast("int").alias("n"))
    frame = placement.placed(numbers, 7, "n")
    assert frame.where(F.spark_partition_id() != F.col("n")).count() == 0
    assert frame.count() == 100 and frame.rdd.getNumPartitions() == 7


def test_a_write_is_planned_without_being_run(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    session: Any = spark._jsparkSession
    place = str(tmp_path / "out")
    before = session.experimental().extraStrategies()
    arguments = gateway.new_array(jvm.java.lang.Object, 1)
    arguments[0] = place
    writer: Any = spark.range(5).write.format("parquet")
    planned = new_object(spark, "PlannedWrites")
    command = planned.command(session, writer._jwrite, "save", arguments)
    assert command.getClass().getSimpleName() == "InsertIntoHadoopFsRelationCommand"
    assert not Path(place).exists()
    assert session.experimental().extraStrategies().equals(before)
    spark.range(5).write.parquet(place)
    assert spark.read.parquet(place).count() == 5


def _forget_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has objects of the classes be made again, for this test alone."""
    for module in [each for name, each in sys.modules.items() if name.startswith("holdfast.spark")]:
        for name, value in list(vars(module).items()):
            if isinstance(value, PerContext):
                monkeypatch.setattr(module, name, PerContext(value._make))

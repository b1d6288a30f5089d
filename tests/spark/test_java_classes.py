"""Java sources become objects in Spark's JVM, once for each context; what can't is told."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.errors import UnsupportedSparkError
from holdfast.spark import java_classes, plan_reader
from holdfast.spark.cache_entries import cache_entries, reached_partitions
from holdfast.spark.java_classes import byte_code, compiled, new_object, object_of
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.partition_reader import exact_format
from holdfast.spark.per_context import PerContext
from holdfast.spark.plan_reader import PlanReader
from holdfast.spark.source_versions import written_tables

PAIR = """
package holdfast;

public final class Pair extends scala.runtime.AbstractFunction1 {
    final String left;
    final Object right;

    public Pair(String left, Object right) {
        this.left = left.trim();
        this.right = right;
    }

    public Object apply(Object between) {
        return left + between + right;
    }
}
"""


def test_a_class_is_made_of_its_source(spark: SparkSession) -> None:
    pair = object_of(spark, "Pair", PAIR, " a\x00", spark._jvm.scala.Some(3))  # type: ignore[union-attr]
    assert pair.apply(" and ") == "a and Some(3)"
    other = object_of(
        spark, "Pair", PAIR.replace("this.right = right", 'this.right = "z"'), "a", ""
    )
    assert (other.apply(""), pair.apply("")) == ("az", "aSome(3)")


def test_a_class_that_several_threads_ask_for_is_one_class(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_classes, "_COMPILED", java_classes._none_yet())
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: compiled(spark, "RowTee").getName(), range(4)))
    assert len(set(found)) == 1
    # What is sent to tasks is what objects are made of.
    assert found[0] in byte_code(spark, "RowTee")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (PAIR.replace("left.trim()", "left.trip()"), r"'Pair\.java', Line 9.*\"trip\""),
        (PAIR.replace("final Object right", "final no.such.Type right"), '"no"'),
        (PAIR.replace("Pair", "Peer"), r"holdfast\.made_\w+\.Pair"),
        ("Java it is not", "'Pair.java'"),
        (PAIR.replace("left.trim()", 'Integer.valueOf("x").toString()'), 'For input string: "x"'),
    ],
    ids="method class name java constructor".split(),
)
def test_what_fails_is_told(spark: SparkSession, source: str, why: str) -> None:
    with pytest.raises(UnsupportedSparkError, match=f"(?s)class Pair .*{why}") as raised:
        object_of(spark, "Pair", source, "a", "b")
    assert raised.value.name == "Pair" and raised.value.__cause__ is not None


def test_a_jvm_without_the_compiler_is_told(spark: SparkSession) -> None:
    context = SimpleNamespace(_jvm=spark._jvm.nowhere, _gateway=None)  # type: ignore[union-attr]
    without = cast(SparkSession, SimpleNamespace(sparkContext=context))
    with pytest.raises(UnsupportedSparkError, match="class Pair .*Janino"):
        object_of(without, "Pair", PAIR)


def test_each_source_is_compiled(spark: SparkSession) -> None:
    sources = {each.name for each in files("holdfast.spark").joinpath("java").iterdir()}
    made = {
        "KnownContent": new_object(spark, "KnownContent"),
        "NodeMeasure": new_object(spark, "NodeMeasure"),
        "ScanSplits": new_object(spark, "ScanSplits", "a", "b", "c"),
        "FileListings": new_object(spark, "FileListings", "a"),
        "FreshPlans": new_object(spark, "FreshPlans", "a", PlanReader.of(spark).salt_tag, None),
        "CacheEntries": cache_entries(spark),
        "ReachedPartitions": reached_partitions(spark),
        "HiveFiles": new_object(spark, "HiveFiles", None, None, "a"),
        "KeptFormat": new_object(spark, "KeptFormat", True),
        "KeptColumns": new_object(spark, "KeptColumns"),
        "CollectedObjects": new_object(spark, "CollectedObjects"),
        "FileVersions": new_object(spark, "FileVersions", "a"),
        "QueryRule": new_object(
            spark, "QueryRule", spark._jsparkSession, written_tables(spark), 1000, 1000
        ),
        "WrittenTables": written_tables(spark),
        "PossibleParts": new_object(spark, "PossibleParts"),
        "StoredBySpark": new_object(spark, "StoredBySpark", spark._jsparkSession),
        "Rollups": new_object(spark, "Rollups", spark._jsparkSession),
        "UncachedQueries": new_object(spark, "UncachedQueries"),
        "PlannedWrites": new_object(spark, "PlannedWrites"),
        "RowTee": new_object(spark, "RowTee"),
        "PlanReader": PlanReader(spark)._reader,
        "LabelledJobs": new_object(spark, "LabelledJobs", spark.sparkContext._jsc.sc(), "a.key"),
        "ExecutedLayouts": new_object(spark, "ExecutedLayouts"),
        "KeptFiles": new_object(
            spark,
            "KeptFiles",
            exact_format(spark),
            exact_format(spark),
            JvmMembers.of(spark).to_scala_map({}),
        ),
        "GroupedFiles": new_object(
            spark, "GroupedFiles", exact_format(spark), JvmMembers.of(spark).to_scala_map({})
        ),
        "InterruptedLog": new_object(spark, "InterruptedLog", "a reason that no error has"),
        "RetainedShuffles": new_object(
            spark, "RetainedShuffles", spark.sparkContext._jsc.sc(), "a.key", None
        ),
        "LocalExecutor": new_object(spark, "LocalExecutor", spark.sparkContext._jsc.sc()),
        "RetainedBroadcasts": new_object(spark, "RetainedBroadcasts"),
        "StageInputs": new_object(spark, "StageInputs", None, None, "a"),
        "WrittenOrder": new_object(spark, "WrittenOrder"),
        "RanSteps": new_object(spark, "RanSteps"),
        "LiveShuffles": new_object(
            spark, "LiveShuffles", spark._jsparkSession, None, None, None, None, None
        ),
    }
    assert sources == {f"{name}.java" for name in made}
    assert [each.getClass().getSimpleName() for each in made.values()] == [*made]


def test_a_plan_that_cannot_be_read_is_no_error_of_sparks(spark: SparkSession) -> None:
    failing = object_of(
        spark,
        "Failing",
        "package holdfast; public class Failing extends scala.runtime.AbstractFunction1 {"
        '  public Object apply(Object node) { throw new ArithmeticException("by zero"); } }',
    )
    reading = PlanReader.of(spark).read(spark.range(3)._jdf.queryExecution().analyzed())
    with pytest.raises(Exception, match="the plan can't be read: .*by zero") as raised:
        reading.each(failing)
    assert type(raised.value).__module__ == "py4j.protocol"


def test_a_job_runs_where_nothing_is_compiled(
    spark: SparkSession,
    env: Environment,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    df = spark.range(100).selectExpr("id % 7 AS k")
    hot = env.from_dataframe(df).cache()

    def broken(spark: SparkSession, name: str, *arguments: Any) -> Any:
        return object_of(spark, name, "package holdfast; import no.such.Plan;", *arguments)

    monkeypatch.setattr(plan_reader, "new_object", broken)
    monkeypatch.setattr(plan_reader, "_readers", PerContext(PlanReader))
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert hot.where("k > 3").count() == df.where("k > 3").count()
    assert [r for r in caplog.records if "can't analyze the plan" in r.getMessage()]
    with pytest.raises(UnsupportedSparkError, match="class KnownContent"):
        env.from_dataframe(df.where("k > 3")).cache()


def test_each_context_compiles_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, __file__], cwd=tmp_path, capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True", "False"]


def _two_contexts() -> None:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    readers = []
    for _ in range(2):
        spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
        reader = PlanReader.of(spark)
        reading = reader.read(spark.range(3)._jdf.queryExecution().analyzed())
        assert reading.operators[0]["c"].endswith(".Range")
        print(PlanReader.of(spark.newSession()) is reader)
        readers.append(reader)
        spark.stop()
    print(readers[0] is readers[1])


if __name__ == "__main__":
    _two_contexts()

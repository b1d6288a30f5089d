"""What our Java classes were compiled to is found by the next program, and by nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast.spark import java_classes
from holdfast.spark.java_classes import compiled
from holdfast.spark.kept_byte_code import KeptByteCode, write_jar
from holdfast.spark.plan_reader import PlanReader

JAVA = Path(java_classes.__file__).parent / "java" / "NodeMeasure.java"
NAME = "NodeMeasure"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Python keeps byte code."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path


def kept_at(spark: SparkSession, source: str) -> KeptByteCode:
    kept = KeptByteCode.of(spark, JAVA, source)
    assert kept is not None
    return kept


def written(spark: SparkSession) -> tuple[KeptByteCode, str]:
    """A class that is compiled and kept, and its name."""
    source = JAVA.read_text(encoding="utf-8") + f"// {uuid.uuid4().hex}\n"
    kept = kept_at(spark, source)
    made = java_classes._class(spark, NAME, source, kept.digest)
    kept.write(made.byte_code)
    return kept, made.java_class.getName()


def test_a_kept_class_is_loaded(spark: SparkSession, cache: Path) -> None:
    kept, name = written(spark)
    assert kept.jar.is_relative_to(cache) and name in kept.read()
    assert kept.loaded(spark, name).getConstructors()[0].newInstance(None) is not None
    assert [*kept.jar.parent.iterdir()] == [kept.jar]


def test_a_class_is_kept_for_one_source_and_one_spark(spark: SparkSession, cache: Path) -> None:
    assert kept_at(spark, "a").jar == kept_at(spark, "a").jar != kept_at(spark, "b").jar


def test_a_jvm_loads_it_once(spark: SparkSession, cache: Path) -> None:
    kept, _ = written(spark)
    assert [kept.is_first_in(spark), kept.is_first_in(spark)] == [True, False]


@pytest.mark.parametrize("content", [b"", b"PK", b"\x00" * 1000], ids=["empty", "torn", "zeros"])
def test_a_damaged_one_is_removed(spark: SparkSession, cache: Path, content: bytes) -> None:
    kept, name = written(spark)
    kept.jar.write_bytes(content)
    assert kept.loaded(spark, name) is None and not kept.jar.exists()


def test_a_jar_without_the_class_is_removed(spark: SparkSession, cache: Path) -> None:
    kept, name = written(spark)
    write_jar(kept.jar, {"another.One": b""})
    assert kept.loaded(spark, name) is None and not kept.jar.exists()


def test_nothing_is_written_where_python_may_not(
    spark: SparkSession, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = replace(kept_at(spark, "a"), jar=cache / "file" / "a.jar")
    (cache / "file").write_text("no directory")
    asked: list[None] = []

    def code() -> dict[str, bytes]:
        asked.append(None)
        return {"a.B": b""}

    kept.write(code)
    assert [each.name for each in cache.iterdir()] == ["file"]
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    replace(kept, jar=cache / "a.jar").write(code)
    assert [each.name for each in cache.iterdir()] == ["file"]
    # To ask for it takes a call to the JVM for each class.
    assert asked == []


@pytest.mark.soak
def test_the_next_program_compiles_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def program() -> list[str]:
        done = subprocess.run(
            [sys.executable, __file__], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def jars() -> dict[Path, int]:
        return {each: each.stat().st_mtime_ns for each in tmp_path.rglob("PlanReader.*.jar")}

    first, _ = program()
    (jar,) = left = jars()
    second, other = program()
    assert first == second == f"holdfast.made_{jar.name.split('.')[1]}.PlanReader"
    # The second context of a JVM has classes of its own.
    assert other != second and jars() == left
    # Damaged, it costs a program nothing but the compilation.
    jar.write_bytes(b"PK")
    assert len(set(program())) == 2
    assert program()[0] == first and jars().keys() == left.keys()


def _program() -> None:
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    for _ in range(2):
        spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
        reading = PlanReader.of(spark).read(spark.range(3)._jdf.queryExecution().analyzed())
        assert reading.operators[0]["c"].endswith(".Range")
        print(compiled(spark, "PlanReader").getName())
        spark.stop()


if __name__ == "__main__":
    _program()

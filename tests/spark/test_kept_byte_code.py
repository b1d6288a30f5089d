"""What our Java classes were compiled to is found by the next program, if it is whole."""

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
from holdfast.spark.kept_byte_code import KeptByteCode, write_jar

JAVA = Path(java_classes.__file__).parent / "java" / "NodeMeasure.java"


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
    made = java_classes._class(spark, "NodeMeasure", source, kept.digest)
    kept.write(made.byte_code)
    return kept, made.java_class.getName()


def test_a_class_is_kept_for_one_source_and_loaded_once(spark: SparkSession, cache: Path) -> None:
    kept, name = written(spark)
    assert kept.jar.is_relative_to(cache) and kept.jar != kept_at(spark, "another source").jar
    assert kept.loaded(spark, name).getConstructors()[0].newInstance(None) is not None
    assert [kept.is_first_in(spark), kept.is_first_in(spark)] == [True, False]


@pytest.mark.parametrize("content", [b"", b"PK", b"\0" * 1000, None])
def test_a_damaged_one_is_removed(spark: SparkSession, cache: Path, content: bytes | None) -> None:
    kept, name = written(spark)
    if content is None:
        write_jar(kept.jar, {"another.One": b""})
    else:
        kept.jar.write_bytes(content)
    assert kept.loaded(spark, name) is None and not kept.jar.exists()


def test_nothing_is_written_where_python_may_not(
    spark: SparkSession, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "file").write_text("no directory")

    def write(jar: Path) -> None:
        replace(kept_at(spark, "a"), jar=jar).write(lambda: {"a.B": b""})

    write(cache / "file" / "a.jar")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write(cache / "a.jar")
    assert [each.name for each in cache.iterdir()] == ["file"]


PROGRAM = """
from pyspark.sql import SparkSession
from holdfast import Environment
from holdfast.testing import assert_reads

spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
with Environment(spark) as env:
    assert env.range(9).where("id > 3").cache().count() == 5
    assert_reads(env.range(9).where("3 < id"))
"""


@pytest.mark.soak
def test_the_next_program_compiles_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def jars_after_a_program(**around: str) -> dict[Path, int]:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            env=environment | around,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return {each: each.stat().st_mtime_ns for each in tmp_path.rglob("*.jar")}

    assert jars_after_a_program(PYTHONDONTWRITEBYTECODE="1") == {}
    written = jars_after_a_program()
    assert written
    assert jars_after_a_program() == written
    for jar, content in zip(written, [b"", b"PK", b"\0" * 1000] * len(written), strict=False):
        jar.write_bytes(content)
    again = jars_after_a_program()
    assert again.keys() == written.keys() and min(jar.stat().st_size for jar in again) > 1000

"""What the README shows, runs."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_examples_run_from_the_first_to_the_last(
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(tmp_path)
    # The JVM, which has resolved relative paths so far, stays where it was started.
    files = spark._jvm.org.apache.hadoop.fs.FileSystem.get(spark._jsc.hadoopConfiguration())
    was = files.getWorkingDirectory()
    files.setWorkingDirectory(spark._jvm.org.apache.hadoop.fs.Path(str(tmp_path)))
    request.addfinalizer(lambda: files.setWorkingDirectory(was))
    # What outlives its program is to go with the test.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names: dict[str, object] = {}
    for number, block in enumerate(blocks("python")):
        exec(compile(block, f"README example {number}", "exec"), names)
    printed = capsys.readouterr().out
    assert (tmp_path / "orders" / "_SUCCESS").exists()
    assert "read from cache" in printed
    assert "== Holdfast ==" in printed
    assert re.search(r"kept by \S+ on \S+ at \S+ \S+ UTC, in \S+ s", printed)
    assert spark.read.parquet(str(tmp_path / "revenue")).count() == 1000
    assert not list((tmp_path / "jobs").glob("job-*"))
    assert "_manifest.json" in README.read_text(encoding="utf-8")
    # The environment borrowed the suite's session, so closing it has not stopped that.
    assert spark.range(1).count() == 1

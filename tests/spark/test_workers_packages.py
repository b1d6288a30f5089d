"""Workers may run under another Python than the program, with other versions of packages."""

from __future__ import annotations

import sys
import venv
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome


def install(site_packages: Path, version: int) -> None:
    """A package of which each version gives another number."""
    site_packages.mkdir(parents=True, exist_ok=True)
    (site_packages / "numbered_package.py").write_text(f"NUMBER = {version}\n")
    metadata = site_packages / f"numbered_package-{version}.dist-info"
    metadata.mkdir()
    text = f"Metadata-Version: 2.1\nName: numbered-package\nVersion: {version}\n"
    (metadata / "METADATA").write_text(text)
    (metadata / "RECORD").write_text("numbered_package.py,,\n")


def make_python(directory: Path, version: int) -> Path:
    """An environment with all that this one has, and a version of the package."""
    venv.create(directory, symlinks=True)
    (site_packages,) = directory.glob("lib/python*/site-packages")
    (site_packages / "others.pth").write_text("\n".join(filter(None, sys.path)))
    install(site_packages, version)
    return directory / "bin" / "python"


def test_packages_of_the_workers_count(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pythons = [make_python(tmp_path / f"python-{version}", version) for version in (1, 2)]
    install(tmp_path / "site-packages", 1)
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "intermediate-result-storage.lifetime": "1 h",
    }

    def number(_):  # type: ignore[no-untyped-def]
        import numbered_package  # type: ignore[import-not-found]

        return numbered_package.NUMBER

    def asked(python: Path) -> tuple[set[Any], bool]:
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
        with Environment(spark.newSession(), config=config) as env:
            numbers = env.range(5).select(F.udf(number, "long")("id").alias("n"))
            found = {row.n for row in numbers.cache().collect()}
            assert env.last_job_result is not None
            return found, env.last_job_result.vertices[0].outcome is VertexOutcome.READ

    assert asked(pythons[0]) == ({1}, False)
    assert asked(pythons[1]) == ({2}, False)
    assert asked(pythons[0]) == ({1}, True)

"""Fixtures of pytest for programs that use Holdfast; off unless a `conftest.py` asks for them.

    pytest_plugins = ["holdfast.testing.plugin"]

They need a fixture `spark`, a session of plain Spark, which a project has already or makes anew:

    @pytest.fixture(scope="session")
    def spark():
        return SparkSession.builder.master("local[2]").getOrCreate()
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast.api.table_session import TableSession


@pytest.fixture
def holdfast_directory(tmp_path: Path) -> Path:
    """A storage directory in which nothing is kept yet."""
    return tmp_path / "holdfast"


@pytest.fixture
def holdfast_session(spark: SparkSession, holdfast_directory: Path) -> Iterator[TableSession]:
    """A new session that is attached for the length of a test, over a storage of its own."""
    attached = holdfast.attach(
        spark.newSession(), {"intermediate-result-storage.directory": str(holdfast_directory)}
    )
    yield attached
    holdfast.detach(attached)

"""An attached session over tables of a few rows, as a user would have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import holdfast

TRIPS = """SELECT id, id % 5 AS a, id % 3 AS b, concat('c', id % 4) AS c, id / 8 AS d,
                  timestamp_seconds(id * 1000) AS ts, array(id, id + 1) AS arr
           FROM range(0, 40, 1, 3)"""
RIDERS = "SELECT id AS a, id * 10 AS e FROM range(4)"

Rows = Callable[[DataFrame], "Counter[str]"]


@pytest.fixture(scope="session")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directories of files, which no test changes."""
    home = tmp_path_factory.mktemp("promises")
    for name, query in (("trips", TRIPS), ("riders", RIDERS)):
        spark.sql(query).write.parquet(str(home / name))
    return home


@pytest.fixture
def session(spark: SparkSession, files: Path, tmp_path: Path) -> Iterator[SparkSession]:
    """A session that is attached for the length of a test, with views of the files."""
    own = spark.newSession()
    attached = holdfast.attach(own, {"intermediate-result-storage.directory": str(tmp_path / "k")})
    for name in ("trips", "riders"):
        attached.read.parquet(str(files / name)).createOrReplaceTempView(name)
    yield attached
    holdfast.detach(attached)


@pytest.fixture
def plain(spark: SparkSession, files: Path) -> SparkSession:
    """Plain Spark, with the same views."""
    own = spark.newSession()
    for name in ("trips", "riders"):
        own.read.parquet(str(files / name)).createOrReplaceTempView(name)
    return own


def rows(df: DataFrame) -> Counter[str]:
    """Rows whose order doesn't count, as texts that tell 1 from 1.0 and 0.0 from -0.0."""
    return Counter(map(repr, df.collect()))

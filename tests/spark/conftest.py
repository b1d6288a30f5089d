"""What the tests of plans share: a few small tables, and a probe of what was read from cache."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

import holdfast
from holdfast import CachedTable, Environment, Table, VertexOutcome

_VIEWS = {
    "trips": """
        SELECT a, b, c, d, i, array(a, b, 7L) AS arr, struct(a AS p, b AS q) AS st,
               map('k', a, 'l', b) AS m, timestamp_seconds(a * 100000) AS ts,
               date_add(DATE'2020-01-01', i) AS dt, cast(a AS DECIMAL(12, 2)) AS n
        FROM VALUES (1L, 10L, 'x', 1.5D, 1), (1L, 20L, 'y', -0.0D, 2), (2L, 20L, 'x', 0.0D, 3),
                    (2L, NULL, NULL, DOUBLE('NaN'), 4), (3L, 30L, 'Y', NULL, NULL),
                    (1L, 10L, 'x', 1.5D, 1), (NULL, 5L, '{"a": 1}', 2.5D, 6)
             AS raw(a, b, c, d, i)""",
    "riders": """
        SELECT * FROM VALUES (1L, 10L, 'x'), (2L, 20L, 'Z'), (2L, 30L, NULL), (NULL, 20L, 'y'),
                             (4L, 40L, 'x') AS raw(a, e, c)""",
}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system than Spark's own files."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system only")
    path = memory / tmp_path.name
    yield path
    shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Probe:
    """Looks at jobs from outside: their rows, and what was read instead of being computed."""

    spark: SparkSession
    env: Environment
    home: Path

    def table(self, query: Query) -> Table:
        """The table of a query text, or of what a function makes of this probe."""
        if isinstance(query, str):
            return self.env.sql(query)
        made = query(self)
        return made if isinstance(made, Table) else self.env.from_dataframe(made)

    def keep(self, query: Query) -> CachedTable:
        """Caches a query and runs it, so that its rows lie on disk."""
        kept = self.table(query).cache()
        kept.collect()
        assert self.outcomes().count(VertexOutcome.PRODUCED) >= 1
        return kept

    def outcomes(self) -> list[VertexOutcome]:
        """What became of the last job's vertices."""
        result = self.env.last_job_result
        assert result is not None
        return [vertex.outcome for vertex in result.vertices]

    def rows(self, df: DataFrame) -> list[str]:
        """The rows, as texts that tell 1 from 1.0, 0.0 from -0.0, and know NaN."""
        return [repr(row) for row in df.collect()]

    def plain_rows(self, query: Query) -> list[str]:
        """The rows that Spark gives by itself."""
        return self.rows(self.plain(query))

    def plain(self, query: Query) -> DataFrame:
        """The query without Holdfast."""
        return ClassicDataFrame(self.table(query)._jdf, self.spark)

    def assert_reads(self, query: Query, times: int = 1, *, ordered: bool = False) -> None:
        """The query's job reads what is kept, and answers as Spark does."""
        expected = self.plain_rows(query)
        rows = self.rows(self.table(query))
        outcomes = self.outcomes()
        assert outcomes.count(VertexOutcome.READ) == times, outcomes
        assert VertexOutcome.PRODUCED not in outcomes
        assert_same(rows, expected, ordered=ordered)

    def assert_computes(self, query: Query, *, steady: bool = True) -> None:
        """The query's job reads nothing that is kept, and answers as Spark does."""
        rows = self.rows(self.table(query))
        assert self.outcomes() == [VertexOutcome.RUN]
        if steady:
            assert_same(rows, self.plain_rows(query))

    def settings(self, values: Mapping[str, str]) -> AbstractContextManager[None]:
        """Settings of the session that hold inside of a block."""
        return _settings(self.spark, values)


Query = str | Callable[[Probe], Any]


def assert_same(rows: list[str], expected: list[str], *, ordered: bool = False) -> None:
    """The same rows equally often, in the same order where there is one."""
    assert Counter(rows) == Counter(expected)
    if ordered:
        assert rows == expected


@contextmanager
def _settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    # Setting a default back would leave it behind as a setting.
    explicit = {key: spark.conf.get(key) for key in values if spark.conf._jconf.contains(key)}
    try:
        for key, value in values.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in values:
            if key in explicit:
                spark.conf.set(key, explicit[key])
            else:
                spark.conf.unset(key)


@pytest.fixture(scope="session")
def settings(spark: SparkSession) -> Callable[[Mapping[str, str]], AbstractContextManager[None]]:
    """Takes settings of the session that hold inside of a block."""
    return partial(_settings, spark)


@pytest.fixture(scope="module")
def a_task_for_each_file(
    settings: Callable[[Mapping[str, str]], AbstractContextManager[None]],
) -> Iterator[None]:
    """No task reads several files, however small they are."""
    with settings({"spark.sql.files.openCostInBytes": "128m"}):
        yield


@pytest.fixture
def many_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small partitions stay as the tasks wrote them, as on a cluster: there are many to be read."""
    monkeypatch.setattr("holdfast.storage.small_partitions.LEAST_SAVED", 1 << 30)


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of 256 KB, or of what it is parametrized with."""
    disk = tmp_path / "disk"
    disk.mkdir()
    size = getattr(request, "param", "256k")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def attached(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """A session of the test's, with Holdfast, that keeps nothing implicitly."""
    config = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    session = holdfast.attach(spark.newSession(), config)
    yield session
    holdfast.detach(session)


@pytest.fixture(scope="session")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The views `trips` and `riders`, and files of the same in a directory of their own."""
    home = tmp_path_factory.mktemp("tables")
    for name, query in _VIEWS.items():
        spark.sql(query).createOrReplaceTempView(name)
    flat = spark.table("riders").coalesce(1)
    flat.write.parquet(str(home / "riders.parquet"))
    flat.write.orc(str(home / "riders.orc"))
    flat.write.json(str(home / "riders.json"))
    flat.write.csv(str(home / "riders.csv"), header=True)
    flat.write.partitionBy("e").parquet(str(home / "by_e"))
    yield home
    for name in _VIEWS:
        spark.catalog.dropTempView(name)


@pytest.fixture
def probe(spark: SparkSession, env: Environment, tables: Path) -> Probe:
    """A fresh environment over the shared tables."""
    return Probe(spark, env, tables)


class Tally:
    """Counts how often a function was called in Spark's Python workers."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def counting(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A function that does the same, and leaves a mark each time."""
        path = str(self._path)

        def counted(value: Any) -> Any:
            # One byte at a time is appended as a whole, whichever process does it.
            with open(path, "a") as marks:
                marks.write(".")
            return function(value)

        return counted

    def count(self) -> int:
        """How many times, up to now."""
        return self._path.stat().st_size if self._path.exists() else 0


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    """A counter of calls."""
    return Tally(tmp_path / "tally")

"""What is reused and kept without any call of cache()."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast import VertexOutcome
from holdfast.cli.main import main
from holdfast.testing import assert_differ, outcomes
from tests.promises.conftest import rows

JOINED = "trips t JOIN riders r ON t.a = r.a"
BY_RIDER = f"SELECT e, count(*) AS n FROM {JOINED} GROUP BY e"


def attached(
    spark: SparkSession, files: Path, home: Path, **config: object
) -> Iterator[SparkSession]:
    own = spark.newSession()
    own.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    given = {
        "intermediate-result-storage.directory": str(home / "k"),
        "implicit-cache.enabled": True,
    }
    session = holdfast.attach(own, given | config)
    for name in ("trips", "riders"):
        session.read.parquet(str(files / name)).createOrReplaceTempView(name)
    yield session
    holdfast.detach(session)


@pytest.fixture
def reusing(spark: SparkSession, files: Path, tmp_path: Path) -> Iterator[SparkSession]:
    """Reuses shuffles, and writes nothing."""
    yield from attached(spark, files, tmp_path, **{"implicit-cache.results.enabled": False})


@pytest.fixture
def keeping(spark: SparkSession, files: Path, tmp_path: Path) -> Iterator[SparkSession]:
    """Keeps what recurs, however little that saves."""
    yield from attached(
        spark,
        files,
        tmp_path,
        **{
            "implicit-cache.results.min-saved-time": "0 s",
            "implicit-cache.live-shuffles.max-size": "1 b",
        },
    )


def reused(session: SparkSession) -> int:
    return session.holdfast.last_job_result.reused_exchanges


ASKED_AGAIN = {
    "the same": BY_RIDER,
    "a question about its answer": f"SELECT max(n) FROM ({BY_RIDER})",
    "the largest groups": f"{BY_RIDER} ORDER BY n DESC, e LIMIT 2",
    "one of its columns": f"SELECT e FROM ({BY_RIDER})",
}


@pytest.mark.parametrize("name", ASKED_AGAIN)
def test_shuffles_are_reused(reusing: SparkSession, plain: SparkSession, name: str) -> None:
    reusing.sql(BY_RIDER).collect()
    assert reused(reusing) == 0
    assert rows(reusing.sql(ASKED_AGAIN[name])) == rows(plain.sql(ASKED_AGAIN[name]))
    assert reused(reusing) > 0


def test_a_shuffle_of_other_rows_is_not(reusing: SparkSession, plain: SparkSession) -> None:
    reusing.sql(BY_RIDER).collect()
    asked = f"SELECT e, count(*) AS n FROM {JOINED} WHERE b = 1 AND t.a > 0 GROUP BY e"
    assert rows(reusing.sql(asked)) == rows(plain.sql(asked))
    assert_differ(reusing.sql(BY_RIDER), reusing.sql(asked))


def test_a_changed_file_ends_the_reuse(
    reusing: SparkSession, plain: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "numbers")

    def asked(session: SparkSession) -> list[tuple[int, int]]:
        counted = session.read.parquet(path).groupBy("k").count()
        return sorted(map(tuple, counted.collect()))

    plain.range(9).selectExpr("id % 2 AS k").write.parquet(path)
    assert asked(reusing) == asked(reusing) == [(0, 5), (1, 4)]
    assert reused(reusing) > 0
    plain.range(8).selectExpr("id % 2 AS k").write.mode("overwrite").parquet(path)
    assert asked(reusing) == [(0, 4), (1, 4)]
    assert reused(reusing) == 0


def test_what_recurs_is_kept_and_read(
    keeping: SparkSession, plain: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = []
    for least in range(5):
        asked = f"SELECT e, count(*) AS n, min(t.id) AS m{least} FROM {JOINED} GROUP BY e"
        for _ in range(2):
            assert rows(keeping.sql(asked)) == rows(plain.sql(asked))
            seen += outcomes(keeping)
    assert VertexOutcome.PRODUCED in seen and VertexOutcome.READ in seen
    assert keeping.holdfast.list_cached()
    assert main(["why", "--directory", str(tmp_path / "k")]) == 0
    assert "over" in capsys.readouterr().out


def test_what_is_asked_for_once_is_not(keeping: SparkSession) -> None:
    keeping.sql(BY_RIDER).collect()
    assert outcomes(keeping) == [VertexOutcome.RUN]
    assert keeping.holdfast.list_cached() == []

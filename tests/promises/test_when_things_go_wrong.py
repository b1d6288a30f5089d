"""A failure of what is kept never costs an answer, and bad input is named."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment, VertexOutcome
from holdfast.errors import ConfigurationError, UnsupportedTypeError
from holdfast.testing import outcomes
from tests.promises.conftest import rows

COUNTS = "SELECT a, count(*) AS n, max(c) AS c FROM trips GROUP BY a"


def cut(part: Path) -> None:
    part.write_bytes(part.read_bytes()[:-20])


def overwrite(part: Path) -> None:
    part.write_bytes(b"\0" * part.stat().st_size)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "truncated": cut,
    "overwritten": overwrite,
    "emptied": lambda part: part.write_bytes(b""),
    "the whole directory": lambda part: shutil.rmtree(part.parent),
    "the whole storage": lambda part: shutil.rmtree(part.parents[2]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_made_again(
    session: SparkSession,
    plain: SparkSession,
    damage: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = session.sql(COUNTS).cache()
    kept.count()
    (listed,) = session.holdfast.list_cached()
    DAMAGES[damage](next(listed.location.glob("part-*.parquet")))
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert rows(session.sql(COUNTS)) == rows(plain.sql(COUNTS))
    assert session.holdfast.last_job_result.losses and caplog.messages
    assert rows(session.sql(COUNTS)) == rows(plain.sql(COUNTS))


def test_a_wrong_row_is_found_by_verification(
    spark: SparkSession, plain: SparkSession, files: Path, tmp_path: Path
) -> None:
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "k"),
        "intermediate-result-storage.compression": "uncompressed",
        "intermediate-result-storage.verify-fraction": 1,
    }
    with Environment(spark.newSession(), config=config) as env:
        env.read.parquet(str(files / "trips")).createOrReplaceTempView("trips")
        counts = env.sql(COUNTS).cache()
        assert counts.count() == 5
        assert rows(counts) == rows(plain.sql(COUNTS))
        assert env.last_job_result is not None and not env.last_job_result.losses
        (listed,) = env.list_cached()
        for part in listed.location.glob("part-*.parquet"):
            known = part.stat()
            part.write_bytes(part.read_bytes().replace(b"\x02\0\0\0c3", b"\x02\0\0\0c9"))
            os.utime(part, ns=(known.st_atime_ns, known.st_mtime_ns))
        assert rows(env.sql(COUNTS)) == rows(plain.sql(COUNTS))
        assert env.last_job_result.losses


def test_a_directory_that_can_not_be_written(
    session: SparkSession, plain: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(tmp_path / "k")
    (tmp_path / "k").write_text("in the way")
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert rows(session.sql(COUNTS).cache()) == rows(plain.sql(COUNTS))
    assert caplog.messages
    (listed,) = session.holdfast.list_cached()
    assert listed.rows == 0 and listed.reasons


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("intermediate-result-storage.lifetimes", "1 d"),
        ("intermediate-result-storage.lifetime", "soon"),
        ("intermediate-result-storage.max-size", "-1"),
        ("intermediate-result-storage.verify-fraction", 2),
        ("intermediate-result-storage.sharing", "family"),
        ("intermediate-result-storage.directory", "s3://bucket/kept"),
        ("intermediate-result-storage.compression", "zip"),
        ("implicit-cache.enabled", "perhaps"),
        ("execution.batch.job-recovery.enabled", True),
    ],
)
def test_a_wrong_option_is_named(spark: SparkSession, key: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=key if value is not True else "storageDir"):
        Environment(spark, config={key: value})


def test_a_type_that_can_not_be_kept(session: SparkSession, plain: SparkSession) -> None:
    query = "SELECT a, INTERVAL 1 DAY * a AS i, make_interval(a) AS m FROM trips"
    kept = session.sql(query).cache()
    assert kept.count() == plain.sql(query).count()
    with pytest.raises(UnsupportedTypeError, match="m"):
        session.sql(query).cache(lifetime="1 d")


def failing(df: DataFrame) -> None:
    df.selectExpr("raise_error('as asked')").collect()


def test_an_error_of_the_query_is_raised_once(session: SparkSession) -> None:
    kept = session.sql(COUNTS).cache()
    with pytest.raises(Exception, match="as asked"):
        failing(kept)
    assert kept.count() == 5
    with pytest.raises(Exception, match="as asked"):
        failing(session.sql(COUNTS))
    assert outcomes(session) != [VertexOutcome.PRODUCED]

"""A player of cases in the test suite's session."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from holdfast import Environment
from tests.fuzz.player import Finding, Player
from tests.fuzz.tables import drop_tables, make_tables
from tests.fuzz.world import World


@contextmanager
def playing(spark: SparkSession, home: Path, *, implicit: bool = False) -> Iterator[Player]:
    """Plays cases over the tables of generated plans, with the implicit cache or without."""
    make_tables(spark, home / "tables")
    # PySpark logs every error, and errors are answers here.
    # By its own class of loggers: were it made here by another, PySpark could not use it.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    config = {
        "intermediate-result-storage.directory": str(home / "kept"),
        "implicit-cache.enabled": implicit,
    }
    with Environment(spark, config=config) as env:
        yield Player(env, World(spark, home / "cases"))
    logger.setLevel(level)
    drop_tables(spark)


def assert_nothing(found: list[Finding], where: str) -> None:
    """Nothing was wrong; or the test says what was, and with which program."""
    told = "\n".join(f"{each.kind}, of `{each.step}`: {each.detail}" for each in found)
    assert not found, f"{told}\n{where}"

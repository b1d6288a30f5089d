"""Asks which queries are one computation: in one environment of a file, and without a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.testing import assert_differ
from tests.spark.conftest import Probe, Query


@pytest.fixture(scope="module")
def asked(
    spark: SparkSession, tables: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Probe]:
    """An environment over the shared tables in which nothing is kept."""
    config = {"intermediate-result-storage.directory": str(tmp_path_factory.mktemp("asked"))}
    with Environment(spark, config=config) as env:
        yield Probe(spark, env, tables)


def assert_apart(probe: Probe, queries: Iterable[Query], kind: str | None = None) -> None:
    """No two of the queries are one computation."""
    for one, other in combinations([probe.table(query) for query in queries], 2):
        assert_differ(one, other, kind)


def families(text: str) -> list[list[str]]:
    """What stands between tildes, line by line; lines that are indented go on with the last one."""
    lines = re.sub(r"\n +", " ", text).strip().splitlines()
    return [[each.strip() for each in line.split(" ~ ")] for line in lines]

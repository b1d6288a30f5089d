"""A program that caches cases with a lifetime.

`python -m tests.two_programs.program [--user USER] HOME NAME…` prints a line of JSON for each case.
The first program with a home writes the inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import tempfile
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast import VertexOutcome
from tests.catalog.user_program import become
from tests.spark.user_program import end
from tests.two_programs.cases import CASES, Make, World, write_inputs


def _session(home: Path) -> SparkSession:
    catalog = f"jdbc:derby:;databaseName={home / 'catalog'};create=true"
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.hadoop.javax.jdo.option.ConnectionURL": catalog,
    }
    builder = SparkSession.builder.master("local[2]").config(map=settings).enableHiveSupport()
    return builder.getOrCreate()


def _rows(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.collect()))


def _played(plain: World, attached: World, make: Make) -> dict[str, Any]:
    try:
        cached = make(attached).cache()
        rows = _rows(cached)
    except PySparkException as error:
        return {"error": str(error)[:500]}
    environment = attached.spark.holdfast
    job = environment.last_job_result.vertices
    found = {
        "is_found": bool(job) and job[0].outcome is VertexOutcome.READ,
        "why": [*map(str, environment.list_cached()[-1].reasons)],
        "rows": rows,
        "plain": _rows(make(plain)),
    }
    cached.unpersist()
    return found


@contextmanager
def worlds(home: Path, sharing: str = "private") -> Iterator[tuple[World, World]]:
    """Plain Spark over the inputs, which are written if there are none, and an attached session."""
    os.chdir(home)
    spark = _session(home)
    if not (home / "parquet").exists():
        write_inputs(spark, home)
    config = {
        "intermediate-result-storage.directory": str(home / "kept"),
        "intermediate-result-storage.lifetime": "1 d",
        "intermediate-result-storage.sharing": sharing,
    }
    plain = spark.newSession()
    yield World(plain, home), World(holdfast.attach(spark.newSession(), config), home)
    end(spark)


def _play(home: Path, names: Collection[str], sharing: str) -> Iterator[dict[str, Any]]:
    with worlds(home, sharing) as (plain, attached):
        for section in CASES.values():
            for name, make in section.items():
                if not names or name in names:
                    yield {"name": name, **_played(plain, attached, make)}


def _become(user: str, names: Collection[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        # Python itself may be in root's home: whatever is imported late is so before that is shut.
        # The functions of the cases would stay in this JVM.
        tried = set(names or chain(*CASES.values())) - set(CASES["Python functions"])
        for _ in _play(Path(scratch), tried or {"`range`"}, "private"):
            pass
        os.chdir("/")
    become(pwd.getpwnam(user), [])
    os.umask(0o077)


def main() -> None:
    """Plays the cases of the names that are given; all, without any."""
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--user")
    parser.add_argument("home", type=Path)
    parser.add_argument("names", nargs="*")
    asked = parser.parse_args()
    if asked.user is not None:
        _become(asked.user, asked.names)
    for found in _play(asked.home, asked.names, "private" if asked.user is None else "all"):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()

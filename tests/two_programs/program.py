"""A program that plays cases, each of which caches something with a lifetime.

`python -m tests.two_programs.program [--user USER] HOME NAME…` prints a line of JSON for each case:
of `cases.py` (all of these, without a name), of `STREAMS`, of `hive_tables.py`, or of
`functions.py`, where `NAME#0` is a program and `NAME#1` the first that differs from it. Modules of
the user's are those of one version in a process.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import sys
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast import DataStream, Environment
from holdfast.testing import outcomes
from tests.catalog.user_program import become
from tests.spark.user_program import end
from tests.two_programs import hive_tables
from tests.two_programs.cases import CASES, Count, Make, World
from tests.two_programs.functions import PROGRAMS, Program, with_modules

TABLES = dict(chain.from_iterable(cases.items() for cases in CASES.values()))
_PRELUDE = """
import collections, dataclasses, datetime, decimal, enum, functools, itertools, operator, re
from typing import Iterator, Tuple
import numpy as np, pandas as pd, pyarrow as pa
from pyspark.sql import functions as F, Window
"""
_WORDS = "to be or not to be that is the question".split()


@dataclass(frozen=True)
class Visit:
    """A class that is the program's own."""

    word: str


STREAMS: dict[str, Callable[[DataStream], DataStream]] = {
    "a class of a module": lambda words: (
        words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).map(Count.of)
    ),
    "a class of the program's": lambda words: words.map(Visit),
}


def _session(home: Path) -> SparkSession:
    catalog = f"jdbc:derby:;databaseName={home / 'catalog'};create=true"
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.hadoop.javax.jdo.option.ConnectionURL": catalog,
        # No catalog of a test has to outlive the machine.
        "spark.driver.extraJavaOptions": "-Dderby.system.durability=test",
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
    found = {
        "is_found": outcomes(environment)[:1] == [holdfast.VertexOutcome.READ],
        "why": [*map(str, environment.list_cached()[-1].reasons)],
        "rows": rows,
        "plain": _rows(make(plain)),
    }
    cached.unpersist()
    return found


def _played_stream(env: Environment, name: str) -> dict[str, Any]:
    stream = STREAMS[name](env.from_collection(_WORDS)).cache()
    # They are compared with classes of this program's.
    with stream.filter(
        lambda record: isinstance(record, (Count, Visit))
    ).execute_and_collect() as rows:
        said = sorted(map(str, rows))
    return {"is_found": holdfast.VertexOutcome.READ in outcomes(env), "rows": said}


def _played_function(plain: World, attached: World, name: str, modules: Path) -> dict[str, Any]:
    title, _, version = name.rpartition("#")
    program = [*PROGRAMS[title].versions()][int(version)]
    program = with_modules(program, modules, [*PROGRAMS].index(title))
    for world in (plain, attached):
        for key, value in program.settings.items():
            world.spark.conf.set(key, value)
    try:
        return _played(plain, attached, partial(_made, program))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error)[:500]}"}
    finally:
        for world in (plain, attached):
            for key in program.settings:
                world.spark.conf.unset(key)


def _made(program: Program, world: World) -> DataFrame:
    rows = world.read().where("id < 200")
    space: dict[str, Any] = {"__name__": "__main__", "spark": world.spark, "rows": rows}
    space["home"] = str(world.home)
    exec(compile(_PRELUDE + program.text, "program", "exec", dont_inherit=True), space)
    df: DataFrame = space["df"]
    return df


@contextmanager
def worlds(home: Path, sharing: str = "private") -> Iterator[tuple[World, World]]:
    """Plain Spark and an attached session, over the same inputs."""
    os.chdir(home)
    spark = _session(home)
    config = {
        "intermediate-result-storage.directory": str(home / "kept"),
        "intermediate-result-storage.lifetime": "1 d",
        "intermediate-result-storage.sharing": sharing,
    }
    plain = spark.newSession()
    yield World(plain, home), World(holdfast.attach(spark.newSession(), config), home)
    end(spark)


def _play(home: Path, names: Collection[str], sharing: str) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(dir=home) as modules:
        # The user's own are found by Spark's workers, too.
        sys.path.append(modules)
        os.environ["PYTHONPATH"] = os.pathsep.join((os.environ.get("PYTHONPATH", ""), modules))
        with worlds(home, sharing) as (plain, attached):
            for name in names or TABLES:
                if name in TABLES:
                    found = _played(plain, attached, TABLES[name])
                elif name in STREAMS:
                    found = _played_stream(attached.spark.holdfast, name)
                elif name in hive_tables.CASES:
                    found = hive_tables.played(plain.spark, home, name)
                else:
                    found = _played_function(plain, attached, name, Path(modules))
                yield {"name": name, **found}


def _become(user: str, names: Collection[str]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        # Python itself may be in root's home: whatever is imported late is so before that is shut.
        # The functions of the cases would stay in this JVM.
        tried = set(names or TABLES) - set(CASES["Python functions"])
        for _ in _play(Path(scratch), tried or {"`range`"}, "private"):
            pass
        os.chdir("/")
    become(pwd.getpwnam(user), [])
    os.umask(0o077)


def main() -> None:
    """Plays the cases of the names that are given."""
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

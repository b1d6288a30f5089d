"""What a printed case begins with: `from tests.fuzz.prelude import *` at the repository's root."""

from __future__ import annotations

import atexit
import tempfile
import threading
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment
from tests.fuzz.busy import when_a_job_runs
from tests.fuzz.player import config_of_programs, keep_unasked
from tests.fuzz.session import fuzz_session
from tests.fuzz.tables import make_tables
from tests.fuzz.world import World

_directory = tempfile.TemporaryDirectory(prefix="fuzz-")
_root = Path(_directory.name)
spark = fuzz_session(_root, hive=True)
make_tables(spark, _root / "tables")
env = Environment(spark, config={"intermediate-result-storage.directory": str(_root / "kept")})
_world = World(spark, _root / "cases")
home = str(_world.home)
setting, parquet, text, module = _world.setting, _world.parquet, _world.text, _world.module
remove, hold, release = _world.remove, _world.hold, _world.release
only, part, elsewhere, stored_as = _world.only, _world.part, _world.elsewhere, _world.stored_as
atexit.register(_directory.cleanup)
atexit.register(spark.stop)
atexit.register(env.close)

__all__ = [
    "another_program",
    "elsewhere",
    "env",
    "hold",
    "home",
    "keep_unasked",
    "module",
    "only",
    "parquet",
    "part",
    "plain",
    "release",
    "remove",
    "setting",
    "spark",
    "stored_as",
    "text",
    "while_a_job_runs",
]


def plain(table: DataFrame) -> DataFrame:
    """The same without Holdfast."""
    return DataFrame(table._jdf, _world.spark)


def another_program() -> tuple[SparkSession, Environment]:
    """The session and the environment of a program that shares what is kept."""
    session = spark.newSession()
    _world.begin(session)
    made = Environment(session, config=config_of_programs(_world))
    atexit.register(made.close)
    return session, made


def while_a_job_runs(statements: str) -> None:
    """Has another thread execute statements as soon as a job runs."""
    names = {name: globals()[name] for name in __all__}
    threading.Thread(target=when_a_job_runs, args=(spark, lambda: exec(statements, names))).start()

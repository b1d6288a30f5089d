"""What a printed case begins with: `from tests.fuzz.prelude import *` at the repository's root."""

from __future__ import annotations

import atexit
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment
from tests.fuzz.player import config_of_programs, keep_unasked
from tests.fuzz.session import fuzz_session
from tests.fuzz.tables import make_tables
from tests.fuzz.world import World

_directory = tempfile.TemporaryDirectory(prefix="fuzz-")
_root = Path(_directory.name)
_spark = fuzz_session(_root, hive=True)
make_tables(_spark, _root / "tables")
env = Environment(_spark, config={"intermediate-result-storage.directory": str(_root / "kept")})
_world = World(_spark, _root / "cases")
_names = {name: each for name, each in _world.names().items() if name != "__name__"}
globals().update(_names)
atexit.register(_directory.cleanup)
atexit.register(_spark.stop)
atexit.register(env.close)

__all__ = ["another_program", "env", "keep_unasked", "plain", *_names]


def plain(table: DataFrame) -> DataFrame:
    """The same without Holdfast."""
    return DataFrame(table._jdf, _world.spark)


def another_program() -> tuple[SparkSession, Environment]:
    """The session and the environment of a program that shares what is kept."""
    session = _spark.newSession()
    _world.begin(session)
    made = Environment(session, config=config_of_programs(_world))
    atexit.register(made.close)
    return session, made

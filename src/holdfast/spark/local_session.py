"""The session of those who bring none: the active one, or the one that Spark is configured for."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_LOCAL = "local"
_MASTER = re.compile(r"(?:--master|spark\.master)[\s=:]+[\"']?(\S+)")
_ANOTHER_FILE = "--properties-file"


def local_session() -> SparkSession:
    """The active session, or a new one with the master that Spark is configured with.

    Without any, that is `local[*]`. A local one listens on loopback alone.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder.appName("Holdfast")
    if not is_local():
        return builder.getOrCreate()
    # Spark takes these from the environment it is started in, and from no setting.
    wanted = {"SPARK_LOCAL_IP": _LOOPBACK, "PYSPARK_PYTHON": sys.executable}
    added = {key: value for key, value in wanted.items() if key not in os.environ}
    os.environ.update(added)
    try:
        return (
            builder.config("spark.driver.bindAddress", _LOOPBACK)
            .config("spark.driver.host", _LOOPBACK)
            .getOrCreate()
        )
    finally:
        for key in added:
            os.environ.pop(key, None)


def is_local() -> bool:
    """Whether each master that Spark may be configured with is this machine, or there is none.

    False where that isn't known.
    """
    if _ANOTHER_FILE in os.environ.get("PYSPARK_SUBMIT_ARGS", "") or _file("spark-env.sh"):
        return False
    return all(master.startswith(_LOCAL) for master in _masters())


def _masters() -> Iterator[str]:
    """The masters that are named where `spark-submit`, which starts Spark for Python, looks."""
    for text in (os.environ.get("PYSPARK_SUBMIT_ARGS", ""), _file("spark-defaults.conf")):
        yield from _MASTER.findall(text)
    if "MASTER" in os.environ:
        yield os.environ["MASTER"]


def _file(name: str) -> str:
    home = os.environ.get("SPARK_HOME", str(Path(pyspark.__file__).parent))
    with suppress(OSError):
        directory = Path(os.environ.get("SPARK_CONF_DIR", Path(home, "conf")))
        return (directory / name).read_text(encoding="utf-8", errors="replace")
    return ""

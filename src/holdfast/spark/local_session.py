"""A Spark session on this machine, for those who bring none."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"


def local_session() -> SparkSession:
    """The active session, or a new one that uses every core and listens on loopback alone."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    # Spark takes these from the environment it is started in, and from no setting.
    wanted = {"SPARK_LOCAL_IP": _LOOPBACK, "PYSPARK_PYTHON": sys.executable}
    added = {key: value for key, value in wanted.items() if key not in os.environ}
    os.environ.update(added)
    try:
        return (
            SparkSession.builder.appName("Holdfast")
            .master(os.environ.get("MASTER", "local[*]"))
            .config("spark.driver.bindAddress", _LOOPBACK)
            .config("spark.driver.host", _LOOPBACK)
            .getOrCreate()
        )
    finally:
        for key in added:
            os.environ.pop(key, None)

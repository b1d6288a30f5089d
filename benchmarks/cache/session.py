"""The Spark session that every way of keeping runs in."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession


def start(home: Path) -> SparkSession:
    """A session on two cores with memory for a persisted join, and its own directories."""
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("holdfast-bench-cache")
        .config("spark.driver.memory", "6g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(home / "local"))
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.pyspark.python", sys.executable)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.sparkContext.setCheckpointDir(str(home / "checkpoints"))
    return spark

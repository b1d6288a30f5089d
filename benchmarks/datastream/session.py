"""The Spark session that streams and RDDs run in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

PARALLELISM = 2


@contextmanager
def start(home: Path, *, memory: str, touched: bool = False) -> Iterator[SparkSession]:
    """A session on two cores, stopped at the end of the block.

    Args:
        home: a directory of its own.
        memory: the heap of its JVM.
        touched: whether the whole heap is taken at the start, so that it doesn't grow later on.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = f"-Xms{memory} -XX:+AlwaysPreTouch" if touched else ""
    spark = (
        SparkSession.builder.master(f"local[{PARALLELISM}]")
        .appName("holdfast-bench-datastream")
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", str(home / "local"))
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()
        # Another session may be wanted with another heap, which only another JVM has.
        _end_jvm()


def _end_jvm() -> None:
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
        SparkContext._gateway = SparkContext._jvm = None

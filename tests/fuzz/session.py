"""The session that cases are played in."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.short_lived_jvm import local_session, start_them_fast


def fuzz_session(home: Path) -> SparkSession:
    """Starts one on two cores, which forgets everything below `home`."""
    start_them_fast()
    spark = local_session("holdfast-fuzz", home).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark

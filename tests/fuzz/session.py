"""The session that cases are played in."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.short_lived_jvm import local_session, start_them_fast

_METASTORE = "spark.hadoop.javax.jdo.option.ConnectionURL"


def fuzz_session(home: Path, *, hive: bool = False) -> SparkSession:
    """Starts one on two cores, with Hive's tables or without, that leaves nothing but below `home`."""
    start_them_fast()
    builder = local_session("holdfast-fuzz", home)
    if hive:
        builder = (
            builder.config(_METASTORE, "jdbc:derby:memory:fuzz;create=true")
            .config("spark.driver.extraJavaOptions", "-Dderby.stream.error.file=/dev/null")
            .enableHiveSupport()
        )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark

"""The session that cases are played in."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.short_lived_jvm import local_session, start_them_fast

_METASTORE = "spark.hadoop.javax.jdo.option.ConnectionURL"


def fuzz_session(home: Path, *, hive: bool = False, stays: bool = False) -> SparkSession:
    """Starts one on two cores, which forgets everything below `home`.

    Args:
        home: an empty directory, or one of an earlier session.
        hive: whether it has Hive's tables.
        stays: whether they are there for a later session.
    """
    start_them_fast()
    builder = local_session("holdfast-fuzz", home)
    if hive:
        place = home / "metastore" if stays else "memory:fuzz"
        builder = (
            builder.config(_METASTORE, f"jdbc:derby:{place};create=true")
            .config("spark.driver.extraJavaOptions", "-Dderby.stream.error.file=/dev/null")
            .enableHiveSupport()
        )
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark

"""What it costs to find another program's result of one of very many partitions of a table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment

_WARM_UPS = 10
_QUERY = "SELECT count(*) AS n, max(id) AS id FROM parted WHERE p = 7"


@dataclass(frozen=True)
class Planned:
    """One query, from its text to the physical plan.

    Attributes:
        seconds: how long that took.
        fetched: how many partitions the catalog was asked for.
        listed: how many files of the table were listed.
    """

    seconds: float
    fetched: int
    listed: int


def measure(home: Path, partitions: int, rounds: int) -> Iterator[tuple[Planned, Planned]]:
    """Plans a query over one partition, without Holdfast and where its result is found, in turn.

    Args:
        home: an empty directory.
        partitions: of the table, which is one of Hive's catalog.
        rounds: how often.
    """
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("bench-catalog")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config(
            "spark.hadoop.javax.jdo.option.ConnectionURL",
            f"jdbc:derby:;databaseName={home / 'metastore'};create=true",
        )
        .enableHiveSupport()
        .getOrCreate()
    )
    try:
        files = home / "parted"
        spark.range(0, partitions, 1, 2).selectExpr("id", "int(id) AS p").write.partitionBy(
            "p"
        ).parquet(str(files))
        spark.sql(
            "CREATE TABLE parted (id BIGINT, p INT) USING parquet PARTITIONED BY (p) "
            f"LOCATION '{files}'"
        )
        spark.sql("MSCK REPAIR TABLE parted")
        config = {"intermediate-result-storage.directory": str(home / "kept")}
        with Environment(spark, config) as own:
            own.sql(_QUERY).cache(lifetime="1 h").count()
        plain = spark.newSession()
        with Environment(spark.newSession(), config) as other:
            for number in range(-_WARM_UPS, rounds):
                for session in (plain, other.spark):
                    # What has been listed before is listed again.
                    session.catalog.refreshTable("parted")
                without = _planned(spark, lambda: plain.sql(_QUERY))
                found = _planned(spark, lambda: other.substituted(other.sql(_QUERY)))
                if number >= 0:
                    yield without, found
            assert not other.substituted(other.sql(_QUERY)).inputFiles()
    finally:
        spark.stop()


def _planned(spark: SparkSession, make: Any) -> Planned:
    jvm: Any = spark._jvm
    metrics = jvm.org.apache.spark.metrics.source.HiveCatalogMetrics
    metrics.reset()
    started = time.perf_counter()
    dataframe: DataFrame = make()
    execution: Any = dataframe._jdf.queryExecution()
    execution.executedPlan()
    seconds = time.perf_counter() - started
    return Planned(
        seconds,
        metrics.METRIC_PARTITIONS_FETCHED().getCount(),
        metrics.METRIC_FILES_DISCOVERED().getCount(),
    )

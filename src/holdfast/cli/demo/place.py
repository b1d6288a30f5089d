"""Where the session is played: on this machine alone, or on a cluster of two nodes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment
from holdfast.cli.amounts import count
from holdfast.cli.demo.spark_session import demo_session, driver_memory_mib
from holdfast.cli.local_cluster.local_cluster import LocalCluster

_LIFETIME = "intermediate-result-storage.lifetime"


@dataclass(frozen=True)
class Place:
    """A session, and where its results are kept.

    Attributes:
        spark: the session of both sides.
        keeping: an environment's configuration.
        description: the place in a few words.
        logs: where whoever looks for the cause of an error finds more.
        cluster: what `spark` runs on, unless that is this process.
        spread: into how many partitions the kept table is spread; None leaves that to Spark.
    """

    spark: SparkSession
    keeping: Mapping[str, str]
    description: str
    logs: str
    cluster: LocalCluster | None = None
    spread: int | None = None

    def environment(self, lifetime: str = "application") -> Environment:
        """A fresh environment.

        Args:
            lifetime: how long what it keeps stays after its last use.
        """
        return Environment(self.spark, {**self.keeping, _LIFETIME: lifetime})

    def hot(self, table: DataFrame) -> DataFrame:
        """The table as it is to be kept here, cached.

        Args:
            table: of an environment.
        """
        return (table if self.spread is None else table.repartition(self.spread)).cache()


@contextmanager
def on_this_machine(output: Path, log: Path) -> Iterator[Place]:
    """A local session that keeps results in a folder.

    Args:
        output: the demo's folder.
        log: the file that takes what Spark's JVM writes to its standard error.

    Raises:
        DemoError: when Spark doesn't start.
    """
    kept = kept_in(output)
    # What an earlier demo has kept, this one would read.
    shutil.rmtree(kept, ignore_errors=True)
    with demo_session(log) as spark:
        cores = count(os.cpu_count() or 1, "core")
        description = f"Machine  {cores}, {driver_memory_mib()} MiB for Spark {spark.version}"
        keeping = {"intermediate-result-storage.directory": str(kept)}
        yield Place(spark, keeping, description, str(log))


def kept_in(output: Path) -> Path:
    """Where the last demo's results are, until the next one on this machine.

    Args:
        output: the demo's folder.
    """
    return output / "kept"

"""Sessions and environments that recovery is measured in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.cache.session import start
from holdfast import Environment
from tests.harness.local_cluster import LocalCluster

WAITING = "execution.batch.job-recovery.previous-worker.recovery.timeout"
_MEMORY = "3g"


@dataclass(frozen=True)
class Where:
    """Where programs run: on this machine's cores, or on a cluster.

    Attributes:
        configuration: Spark's; none: two cores of the driver's process.
        environment: variables that the driver is started with.
        options: Holdfast's.
    """

    configuration: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Where:
        """From what `str` gives."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def session(self, home: Path) -> SparkSession:
        """A session there, with files of its own in a directory."""
        if not self.configuration:
            return start(home)
        spark = SparkSession.builder.config(map=dict(self.configuration)).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        return spark


@contextmanager
def on_cluster(home: Path) -> Iterator[Where]:
    """A cluster of two workers, with a core each, on this machine."""
    with LocalCluster(home, memory=_MEMORY) as cluster:
        options = {
            "taskexecutor.addresses": ",".join(cluster.task_executor_addresses),
            "taskexecutor.token-file": str(cluster.token_file),
        }
        yield Where(cluster.driver_configuration(), cluster.driver_environment(), options)


def recovering(
    spark: SparkSession, home: Path, options: Mapping[str, str] | None = None
) -> Environment:
    """An environment with recovery, which keeps and records everything in a directory.

    Args:
        spark: the session.
        home: the directory.
        options: Holdfast's, beside those.
    """
    return Environment(
        spark,
        config={
            "execution.batch.job-recovery.enabled": True,
            "high-availability.storageDir": (home / "recorded").as_uri(),
            "intermediate-result-storage.directory": str(home / "kept"),
            **(options or {}),
        },
    )

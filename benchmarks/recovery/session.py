"""Sessions and environments that recovery is measured in."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from holdfast import Environment

WAITING = "execution.batch.job-recovery.previous-worker.recovery.timeout"


def recovering(spark: SparkSession, home: Path) -> Environment:
    """An environment with recovery, which keeps and records everything in a directory.

    Args:
        spark: the session.
        home: the directory.
    """
    return Environment(
        spark,
        config={
            "execution.batch.job-recovery.enabled": True,
            "high-availability.storageDir": (home / "recorded").as_uri(),
            "intermediate-result-storage.directory": str(home / "kept"),
        },
    )

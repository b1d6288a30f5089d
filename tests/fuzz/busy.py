"""Does something while a Spark job is running."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql import SparkSession

_PATIENCE = 20


def when_a_job_runs(spark: SparkSession, what: Callable[[], None]) -> None:
    """Waits for a job of this session's application, then does `what`.

    Args:
        spark: the session.
        what: is not done if no job comes.
    """
    deadline = time.monotonic() + _PATIENCE
    tracker = spark.sparkContext.statusTracker()
    while time.monotonic() < deadline:
        if tracker.getActiveJobsIds():
            what()
            return
        time.sleep(0.005)

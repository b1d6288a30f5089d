"""How much work drivers have done, by Spark's own event logs, which survive a kill."""

from __future__ import annotations

import json
from pathlib import Path

SETTINGS = {
    "spark.eventLog.enabled": "true",
    # What a kill can cut off is little.
    "spark.eventLog.buffer.kb": "1",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}
"""What a driver needs to write a log, besides `spark.eventLog.dir`."""


def task_seconds(logs: Path) -> float:
    """The processor time of all tasks that have ended, over all logs of a directory.

    Their run time would tell how busy the machine was. What Python workers do doesn't count.

    Args:
        logs: the directory, with a log for each driver.
    """
    return sum(map(_of_log, logs.iterdir())) if logs.exists() else 0.0


def _of_log(path: Path) -> float:
    nanoseconds = 0
    with path.open() as lines:
        for line in lines:
            if line.startswith('{"Event":"SparkListenerTaskEnd"'):
                try:
                    metrics = json.loads(line).get("Task Metrics") or {}
                except json.JSONDecodeError:
                    # The kill has cut it off.
                    continue
                nanoseconds += metrics.get("Executor CPU Time", 0)
    return nanoseconds / 1e9

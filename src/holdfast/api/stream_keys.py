"""What the streams of an environment are sealed with."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.config import CATALOG_URL, INTERMEDIATE_RESULT_DIRECTORY, Configuration
from holdfast.errors import StorageError
from holdfast.files.secret_key import SEAL_KEY, secret_key
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.spark.streams.sink_runs import is_on_this_machine
from holdfast.spark.streams.stream_sealing import StreamSealing
from holdfast.streaming.sealing import SealKey


def stream_sealing(
    spark: SparkSession,
    configuration: Configuration,
    storage: TaskExecutorStorage,
    records: HighAvailabilityStorage | None,
) -> StreamSealing:
    """What the streams of an environment are sealed with.

    Args:
        spark: its session.
        configuration: says where the catalog and the storage directory are.
        storage: where the environment keeps results.
        records: where its jobs are recorded, if they are. Their key goes with them to any machine
            that they are resumed on, which may deal files to tasks in another way: so that what is
            sealed with it is nothing for other programs.
    """
    if records is not None:
        return StreamSealing.alone(SealKey(records.seal_key()), "its jobs are recovered")
    if configuration.get(CATALOG_URL) is None:
        return StreamSealing.alone(SealKey.new(), "it has no catalog")
    if not isinstance(storage, EmbeddedStorage):
        return StreamSealing.alone(SealKey.new(), "task executors keep its results")
    if not is_on_this_machine(spark):
        # How many cores there are, by which rows are dealt to tasks, changes as executors come.
        return StreamSealing.alone(SealKey.new(), "its tasks run on a cluster")
    root = Path(configuration.get(INTERMEDIATE_RESULT_DIRECTORY))
    if root.stat().st_uid != os.getuid():
        # Who shares a directory that somebody else has made has nothing to be warned of.
        return StreamSealing.alone(SealKey.new(), f"{root} belongs to another user")
    cores = spark.sparkContext.defaultParallelism
    return StreamSealing(lambda: _common_key(root), cores)


def _common_key(root: Path) -> SealKey:
    try:
        return SealKey(secret_key(root / SEAL_KEY))
    except OSError as error:
        raise StorageError(str(root), f"its seal key can't be used: {error}") from error

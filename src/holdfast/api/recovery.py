"""Sets up job recovery of an environment."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from pyspark.sql.classic.dataframe import DataFrame

from holdfast.api.storage import recovery_storage
from holdfast.config import (
    COORDINATOR_SNAPSHOT_MIN_PAUSE,
    EVENT_STORE_FLUSH_INTERVAL,
    EVENT_STORE_WRITE_BUFFER_SIZE,
    HIGH_AVAILABILITY_STORAGE_DIR,
    JOB_RECOVERY_AFTER_ERRORS,
    JOB_RECOVERY_ENABLED,
    JOB_RECOVERY_MIN_VERTEX_INPUT,
    JOB_RECOVERY_TASK_TIME,
    PIPELINE_NAME,
    Configuration,
)
from holdfast.errors import ConfigurationError
from holdfast.graph.plan_cuts import CutLimits
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.ids import JobID
from holdfast.runtime.job_master import JobMaster
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.recovery.job_engine import JobEngine
from holdfast.spark.recovery.recoverable_jobs import RecoverableJobs
from holdfast.spark.recovery.recovery_settings import RecoverySettings


def job_records(configuration: Configuration) -> HighAvailabilityStorage | None:
    """Where jobs are recorded; None if job recovery is disabled.

    Raises:
        ConfigurationError: when job recovery is enabled without a storage directory.
        StorageError: when that directory can't be used.
    """
    if not configuration.get(JOB_RECOVERY_ENABLED):
        return None
    directory = configuration.get(HIGH_AVAILABILITY_STORAGE_DIR)
    if directory is None:
        raise ConfigurationError(
            HIGH_AVAILABILITY_STORAGE_DIR.key,
            None,
            f"{JOB_RECOVERY_ENABLED.key} is enabled, which requires a storage directory: expected "
            f"{HIGH_AVAILABILITY_STORAGE_DIR.expected}",
        )
    return HighAvailabilityStorage(directory)


def _limits(least_saved: int, *, keeps_shuffles: bool) -> CutLimits:
    """When cuts are worth it; who wants them over small data does not mind what they cost."""
    usual = CutLimits(keeps_shuffles=keeps_shuffles)
    part = min(1.0, least_saved / usual.least_saved)
    return replace(
        usual,
        least_saved=least_saved,
        cost_of_cut=int(part * usual.cost_of_cut),
        cost_of_byte=part * usual.cost_of_byte,
        least_retained=int(part * usual.least_retained),
    )


def recoverable_jobs(
    engine: JobEngine,
    master: JobMaster[Query, DataFrame],
    records: HighAvailabilityStorage,
    configuration: Configuration,
    on_end: Callable[[], None],
) -> RecoverableJobs:
    """Runs the jobs of an environment with recovery.

    Args:
        engine: the engine that runs jobs.
        master: runs jobs.
        records: where jobs are recorded.
        configuration: of the environment.
        on_end: called once the program has ended, and no next start goes on with it.
    """

    def storage_of(job_id: JobID, epoch: int, wait_for: Collection[str]) -> RecoveryStorage:
        return recovery_storage(configuration, job_id, epoch, wait_for)

    settings = RecoverySettings(
        name=configuration.get(PIPELINE_NAME),
        limits=_limits(
            configuration.get(JOB_RECOVERY_MIN_VERTEX_INPUT), keeps_shuffles=engine.keeps_shuffles
        ),
        write_buffer_size=configuration.get(EVENT_STORE_WRITE_BUFFER_SIZE),
        flush_interval=configuration.get(EVENT_STORE_FLUSH_INTERVAL),
        after_errors=configuration.get(JOB_RECOVERY_AFTER_ERRORS),
        snapshot_min_pause=configuration.get(COORDINATOR_SNAPSHOT_MIN_PAUSE),
        task_time=configuration.get(JOB_RECOVERY_TASK_TIME),
    )
    return RecoverableJobs(engine, master, storage_of, records, settings, on_end)

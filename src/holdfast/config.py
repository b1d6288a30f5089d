"""Configuration keys with their types and defaults, and how their values are written."""

from __future__ import annotations

import difflib
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from holdfast.config_values import (
    parse_addresses,
    parse_boolean,
    parse_duration,
    parse_fraction,
    parse_memory_size,
    parse_positive_duration,
    parse_positive_memory_size,
)
from holdfast.errors import ConfigurationError
from holdfast.files.local_path import local_path

T = TypeVar("T")

SPARK_PREFIX = "spark.holdfast."


class Compression(Enum):
    """Parquet's codecs that Spark brings along."""

    ZSTD = "zstd"
    LZ4_RAW = "lz4_raw"
    SNAPPY = "snappy"
    UNCOMPRESSED = "uncompressed"


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """A key that can be configured.

    Attributes:
        key: its name; `spark.holdfast.` and the name as a key of Spark's configuration.
        parse: makes the value of what was given.
        expected: what is expected, for whoever gave something else.
        default: makes the value when none is given.
        shown_default: the default as the documentation shows it.
        description: what it is for.
    """

    key: str
    parse: Callable[[object], T]
    expected: str
    default: Callable[[], T]
    shown_default: str
    description: str


def _parse_path(value: object) -> str:
    if isinstance(value, (str, Path)):
        return str(local_path(value))
    raise ValueError


def _parse_optional_path(value: object) -> str | None:
    return None if value is None else _parse_path(value)


def _parse_storage_directory(value: object) -> Path | None:
    if value is None:
        return None
    if isinstance(value, (str, Path)):
        return local_path(value)
    raise ValueError


def _parse_name(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise ValueError


def _parse_compression(value: object) -> Compression:
    return value if isinstance(value, Compression) else Compression(str(value).lower())


def _default_directory() -> str:
    # The number: a container's user may have no name.
    return str(Path(tempfile.gettempdir()) / f"holdfast-{os.getuid()}")


INTERMEDIATE_RESULT_DIRECTORY = ConfigOption[str](
    "intermediate-result-storage.directory",
    _parse_path,
    "the path of a directory on this machine, or file:///path",
    _default_directory,
    "`holdfast-<user id>` in the system's temporary directory",
    "Where kept results lie. Applications may share it; each uses a directory of its own in it.",
)
INTERMEDIATE_RESULT_COMPRESSION = ConfigOption[Compression](
    "intermediate-result-storage.compression",
    _parse_compression,
    "one of " + ", ".join(codec.value for codec in Compression),
    lambda: Compression.ZSTD,
    "`zstd`",
    "How the Parquet files of kept results are compressed.",
)
INTERMEDIATE_RESULT_VERIFY_FRACTION = ConfigOption[float](
    "intermediate-result-storage.verify-fraction",
    parse_fraction,
    "a number from 0 to 1",
    lambda: 0.0,
    "`0`",
    "For which share of the reads of kept results the plan is computed as well, and compared.",
)

TASK_EXECUTOR_ADDRESSES = ConfigOption[tuple[str, ...]](
    "taskexecutor.addresses",
    parse_addresses,
    "the addresses of different task executors, each host:port, with commas in between",
    tuple,
    "none",
    "The task executors of a cluster, one beside each Spark worker. Without any, this process "
    "keeps results itself, in `intermediate-result-storage.directory`.",
)
TASK_EXECUTOR_TOKEN_FILE = ConfigOption[str | None](
    "taskexecutor.token-file",
    _parse_optional_path,
    "the path of a file on this machine, or file:///path",
    lambda: None,
    "the environment variable `HOLDFAST_TOKEN`",
    "The file with the token that the task executors share with those who may use them.",
)
HEARTBEAT_INTERVAL = ConfigOption[timedelta](
    "heartbeat.interval",
    parse_positive_duration,
    "a duration above zero, such as 10 s",
    lambda: timedelta(seconds=10),
    "`10 s`",
    "How often task executors are told that the application lives.",
)
HEARTBEAT_TIMEOUT = ConfigOption[timedelta](
    "heartbeat.timeout",
    parse_positive_duration,
    "a duration above zero, such as 50 s",
    lambda: timedelta(seconds=50),
    "`50 s`",
    "After how long without a heartbeat a task executor releases what it keeps for an application.",
)

JOB_RECOVERY_ENABLED = ConfigOption[bool](
    "execution.batch.job-recovery.enabled",
    parse_boolean,
    "true or false",
    lambda: False,
    "`false`",
    "Whether a job goes on where it stopped, when its program is killed and started again.",
)
PREVIOUS_WORKER_RECOVERY_TIMEOUT = ConfigOption[timedelta](
    "execution.batch.job-recovery.previous-worker.recovery.timeout",
    parse_positive_duration,
    "a duration above zero, such as 30 s",
    lambda: timedelta(seconds=30),
    "`30 s`",
    "How long a job that goes on waits for the task executors that it had before.",
)
COORDINATOR_SNAPSHOT_MIN_PAUSE = ConfigOption[timedelta](
    "execution.batch.job-recovery.operator-coordinator-snapshot.min-pause",
    parse_duration,
    "a duration, such as 3 min",
    lambda: timedelta(minutes=3),
    "`3 min`",
    "How long at least to wait before it is recorded again how a source has split its data.",
)
JOB_RECOVERY_RETENTION = ConfigOption[timedelta](
    "execution.batch.job-recovery.retention",
    parse_positive_duration,
    "a duration above zero, such as 24 h",
    lambda: timedelta(hours=24),
    "`24 h`",
    "How long task executors keep a job's partitions after its driver was last heard of.",
)
JOB_RECOVERY_MIN_VERTEX_INPUT = ConfigOption[int](
    "execution.batch.job-recovery.min-vertex-input",
    parse_memory_size,
    "a memory size, such as 64 mb",
    lambda: 64 << 20,
    "`64 mb`",
    "How much a part of a job has to read at least for its result to be kept until the job ends.",
)
EVENT_STORE_WRITE_BUFFER_SIZE = ConfigOption[int](
    "job-event.store.write-buffer.size",
    parse_positive_memory_size,
    "a memory size above zero, such as 1M or 512 kb",
    lambda: 1 << 20,
    "`1M`",
    "How much a job records of what happened to it before that is written to its storage "
    "directory.",
)
EVENT_STORE_FLUSH_INTERVAL = ConfigOption[timedelta](
    "job-event.store.write-buffer.flush-interval",
    parse_positive_duration,
    "a duration above zero, such as 1 s",
    lambda: timedelta(seconds=1),
    "`1 s`",
    "After how long it is written, however little it is.",
)
HIGH_AVAILABILITY_STORAGE_DIR = ConfigOption[Path | None](
    "high-availability.storageDir",
    _parse_storage_directory,
    "a directory that every machine where the driver may start can reach, as file:///path",
    lambda: None,
    "none",
    "Where jobs are recorded that may outlive their drivers; needed for job recovery. Every "
    "machine where the driver may start has to reach it.",
)
PIPELINE_NAME = ConfigOption[str | None](
    "pipeline.name",
    _parse_name,
    "a name that is not empty",
    lambda: None,
    "none",
    "The name by which a program that has changed finds the jobs that it had not finished.",
)

ALL_OPTIONS: tuple[ConfigOption[Any], ...] = (
    INTERMEDIATE_RESULT_DIRECTORY,
    INTERMEDIATE_RESULT_COMPRESSION,
    INTERMEDIATE_RESULT_VERIFY_FRACTION,
    TASK_EXECUTOR_ADDRESSES,
    TASK_EXECUTOR_TOKEN_FILE,
    HEARTBEAT_INTERVAL,
    HEARTBEAT_TIMEOUT,
    JOB_RECOVERY_ENABLED,
    PREVIOUS_WORKER_RECOVERY_TIMEOUT,
    COORDINATOR_SNAPSHOT_MIN_PAUSE,
    JOB_RECOVERY_RETENTION,
    JOB_RECOVERY_MIN_VERTEX_INPUT,
    EVENT_STORE_WRITE_BUFFER_SIZE,
    EVENT_STORE_FLUSH_INTERVAL,
    HIGH_AVAILABILITY_STORAGE_DIR,
    PIPELINE_NAME,
)
"""Every key that there is."""


class Configuration:
    """Values by key, each of its key's type.

    Args:
        values: parsed values by key.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = dict(values)

    @classmethod
    def merged(cls, spark: Mapping[str, str], explicit: Mapping[str, object]) -> Configuration:
        """The configuration from a Spark configuration and from what is given explicitly.

        Args:
            spark: a Spark configuration; keys that don't start with `spark.holdfast.` don't count.
            explicit: values by key; they take precedence.

        Raises:
            ConfigurationError: when a key is unknown or a value is not of its key's type, or when
                jobs are to be recovered and it isn't said where they are recorded.

        Example:
            >>> given = {"intermediate-result-storage.compression": "snappy"}
            >>> conf = Configuration.merged({}, given)
            >>> conf.get(INTERMEDIATE_RESULT_COMPRESSION)
            <Compression.SNAPPY: 'snappy'>
        """
        given: dict[str, object] = {
            key.removeprefix(SPARK_PREFIX): value
            for key, value in spark.items()
            if key.startswith(SPARK_PREFIX)
        }
        given.update(explicit)
        merged = cls({key: _parsed(key, value) for key, value in given.items()})
        where = HIGH_AVAILABILITY_STORAGE_DIR
        if merged.get(JOB_RECOVERY_ENABLED) and merged.get(where) is None:
            raise ConfigurationError(
                where.key,
                given.get(where.key),
                f"{JOB_RECOVERY_ENABLED.key} is on, which needs {where.expected}",
            )
        return merged

    def get(self, option: ConfigOption[T]) -> T:
        """The value of a key, or its default."""
        if option.key in self._values:
            return cast(T, self._values[option.key])
        return option.default()


def _parsed(key: str, value: object) -> object:
    options = {option.key: option for option in ALL_OPTIONS}
    option = options.get(key)
    if option is None:
        near = difflib.get_close_matches(key, options, n=1)
        expected = f"did you mean {near[0]!r}?" if near else f"known keys are {sorted(options)}"
        raise ConfigurationError(key, value, f"there is no such key; {expected}")
    try:
        return option.parse(value)
    except (ValueError, TypeError):
        raise ConfigurationError(key, value, f"expected {option.expected}") from None

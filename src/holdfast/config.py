"""Configuration keys with their types and defaults, and how their values are written."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from holdfast.catalog.audience import Audience
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
from holdfast.lazy_module import LazyModule

if TYPE_CHECKING:
    from holdfast.catalog import catalog_url
else:
    catalog_url = LazyModule("holdfast.catalog.catalog_url")

T = TypeVar("T")

SPARK_PREFIX = "spark.holdfast."


class Compression(Enum):
    """Parquet's codecs that Spark brings along."""

    ZSTD = "zstd"
    LZ4_RAW = "lz4_raw"
    SNAPPY = "snappy"
    UNCOMPRESSED = "uncompressed"


@dataclass(frozen=True, slots=True)
class MaxSize:
    """How much kept results may take up.

    Attributes:
        bytes: a number of bytes; None where a share is given.
        share: of the space that is free on their disk, or theirs.
    """

    bytes: int | None = None
    share: float = 1.0

    def limit(self, kept: int, free: int) -> int:
        """How many bytes they may have.

        Args:
            kept: how many they have.
            free: how many are free on their disk.

        >>> MaxSize(share=0.5).limit(kept=10, free=90), MaxSize(bytes=7).limit(kept=10, free=90)
        (50, 7)
        """
        return int((kept + free) * self.share) if self.bytes is None else self.bytes


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """A key that can be configured.

    Attributes:
        key: its name; in Spark's configuration, prefixed with `spark.holdfast.`.
        parse: converts what was given to the value.
        expected: what is expected, for error messages.
        default: creates the value when none is given.
        shown_default: the default as the documentation shows it.
        description: its meaning.
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


_OF_APPLICATION = "application"
_SHARE_OF_THE_DISK = 0.5
_SHARE_FOR_SHUFFLES = 0.25
_IN_THE_DIRECTORY = ""
_NO_CATALOG = "none"
_MAX_SHARE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


def _parse_lifetime(value: object) -> timedelta | None:
    if value is None or (isinstance(value, str) and value.strip().lower() == _OF_APPLICATION):
        return None
    return parse_positive_duration(value)


_SHARING = {"private": Audience.USER, "group": Audience.GROUP, "all": Audience.ALL}


def _parse_sharing(value: object) -> Audience:
    if isinstance(value, Audience) and value in _SHARING.values():
        return value
    if not isinstance(value, str) or value.strip().lower() not in _SHARING:
        raise ValueError(value)
    return _SHARING[value.strip().lower()]


def _parse_max_size(value: object) -> MaxSize:
    if isinstance(value, MaxSize):
        return value
    share = _MAX_SHARE.fullmatch(value) if isinstance(value, str) else None
    if share is None:
        return MaxSize(bytes=parse_positive_memory_size(value))
    found = float(share[1]) / 100
    if not 0 < found <= 1:
        raise ValueError(value)
    return MaxSize(share=found)


def _parse_catalog(value: object) -> str | None:
    if value is None or (isinstance(value, str) and value.strip().lower() == _NO_CATALOG):
        return None
    if isinstance(value, str):
        return catalog_url.checked_url(value.strip()) if value.strip() else _IN_THE_DIRECTORY
    raise ValueError


def _default_directory() -> str:
    # The number: a container's user may have no name.
    return str(Path(tempfile.gettempdir()) / f"holdfast-{os.getuid()}")


INTERMEDIATE_RESULT_DIRECTORY = ConfigOption[str](
    "intermediate-result-storage.directory",
    _parse_path,
    "the path of a directory on this machine, or file:///path",
    _default_directory,
    "`holdfast-<user id>` in the system's temporary directory",
    "Where kept results are stored. Applications may share it; each creates its own subdirectory.",
)
INTERMEDIATE_RESULT_COMPRESSION = ConfigOption[Compression](
    "intermediate-result-storage.compression",
    _parse_compression,
    "one of " + ", ".join(codec.value for codec in Compression),
    lambda: Compression.ZSTD,
    "`zstd`",
    "The compression codec of the Parquet files of kept results.",
)
INTERMEDIATE_RESULT_MERGE_PARTITIONS = ConfigOption[bool](
    "intermediate-result-storage.merge-small-partitions",
    parse_boolean,
    "true or false",
    lambda: True,
    "`true`",
    "Whether neighbouring small partitions of a result are kept as one. Otherwise what depends on "
    "partitions has over many small ones, too, the values that it has over computed rows.",
)
INTERMEDIATE_RESULT_VERIFY_FRACTION = ConfigOption[float](
    "intermediate-result-storage.verify-fraction",
    parse_fraction,
    "a number from 0 to 1",
    lambda: 0.0,
    "`0`",
    "The fraction of reads of kept results that are verified by recomputing the plan.",
)
INTERMEDIATE_RESULT_LIFETIME = ConfigOption[timedelta | None](
    "intermediate-result-storage.lifetime",
    _parse_lifetime,
    f"{_OF_APPLICATION!r}, or a duration above zero, such as 7 d",
    lambda: None,
    f"`{_OF_APPLICATION}`",
    "How long kept results stay after their last use: as long as the application that has kept "
    "them, or a time for which later programs on the same storage directory find them.",
)
INTERMEDIATE_RESULT_SHARE_AMBIGUOUS = ConfigOption[bool](
    "intermediate-result-storage.share-ambiguous",
    parse_boolean,
    "true or false",
    lambda: True,
    "`true`",
    "Whether programs share results with a lifetime where several answers are right, as of `limit` "
    "without an order, `first`, `collect_list`, samples with a seed, and windows over rows that "
    "tie: the one that is kept is the answer for all. Otherwise such a result goes with the "
    "application that has kept it.",
)
INTERMEDIATE_RESULT_MAX_SIZE = ConfigOption[MaxSize](
    "intermediate-result-storage.max-size",
    _parse_max_size,
    "a memory size above zero, such as 100 gb, or a share of the disk, such as 50%",
    lambda: MaxSize(share=_SHARE_OF_THE_DISK),
    f"`{_SHARE_OF_THE_DISK:.0%}`",
    "How many bytes kept results may have in all, or which share of the space that is free on "
    "their disk or theirs. Results that are worth least are evicted to make room.",
)
INTERMEDIATE_RESULT_SHARING = ConfigOption[Audience](
    "intermediate-result-storage.sharing",
    _parse_sharing,
    "one of " + ", ".join(_SHARING),
    lambda: Audience.USER,
    "`private`",
    "Who finds kept results, and whose are found: the same user alone, the group of the storage "
    "directory, or all users of the machine. Never who may not read the sources.",
)
IMPLICIT_CACHE_ENABLED = ConfigOption[bool](
    "implicit-cache.enabled",
    parse_boolean,
    "true or false",
    lambda: False,
    "`false`",
    "Whether queries reuse shuffles and broadcasts of the session's earlier queries, and results "
    "that queries compute again and again are kept, unasked.",
)
IMPLICIT_CACHE_RESULTS_ENABLED = ConfigOption[bool](
    "implicit-cache.results.enabled",
    parse_boolean,
    "true or false",
    lambda: True,
    "`true`",
    "Whether results are kept unasked; otherwise nothing is written: shuffles alone are reused.",
)
IMPLICIT_CACHE_RESULTS_LIFETIME = ConfigOption[timedelta | None](
    "implicit-cache.results.lifetime",
    _parse_lifetime,
    f"{_OF_APPLICATION!r}, or a duration above zero, such as 7 d",
    lambda: timedelta(days=1),
    "`1 d`",
    "How long results that are kept unasked stay after their last use.",
)
IMPLICIT_CACHE_RESULTS_MIN_SAVED_TIME = ConfigOption[timedelta](
    "implicit-cache.results.min-saved-time",
    parse_duration,
    "a duration, such as 500 ms",
    lambda: timedelta(seconds=1),
    "`1 s`",
    "How much task time a result must have saved past queries, had it been kept before, so that it "
    "is kept unasked.",
)
IMPLICIT_CACHE_RESULTS_CLOSE_TIMEOUT = ConfigOption[timedelta](
    "implicit-cache.results.close-timeout",
    parse_duration,
    "a duration, such as 30 s",
    timedelta,
    "`0 s`",
    "How long the end of a program waits for what is being produced while it is idle; what isn't "
    "finished by then is given up.",
)
IMPLICIT_CACHE_LIVE_SHUFFLES_MAX_SIZE = ConfigOption[MaxSize](
    "implicit-cache.live-shuffles.max-size",
    _parse_max_size,
    "a memory size above zero, such as 10 gb, or a share of the disk, such as 25%",
    lambda: MaxSize(share=_SHARE_FOR_SHUFFLES),
    f"`{_SHARE_FOR_SHUFFLES:.0%}`",
    "How many bytes of shuffles a session holds for its later queries, or which share of the space "
    "that is free on the driver's local disk or theirs.",
)
CATALOG_URL = ConfigOption[str | None](
    "catalog.url",
    _parse_catalog,
    "sqlite:////path/of/a/file, postgresql+psycopg://user@host/database, or none",
    lambda: _IN_THE_DIRECTORY,
    "an SQLite file in the storage directory; on a cluster none",
    "The database through which programs share results; `none` for no sharing.",
)

TASK_EXECUTOR_ADDRESSES = ConfigOption[tuple[str, ...]](
    "taskexecutor.addresses",
    parse_addresses,
    "a comma-separated list of distinct task executor addresses, each host:port",
    tuple,
    "none",
    "The task executors of a cluster, one per Spark worker node. If none are given, this process "
    "keeps results itself, in `intermediate-result-storage.directory`.",
)
TASK_EXECUTOR_TOKEN_FILE = ConfigOption[str | None](
    "taskexecutor.token-file",
    _parse_optional_path,
    "the path of a file on this machine, or file:///path",
    lambda: None,
    "the environment variable `HOLDFAST_TOKEN`",
    "The file that holds the shared secret of the task executors and their clients.",
)
HEARTBEAT_INTERVAL = ConfigOption[timedelta](
    "heartbeat.interval",
    parse_positive_duration,
    "a duration above zero, such as 10 s",
    lambda: timedelta(seconds=10),
    "`10 s`",
    "The interval between heartbeats to the task executors.",
)
HEARTBEAT_TIMEOUT = ConfigOption[timedelta](
    "heartbeat.timeout",
    parse_positive_duration,
    "a duration above zero, such as 50 s",
    lambda: timedelta(seconds=50),
    "`50 s`",
    "Time without a heartbeat after which a task executor releases an application's partitions.",
)

JOB_RECOVERY_ENABLED = ConfigOption[bool](
    "execution.batch.job-recovery.enabled",
    parse_boolean,
    "true or false",
    lambda: False,
    "`false`",
    "Whether a job resumes where it stopped when its killed program is restarted.",
)
JOB_RECOVERY_AFTER_ERRORS = ConfigOption[bool](
    "execution.batch.job-recovery.after-errors",
    parse_boolean,
    "true or false",
    lambda: False,
    "`false`",
    "Whether jobs also resume after a program that ended with an exception of its own.",
)
PREVIOUS_WORKER_RECOVERY_TIMEOUT = ConfigOption[timedelta](
    "execution.batch.job-recovery.previous-worker.recovery.timeout",
    parse_positive_duration,
    "a duration above zero, such as 30 s",
    lambda: timedelta(seconds=30),
    "`30 s`",
    "How long a resumed job waits for its previous task executors.",
)
COORDINATOR_SNAPSHOT_MIN_PAUSE = ConfigOption[timedelta](
    "execution.batch.job-recovery.operator-coordinator-snapshot.min-pause",
    parse_duration,
    "a duration, such as 3 min",
    lambda: timedelta(minutes=3),
    "`3 min`",
    "Minimum time between two snapshots of how a source has split its data.",
)
JOB_RECOVERY_RETENTION = ConfigOption[timedelta](
    "execution.batch.job-recovery.retention",
    parse_positive_duration,
    "a duration above zero, such as 24 h",
    lambda: timedelta(hours=24),
    "`24 h`",
    "How long task executors keep a job's partitions after the last heartbeat of its driver.",
)
JOB_RECOVERY_MIN_VERTEX_INPUT = ConfigOption[int](
    "execution.batch.job-recovery.min-vertex-input",
    parse_memory_size,
    "a memory size, such as 64 mb",
    lambda: 64 << 20,
    "`64 mb`",
    "Minimum input size of a part of a job for its result to be kept until the job ends.",
)
JOB_RECOVERY_TASK_TIME = ConfigOption[timedelta](
    "execution.batch.job-recovery.task-time",
    parse_duration,
    "a duration, such as 1 s",
    lambda: timedelta(seconds=1),
    "`1 s`",
    "How long a task of a recoverable job is expected to take at most, or a twentieth of the job's "
    "expected time (a tenth where rows are grouped as they are read), if that is longer; it is "
    "given less data accordingly. With 0, tasks are those of Spark.",
)
EVENT_STORE_WRITE_BUFFER_SIZE = ConfigOption[int](
    "job-event.store.write-buffer.size",
    parse_positive_memory_size,
    "a memory size above zero, such as 1M or 512 kb",
    lambda: 1 << 20,
    "`1M`",
    "How much of a job's recorded events is buffered before they are flushed.",
)
EVENT_STORE_FLUSH_INTERVAL = ConfigOption[timedelta](
    "job-event.store.write-buffer.flush-interval",
    parse_positive_duration,
    "a duration above zero, such as 1 s",
    lambda: timedelta(seconds=1),
    "`1 s`",
    "Maximum time before buffered events are flushed.",
)
HIGH_AVAILABILITY_STORAGE_DIR = ConfigOption[Path | None](
    "high-availability.storageDir",
    _parse_storage_directory,
    "a directory accessible from every machine where the driver may start, as file:///path",
    lambda: None,
    "none",
    "Where jobs are recorded for recovery; required for job recovery. Must be accessible from "
    "every machine where the driver may start.",
)
PIPELINE_NAME = ConfigOption[str | None](
    "pipeline.name",
    _parse_name,
    "a name that is not empty",
    lambda: None,
    "none",
    "The name by which a changed program finds its unfinished jobs.",
)

ALL_OPTIONS: tuple[ConfigOption[Any], ...] = (
    INTERMEDIATE_RESULT_DIRECTORY,
    INTERMEDIATE_RESULT_COMPRESSION,
    INTERMEDIATE_RESULT_MERGE_PARTITIONS,
    INTERMEDIATE_RESULT_VERIFY_FRACTION,
    INTERMEDIATE_RESULT_LIFETIME,
    INTERMEDIATE_RESULT_SHARE_AMBIGUOUS,
    INTERMEDIATE_RESULT_MAX_SIZE,
    INTERMEDIATE_RESULT_SHARING,
    IMPLICIT_CACHE_ENABLED,
    IMPLICIT_CACHE_RESULTS_ENABLED,
    IMPLICIT_CACHE_RESULTS_LIFETIME,
    IMPLICIT_CACHE_RESULTS_MIN_SAVED_TIME,
    IMPLICIT_CACHE_RESULTS_CLOSE_TIMEOUT,
    IMPLICIT_CACHE_LIVE_SHUFFLES_MAX_SIZE,
    CATALOG_URL,
    TASK_EXECUTOR_ADDRESSES,
    TASK_EXECUTOR_TOKEN_FILE,
    HEARTBEAT_INTERVAL,
    HEARTBEAT_TIMEOUT,
    JOB_RECOVERY_ENABLED,
    JOB_RECOVERY_AFTER_ERRORS,
    PREVIOUS_WORKER_RECOVERY_TIMEOUT,
    COORDINATOR_SNAPSHOT_MIN_PAUSE,
    JOB_RECOVERY_RETENTION,
    JOB_RECOVERY_MIN_VERTEX_INPUT,
    JOB_RECOVERY_TASK_TIME,
    EVENT_STORE_WRITE_BUFFER_SIZE,
    EVENT_STORE_FLUSH_INTERVAL,
    HIGH_AVAILABILITY_STORAGE_DIR,
    PIPELINE_NAME,
)
"""All configuration options."""


class Configuration:
    """Configuration values by key, each of its key's type.

    Args:
        values: parsed values by key.
    """

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = dict(values)

    @classmethod
    def merged(cls, spark: Mapping[str, str], explicit: Mapping[str, object]) -> Configuration:
        """Merges a Spark configuration with explicit values.

        Args:
            spark: a Spark configuration; keys without the prefix `spark.holdfast.` are ignored.
            explicit: values by key; they take precedence.

        Raises:
            ConfigurationError: when a key is unknown, a value is not of its key's type, or job
                recovery is enabled without a storage directory.

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
                f"{JOB_RECOVERY_ENABLED.key} is enabled, which requires {where.expected}",
            )
        return merged

    def lifetime(self, given: object = None) -> float | None:
        """How long a result stays after its last use, in seconds; None: as its application does.

        Args:
            given: what was asked for; None: what is configured.

        Raises:
            ConfigurationError: when it is no lifetime.

        >>> Configuration({}).lifetime("7 d")
        604800.0
        """
        option = INTERMEDIATE_RESULT_LIFETIME
        lifetime = self.get(option) if given is None else _parsed(option.key, given)
        return lifetime.total_seconds() if isinstance(lifetime, timedelta) else None

    def get(self, option: ConfigOption[T]) -> T:
        """The value of a key, or its default."""
        if option.key in self._values:
            return cast(T, self._values[option.key])
        return option.default()


def check_values(values: Mapping[str, object]) -> None:
    """Checks values by key, each for itself; no session is needed for that.

    Raises:
        ConfigurationError: when a key is unknown, or a value is not of its key's type.

    >>> check_values({"heartbeat.interval": "10 s"})
    """
    for key, value in values.items():
        _parsed(key, value)


def _parsed(key: str, value: object) -> object:
    options = {option.key: option for option in ALL_OPTIONS}
    option = options.get(key)
    if option is None:
        near = difflib.get_close_matches(key, options, n=1)
        expected = f"did you mean {near[0]!r}?" if near else f"known keys are {sorted(options)}"
        raise ConfigurationError(key, value, f"unknown key; {expected}")
    try:
        return option.parse(value)
    except (ValueError, TypeError):
        raise ConfigurationError(key, value, f"expected {option.expected}") from None

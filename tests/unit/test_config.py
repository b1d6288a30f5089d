from __future__ import annotations

import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast.config import (
    ALL_OPTIONS,
    COORDINATOR_SNAPSHOT_MIN_PAUSE,
    EVENT_STORE_FLUSH_INTERVAL,
    EVENT_STORE_WRITE_BUFFER_SIZE,
    HIGH_AVAILABILITY_STORAGE_DIR,
    INTERMEDIATE_RESULT_COMPRESSION,
    INTERMEDIATE_RESULT_DIRECTORY,
    JOB_RECOVERY_ENABLED,
    JOB_RECOVERY_RETENTION,
    PIPELINE_NAME,
    PREVIOUS_WORKER_RECOVERY_TIMEOUT,
    Compression,
    ConfigOption,
    Configuration,
)
from holdfast.errors import ConfigurationError

DIRECTORY = "intermediate-result-storage.directory"
COMPRESSION = "intermediate-result-storage.compression"
RECOVERY = "execution.batch.job-recovery"
BUFFER = "job-event.store.write-buffer"
STORAGE_DIR = "high-availability.storageDir"


def test_defaults_are_those_that_are_documented() -> None:
    conf = Configuration.merged({}, {})
    home = Path(conf.get(INTERMEDIATE_RESULT_DIRECTORY))
    assert home == Path(tempfile.gettempdir(), f"holdfast-{os.getuid()}")
    assert conf.get(INTERMEDIATE_RESULT_COMPRESSION) is Compression.ZSTD


@pytest.mark.parametrize(
    ("option", "key", "default", "written", "expected"),
    [
        (JOB_RECOVERY_ENABLED, f"{RECOVERY}.enabled", False, "False", False),
        (
            PREVIOUS_WORKER_RECOVERY_TIMEOUT,
            f"{RECOVERY}.previous-worker.recovery.timeout",
            timedelta(seconds=30),
            "1 min",
            timedelta(minutes=1),
        ),
        (
            COORDINATOR_SNAPSHOT_MIN_PAUSE,
            f"{RECOVERY}.operator-coordinator-snapshot.min-pause",
            timedelta(minutes=3),
            "0",
            timedelta(0),
        ),
        (
            JOB_RECOVERY_RETENTION,
            f"{RECOVERY}.retention",
            timedelta(hours=24),
            "2 d",
            timedelta(days=2),
        ),
        (EVENT_STORE_WRITE_BUFFER_SIZE, f"{BUFFER}.size", 1_048_576, "512 kb", 524_288),
        (
            EVENT_STORE_FLUSH_INTERVAL,
            f"{BUFFER}.flush-interval",
            timedelta(seconds=1),
            "200 ms",
            timedelta(milliseconds=200),
        ),
        (HIGH_AVAILABILITY_STORAGE_DIR, STORAGE_DIR, None, "file:///data/ha", Path("/data/ha")),
        (HIGH_AVAILABILITY_STORAGE_DIR, STORAGE_DIR, None, Path("/data/ha"), Path("/data/ha")),
        (PIPELINE_NAME, "pipeline.name", None, " nightly ", "nightly"),
    ],
    ids=lambda value: value.key if isinstance(value, ConfigOption) else "",
)
def test_job_recovery_has_the_seed_s_names_types_and_defaults(
    option: ConfigOption[Any], key: str, default: object, written: object, expected: object
) -> None:
    assert option.key == key
    assert Configuration.merged({}, {}).get(option) == default
    assert Configuration.merged({}, {key: written}).get(option) == expected
    if isinstance(written, str):
        assert Configuration.merged({f"spark.holdfast.{key}": written}, {}).get(option) == expected


def test_recovery_needs_a_place_to_record_jobs() -> None:
    enabled = f"{RECOVERY}.enabled"
    for spark, explicit in (
        ({}, {enabled: True}),
        ({f"spark.holdfast.{enabled}": "true"}, {}),
        ({}, {enabled: True, STORAGE_DIR: None}),
    ):
        message = f"{enabled} is enabled, which requires"
        with pytest.raises(ConfigurationError, match=message) as raised:
            Configuration.merged(spark, explicit)
        assert (raised.value.key, raised.value.value) == (STORAGE_DIR, None)
    conf = Configuration.merged({f"spark.holdfast.{STORAGE_DIR}": "/ha"}, {enabled: "true"})
    assert conf.get(JOB_RECOVERY_ENABLED)


def test_the_default_directory_follows_the_system_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert Path(INTERMEDIATE_RESULT_DIRECTORY.default()).parent == tmp_path


def test_spark_s_configuration_counts_with_the_prefix_alone() -> None:
    conf = Configuration.merged(
        {f"spark.holdfast.{COMPRESSION}": "LZ4_RAW", "spark.app.name": "x", DIRECTORY: "/other"},
        {},
    )
    assert conf.get(INTERMEDIATE_RESULT_COMPRESSION) is Compression.LZ4_RAW
    assert conf.get(INTERMEDIATE_RESULT_DIRECTORY) != "/other"


def test_what_is_explicit_takes_precedence_over_spark_s_configuration() -> None:
    conf = Configuration.merged(
        {f"spark.holdfast.{COMPRESSION}": "snappy"}, {COMPRESSION: Compression.UNCOMPRESSED}
    )
    assert conf.get(INTERMEDIATE_RESULT_COMPRESSION) is Compression.UNCOMPRESSED


def test_a_directory_may_be_a_path_and_start_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    for given in ("~/kept", Path("~/kept")):
        conf = Configuration.merged({}, {DIRECTORY: given})
        assert conf.get(INTERMEDIATE_RESULT_DIRECTORY) == "/home/somebody/kept"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("intermediate-result-storage.verify-fraction", "5%", "a number from 0 to 1"),
        (COMPRESSION, "gzip", "zstd, lz4_raw, snappy, uncompressed"),
        (COMPRESSION, None, "zstd, lz4_raw, snappy, uncompressed"),
        (DIRECTORY, "  ", "the path of a directory"),
        (DIRECTORY, 7, "the path of a directory"),
        ("execution.batch.job-recovery.enabled", "yes", "true or false"),
        (f"{RECOVERY}.previous-worker.recovery.timeout", "0 s", "above zero, such as 30 s"),
        (f"{RECOVERY}.operator-coordinator-snapshot.min-pause", "soon", "such as 3 min"),
        (f"{RECOVERY}.retention", 0, "above zero, such as 24 h"),
        (f"{BUFFER}.size", "0", "above zero, such as 1M or 512 kb"),
        (f"{BUFFER}.flush-interval", "1 fortnight", "above zero, such as 1 s"),
        (STORAGE_DIR, "hdfs://name/ha", "a directory accessible from every machine"),
        (STORAGE_DIR, 7, "as file:///path"),
        ("pipeline.name", " ", "a name that is not empty"),
    ],
)
def test_an_ill_typed_value_is_named_with_its_key_and_what_was_expected(
    key: str, value: object, expected: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Configuration.merged({}, {key: value})
    assert (raised.value.key, raised.value.value) == (key, value)
    for part in (key, repr(value), expected):
        assert part in str(raised.value)


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigurationError, match=f"did you mean '{COMPRESSION}'"):
        Configuration.merged({}, {"intermediate-result-storage.compresion": "zstd"})
    with pytest.raises(ConfigurationError, match=f"did you mean '{DIRECTORY}'"):
        Configuration.merged({"spark.holdfast.intermediate-result.directory": "/x"}, {})


def test_a_key_that_resembles_none_is_told_all_of_them() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Configuration.merged({}, {"zzz": 1})
    for option in ALL_OPTIONS:
        assert option.key in str(raised.value)


def test_every_option_is_named_once_described_and_parses_its_own_default() -> None:
    keys = [option.key for option in ALL_OPTIONS]
    assert len(keys) == len(set(keys))
    for option in ALL_OPTIONS:
        default = option.default()
        assert option.parse(default) == default
        assert option.description.endswith(".")
        assert option.shown_default
        assert option.expected

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from holdfast.config import (
    ALL_OPTIONS,
    INTERMEDIATE_RESULT_COMPRESSION,
    INTERMEDIATE_RESULT_DIRECTORY,
    Compression,
    Configuration,
)
from holdfast.errors import ConfigurationError

DIRECTORY = "intermediate-result-storage.directory"
COMPRESSION = "intermediate-result-storage.compression"


def test_defaults_are_those_that_are_documented() -> None:
    conf = Configuration.merged({}, {})
    home = Path(conf.get(INTERMEDIATE_RESULT_DIRECTORY))
    assert home == Path(tempfile.gettempdir(), f"holdfast-{os.getuid()}")
    assert conf.get(INTERMEDIATE_RESULT_COMPRESSION) is Compression.ZSTD


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
        (COMPRESSION, "gzip", "zstd, lz4_raw, snappy, uncompressed"),
        (COMPRESSION, None, "zstd, lz4_raw, snappy, uncompressed"),
        (DIRECTORY, "  ", "the path of a directory"),
        (DIRECTORY, 7, "the path of a directory"),
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

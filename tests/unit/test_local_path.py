"""Where users name a place: paths and `file:` URLs of this machine, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config import ALL_OPTIONS, Configuration
from holdfast.errors import ConfigurationError
from holdfast.files.local_path import local_path

PLACES = (
    "intermediate-result-storage.directory",
    "high-availability.storageDir",
    "taskexecutor.token-file",
)
UNSUPPORTED = (
    "s3://bucket/x| s3a://bucket/x|hdfs://name/x|hdfs:/x|dbfs:/x|file://elsewhere/x|file:////x|"
    "file:x|file:|s3:/x|file:///x#y|file:///x?y|file:///x%zz|file:///x%00|file:///x%ff|"
    "~nobody-of-this-name/x|| \n|/x\0y"
).split("|")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/x", "/data/x"),
        ("file:///data/x", "/data/x"),
        ("FILE:/data/x", "/data/x"),
        ("file://localhost/data/x", "/data/x"),
        ("file:///data/my%20results/%C3%A9+", "/data/my results/é+"),
        ("/data/my%20results", "/data/my%20results"),
        (" /data/x\n", "/data/x"),
        ("~/x", "/home/somebody/x"),
        ("x/y", "{here}/x/y"),
        ("12:30/x", "{here}/12:30/x"),
    ],
)
def test_a_place_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, path: str
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.chdir(tmp_path)
    expected = path.format(here=tmp_path)
    assert local_path(text) == Path(expected)
    for option in ALL_OPTIONS:
        if option.key in PLACES:
            assert str(Configuration.merged({}, {option.key: text}).get(option)) == expected


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_a_place_elsewhere_is_refused(text: str) -> None:
    for key in PLACES:
        with pytest.raises(ConfigurationError) as raised:
            Configuration.merged({}, {key: text})
        for part in (key, repr(text), "file:///path"):
            assert part in str(raised.value)

"""A partition's file has another version after a write to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.storage.partition_version import modified_ns, version_of


def test_a_file_that_was_written_to_has_another_version(tmp_path: Path) -> None:
    file = tmp_path / "part"
    file.write_bytes(b"12")
    os.utime(file, ns=(5, 5))
    first = version_of(file.stat())
    assert modified_ns(first) == 5
    assert version_of(file.stat()) == first
    os.utime(file, ns=(6, 6))
    assert version_of(file.stat()) != first
    file.write_bytes(b"123")
    os.utime(file, ns=(5, 5))
    assert version_of(file.stat()) != first


@pytest.mark.parametrize(
    "version", ["", "-", "7", "7-", "-5", "7-5-", "a-b", "etag", "1-" + "9" * 30]
)
def test_what_is_no_file_s_version_tells_no_time(version: str) -> None:
    assert modified_ns(version) is None

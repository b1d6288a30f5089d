"""What is written durably is on the disk before it is visible, and so is its name afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.files.durable_files import create_once, write_atomically, write_durably, write_once

CONTENT = b"all of it"
WRITES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "atomically": (lambda path: write_atomically(path, CONTENT), ["content"]),
    "durably": (lambda path: write_durably(path, CONTENT), ["content", "name"]),
    "once": (lambda path: write_once(path, CONTENT), ["content", "name"]),
    "empty": (create_once, ["name"]),
}


@pytest.mark.parametrize(("write", "expected"), WRITES.values(), ids=WRITES.keys())
def test_a_machine_that_stops_leaves_all_of_a_file_or_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path], object],
    expected: list[str],
) -> None:
    path, synced = tmp_path / "file", list[str]()

    def sync(descriptor: int) -> None:
        on_disk = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if on_disk.is_file():
            assert not path.exists() and on_disk.read_bytes() == CONTENT
        synced.append("content" if on_disk.is_file() else "name" if path.exists() else "nothing")

    monkeypatch.setattr(os, "fsync", sync)
    write(path)
    assert synced == expected
    assert [each.name for each in tmp_path.iterdir()] == ["file"]

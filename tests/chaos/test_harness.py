"""The harness itself: what it must notice, it notices."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path

from tests.chaos.rows import Difference, read_rows, times
from tests.chaos.watching_reader import WatchingReader

SECONDS = 60


def test_lost_doubled_and_strange_rows_are_counted() -> None:
    expected = Counter({("a",): 2, ("b",): 1, ("c",): 1})
    assert not Difference.between(expected, Counter(expected))
    found = Counter({("a",): 1, ("b",): 4, ("x",): 2})
    assert Difference.between(expected, found) == Difference(lost=2, doubled=3, strange=2)


def test_rows_of_hidden_files_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    (tmp_path / "k=1" / "part-0").write_text("a\nb\n")
    for name in ("_SUCCESS", ".part-0.crc", "_temporary"):
        (tmp_path / "k=1" / name).write_text("hidden\n")
    assert read_rows(tmp_path, "text") == Counter({("k=1", "a"): 1, ("k=1", "b"): 1})
    assert read_rows(tmp_path / "absent", "text") == Counter()
    assert times(Counter({("a",): 2}), 0) == Counter()


def test_a_reader_sees_what_is_half_there(tmp_path: Path) -> None:
    target, aside = tmp_path / "target", tmp_path / "aside"
    with WatchingReader(target, tmp_path / "seen") as reader:
        _wait_for_sightings(reader, 1)
        target.mkdir()
        for number, name in enumerate(("1", "2"), start=2):
            # A file that is opened and written at its place may rightly be seen empty between.
            aside.write_text(f"{name}\n")
            aside.rename(target / name)
            _wait_for_sightings(reader, number)
    seen = [read_rows(each.files, "text").total() for each in reader.sightings]
    assert seen == [0, 1, 2]


def _wait_for_sightings(reader: WatchingReader, count: int) -> None:
    deadline = time.monotonic() + SECONDS
    while len(reader.sightings) < count:
        assert time.monotonic() < deadline, f"{len(reader.sightings)} of {count} sightings"
        time.sleep(0.001)


def test_a_reader_sees_a_directory_that_is_replaced_as_one(tmp_path: Path) -> None:
    target = tmp_path / "target"
    contents = {}
    with WatchingReader(target, tmp_path / "seen") as reader:
        for number in range(40):
            new = tmp_path / f"new-{number}"
            for name in range(20):
                (new / f"k={name}").mkdir(parents=True)
                (new / f"k={name}" / "file").write_text(f"{number}\n")
            contents[number] = read_rows(new, "text")
            old = tmp_path / f"old-{number}"
            if target.exists():
                target.rename(old)
            new.rename(target)
            shutil.rmtree(old, ignore_errors=True)
    seen = [read_rows(each.files, "text") for each in reader.sightings]
    assert len(seen) > 1
    assert all(not rows or rows in contents.values() for rows in seen)
    assert seen[-1] == contents[39]

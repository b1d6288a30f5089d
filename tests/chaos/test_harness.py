"""The harness itself: what it must notice, it notices."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.chaos.rows import Difference, read_rows, times
from tests.chaos.watching_reader import WatchingReader
from tests.harness.waiting import wait_for

SECONDS = 60


def test_lost_doubled_strange_and_hidden_rows_are_distinguished(tmp_path: Path) -> None:
    expected = Counter({("a",): 2, ("b",): 1, ("c",): 1})
    assert not Difference.between(expected, Counter(expected))
    found = Counter({("a",): 1, ("b",): 4, ("x",): 2})
    assert Difference.between(expected, found) == Difference(lost=2, doubled=3, strange=2)
    (tmp_path / "k=1").mkdir()
    (tmp_path / "k=1" / "part-0").write_text("a\nb\n")
    for name in ("_SUCCESS", ".part-0.crc", "_temporary"):
        (tmp_path / "k=1" / name).write_text("hidden\n")
    assert read_rows(tmp_path, "text") == Counter({("k=1", "a"): 1, ("k=1", "b"): 1})
    assert read_rows(tmp_path / "absent", "text") == times(expected, 0) == Counter()


def test_a_reader_sees_what_is_half_there(tmp_path: Path) -> None:
    target, aside = tmp_path / "target", tmp_path / "aside"
    with WatchingReader(target, tmp_path / "seen") as reader:

        def sees(count: int) -> bool:
            return bool(wait_for(lambda: len(reader.sightings) >= count or None, SECONDS))

        assert sees(1)
        target.mkdir()
        for number, name in enumerate(("1", "2"), start=2):
            # A file that is opened and written at its place may rightly be seen empty between.
            aside.write_text(f"{name}\n")
            aside.rename(target / name)
            assert sees(number)
    assert [read_rows(each.files, "text").total() for each in reader.sightings] == [0, 1, 2]

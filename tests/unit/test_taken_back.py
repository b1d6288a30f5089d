"""What a job has published is replaced by its next start, in one step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import SinkError
from holdfast.ids import JobID
from holdfast.runtime.recovery.job_sink import write_once
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.sink_start import SinkStart
from holdfast.sinks.taken_back import can_be_taken_back, take_back, targets
from tests.unit.test_directory_sink import FileJournal, contents, current, put


@pytest.fixture
def journal(tmp_path: Path) -> FileJournal:
    return FileJournal(tmp_path / "journal")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "data" / "out"


class Starts:
    """Starts of one job, one after another."""

    def __init__(self, out: Path, mode: SinkMode, journal: FileJournal) -> None:
        self.sink = DirectorySink(out, mode, grace_seconds=0)
        self.journal = journal
        self.epoch = 0

    def write(self, files: dict[str, str], *, ends: bool = True) -> bool:
        start = self._next()
        written = write_once(self.sink, start, current, lambda path: put(Path(path), files))
        if ends:
            self.sink.forget(start)
        return written

    def take_back(self) -> None:
        self.sink.settle(self._next())
        take_back(self.journal)

    def _next(self) -> SinkStart:
        self.epoch += 1
        return SinkStart(JobID("ab" * 16), self.epoch, self.journal)


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("mode", list(SinkMode))
def test_new_rows_take_the_place_of_those_of_an_earlier_start(
    out: Path, journal: FileJournal, mode: SinkMode, ends: bool
) -> None:
    before = {"other": "x"} if mode in (SinkMode.APPEND, SinkMode.OVERWRITE) else {}
    if before:
        put(out, before)
    starts = Starts(out, mode, journal)
    assert starts.write({"k=1/old": "a", "_SUCCESS": ""}, ends=ends)
    assert can_be_taken_back(journal.read()) and targets(journal.read()) == (out,)
    starts.take_back()
    assert "k=1/old" in contents(out)
    # What comes meanwhile from others stays.
    put(out, {"theirs": "x"})
    assert starts.write({"k=1/new": "b", "k=2/new": "c", "_SUCCESS": ""})
    new = {"k=1/new": "b", "k=2/new": "c", "_SUCCESS": ""}
    others = {} if mode is SinkMode.OVERWRITE else {"theirs": "x"}
    assert contents(out) == {**new, **others, **(before if mode is SinkMode.APPEND else {})}
    assert [path.name for path in out.parent.iterdir()] == [out.name]


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_text("more rows")])
def test_rows_that_others_have_changed_are_not_taken_back(
    out: Path, journal: FileJournal, change: Callable[[Path], object]
) -> None:
    starts = Starts(out, SinkMode.APPEND, journal)
    starts.write({"old": "a"})
    change(out / "old")
    there = contents(out)
    assert not can_be_taken_back(journal.read())
    with pytest.raises(SinkError, match="can't be distinguished from"):
        starts.take_back()
    assert contents(out) == there


def test_rows_that_others_change_at_the_last_moment_are_not_taken_back(
    out: Path, journal: FileJournal
) -> None:
    starts = Starts(out, SinkMode.APPEND, journal)
    starts.write({"old": "a"})
    starts.take_back()
    (out / "old").rename(out / "compacted")
    with pytest.raises(SinkError, match="Nothing was changed"):
        starts.write({"new": "b"})
    assert contents(out) == {"compacted": "a"}
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_a_directory_that_was_left_alone_is_left_alone(out: Path, journal: FileJournal) -> None:
    put(out, {"theirs": "x"})
    starts = Starts(out, SinkMode.IGNORE, journal)
    for _ in range(2):
        assert not starts.write({"new": "b"})
        assert can_be_taken_back(journal.read())
        starts.take_back()
    assert contents(out) == {"theirs": "x"}

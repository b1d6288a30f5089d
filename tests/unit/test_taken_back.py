"""What a job has published is replaced by its next start, in one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import SinkError
from holdfast.runtime.recovery.job_sink import SinkStart, write_once
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.taken_back import can_be_taken_back, take_back, targets
from tests.unit.test_directory_sink import JOB, FileJournal, assert_tidy, contents, current, put


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

    def dies_while_writing(self, files: dict[str, str]) -> None:
        path = self.sink.open(self._next())
        assert path is not None
        put(Path(path), files)

    def _next(self) -> SinkStart:
        self.epoch += 1
        return SinkStart(JOB, self.epoch, self.journal)


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("mode", list(SinkMode))
def test_new_rows_take_the_place_of_those_of_an_earlier_start(
    out: Path, journal: FileJournal, mode: SinkMode, ends: bool
) -> None:
    before = {"other": "x"} if mode in (SinkMode.APPEND, SinkMode.OVERWRITE) else {}
    put(out, before) if before else None
    starts = Starts(out, mode, journal)
    assert starts.write({"k=1/old": "a", "_SUCCESS": ""}, ends=ends)
    assert can_be_taken_back(journal.read())
    assert targets(journal.read()) == (out,)
    starts.take_back()
    assert "k=1/old" in contents(out)
    starts.dies_while_writing({"half": "b"})
    assert starts.write({"k=1/new": "b", "k=2/new": "c", "_SUCCESS": ""})
    kept = before if mode is SinkMode.APPEND else {}
    assert contents(out) == {"k=1/new": "b", "k=2/new": "c", "_SUCCESS": "", **kept}
    assert_tidy(out)


def test_what_others_have_added_stays(out: Path, journal: FileJournal) -> None:
    starts = Starts(out, SinkMode.ERROR, journal)
    starts.write({"old": "a"})
    put(out, {"theirs": "x"})
    starts.take_back()
    starts.write({"new": "b"})
    assert contents(out) == {"theirs": "x", "new": "b"}


def test_a_directory_that_was_left_alone_is_left_alone(out: Path, journal: FileJournal) -> None:
    put(out, {"theirs": "x"})
    starts = Starts(out, SinkMode.IGNORE, journal)
    assert not starts.write({"old": "a"})
    assert can_be_taken_back(journal.read())
    starts.take_back()
    assert not starts.write({"new": "b"})
    assert contents(out) == {"theirs": "x"}


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_text("more rows")])
def test_rows_that_others_have_changed_are_not_taken_back(
    out: Path, journal: FileJournal, change: object
) -> None:
    starts = Starts(out, SinkMode.APPEND, journal)
    starts.write({"old": "a"})
    change(out / "old")  # type: ignore[operator]
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
    assert_tidy(out)


def test_an_empty_journal_has_nothing_to_take_back() -> None:
    assert not can_be_taken_back("")
    assert targets("") == ()

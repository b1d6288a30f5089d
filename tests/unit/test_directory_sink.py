"""A sink's directory: what is in it afterwards, and when a sink refuses."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import SinkError, SinkTargetExistsError
from holdfast.ids import JobID
from holdfast.runtime.recovery.job_sink import write_once
from holdfast.sinks.directory_renames import DirectoryRenames, KernelRenames, TwoRenames
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.sink_start import SinkStart
from holdfast.sinks.unpublishable import why_unpublishable

APPEND, OVERWRITE, ERROR, IGNORE = SinkMode
Files = dict[str, str]
JOB = JobID("ab12" * 8)


class FileJournal:
    """A journal in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> str:
        return self._path.read_text() if self._path.exists() else ""

    def write(self, text: str) -> None:
        self._path.write_text(text)


@pytest.fixture
def journal(tmp_path: Path) -> FileJournal:
    return FileJournal(tmp_path / "journal")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "data" / "out"


def put(directory: Path | str, files: Files) -> None:
    for name, text in files.items():
        path = Path(directory, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def contents(directory: Path) -> Files:
    """Everything in a directory, hidden or not."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): path.read_text() for path in files}


def current() -> None:
    """No other start has taken over."""


def start_of(journal: FileJournal, epoch: int = 1) -> SinkStart:
    return SinkStart(JOB, epoch, journal)


def publish(
    sink: DirectorySink, journal: FileJournal, files: Files, epoch: int = 1, end: bool = True
) -> bool:
    start = start_of(journal, epoch)
    written = write_once(sink, start, current, lambda path: put(path, files))
    if end:
        sink.forget(start)
    return written


def append(out: Path, journal: FileJournal, files: Files, **how: Any) -> bool:
    return publish(DirectorySink(out, APPEND), journal, files, **how)


def assert_tidy(out: Path) -> None:
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def assert_holds(out: Path, files: Files) -> None:
    assert contents(out) == files
    assert_tidy(out)


# -- modes ----------------------------------------------------------------------------------------

NEW = {"part-0": "a", ".part-0.crc": "c", "_SUCCESS": "", "p=1/q=2/part-1": "b"}
HELD = {"part-0": "a", ".part-0.crc": "c", "_SUCCESS": "", "p=1/part-0": "b", "_meta": "m"}
PARTS = {"p=1/q=1/0": "a", "p=1/q=1/1": "a", "p=1/q=2/0": "b", "p=2/q=1/0": "c", "_SUCCESS": ""}
ONE, TWO = {"part-0": "a"}, {"p=1/part-1": "d", "_SUCCESS": ""}
OTHER_PARTS = {"p=1/q=1/new": "d", "p=3/q=1/new": "e", "_SUCCESS": ""}
# What it holds before, what is written, and what it holds then.
WRITES: dict[str, tuple[SinkMode, Files, Files, Files]] = {
    **{f"new-{mode.value}": (mode, {}, NEW, NEW) for mode in SinkMode},
    "append": (APPEND, HELD, TWO, HELD | TWO),
    "overwrite": (OVERWRITE, HELD, TWO, TWO),
    "partitions": (OVERWRITE, PARTS, OTHER_PARTS, OTHER_PARTS | dict([*PARTS.items()][2:])),
    "error": (ERROR, ONE, TWO, ONE),
    "ignore": (IGNORE, ONE, TWO, ONE),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_a_directory_holds_after_a_write(out: Path, journal: FileJournal, name: str) -> None:
    mode, before, written, after = WRITES[name]
    put(out, before)
    sink = DirectorySink(out, mode, dynamic_partitions=name == "partitions")
    refused = name == "error"
    with pytest.raises(SinkTargetExistsError, match="out") if refused else nullcontext():
        assert publish(sink, journal, written) is (name != "ignore")
    assert_holds(out, after)


@pytest.mark.parametrize("mode", [ERROR, IGNORE])
def test_a_target_that_turns_up_meanwhile(out: Path, journal: FileJournal, mode: SinkMode) -> None:
    sink = DirectorySink(out, mode)
    path = sink.open(start_of(journal))
    assert path is not None
    put(path, {"part-1": "b"})
    put(out, ONE)
    with pytest.raises(SinkTargetExistsError) if mode is ERROR else nullcontext():
        sink.commit(current)
    sink.abort()
    assert_holds(out, ONE)


@pytest.mark.parametrize(
    ("mode", "renames"), [(APPEND, KernelRenames()), (OVERWRITE, TwoRenames())]
)
def test_a_target_that_comes_or_goes_while_it_is_published(
    out: Path, journal: FileJournal, mode: SinkMode, renames: DirectoryRenames
) -> None:
    sink = DirectorySink(out, mode, renames=renames, grace_seconds=0)
    path = sink.open(start_of(journal))
    assert path is not None
    put(path, {"part-1": "b"})
    asked = []

    def check() -> None:
        asked.append(out.exists())
        if len(asked) == 1:
            put(out, ONE)
        elif len(asked) == 2:
            (out / "part-0").unlink()
            out.rmdir()

    sink.commit(check)
    assert asked == [False, True, False]
    sink.forget(start_of(journal))
    assert_holds(out, {"part-1": "b"})


# -- starts and journals --------------------------------------------------------------------------


def test_rows_beside_a_damaged_marker_count_as_published(out: Path, journal: FileJournal) -> None:
    put(out, ONE)
    append(out, journal, {"part-1": "b"}, end=False)
    next(out.glob(".holdfast-*")).write_text("{")
    assert not append(out, journal, {"part-2": "b"}, epoch=2)
    assert_holds(out, {**ONE, "part-1": "b"})


def test_two_sinks_of_a_job_with_one_target(out: Path, journal: FileJournal) -> None:
    sinks = [DirectorySink(out, APPEND, ordinal=each) for each in range(2)]
    publish(sinks[0], journal, ONE, end=False)
    assert publish(sinks[1], journal, {"part-1": "b"}, epoch=2, end=False)
    assert not publish(sinks[0], journal, {"part-2": "a"}, epoch=3, end=False)
    for sink in sinks:
        sink.forget(start_of(journal, 3))
    assert_holds(out, {**ONE, "part-1": "b"})


def test_what_is_written_again_is_written_once(out: Path, journal: FileJournal) -> None:
    sink = DirectorySink(out, APPEND)

    def write(path: str) -> None:
        put(path, ONE)
        sink.clear()
        put(path, {"part-1": "a"})

    assert write_once(sink, start_of(journal), current, write)
    sink.forget(start_of(journal))
    assert_holds(out, {"part-1": "a"})


@pytest.mark.parametrize("text", ["{", '{"token": "../x"}', "null"])
def test_a_damaged_journal_is_replaced(out: Path, journal: FileJournal, text: str) -> None:
    journal.write(text)
    assert append(out, journal, ONE)
    assert contents(out) == ONE


def test_a_journal_that_cannot_be_read_or_written(
    out: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(SinkError, match="can't determine"):
        append(out, FileJournal(tmp_path), ONE)
    assert append(out, FileJournal(tmp_path / "nowhere" / "journal"), ONE)
    assert "can't record the write" in caplog.text
    assert "part-0" in contents(out)


# -- directories ----------------------------------------------------------------------------------


def test_links_stay_links(out: Path, journal: FileJournal, tmp_path: Path) -> None:
    put(out, ONE)
    put(tmp_path / "elsewhere", {"part-0": "e"})
    (out / "p=1").symlink_to(tmp_path / "elsewhere")
    (out / "dangling").symlink_to("nowhere")
    (tmp_path / "link").symlink_to(out)
    append(tmp_path / "link", journal, {"part-1": "b"})
    assert (tmp_path / "link").is_symlink() and (out / "p=1").is_symlink()
    assert os.readlink(out / "dangling") == "nowhere"
    assert_holds(out, {**ONE, "part-1": "b"})


def test_what_cannot_be_linked_is_copied(
    out: Path, journal: FileJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))

    put(out, ONE)
    monkeypatch.setattr(os, "link", refuse)
    append(out, journal, {"part-1": "b"})
    assert contents(out) == {**ONE, "part-1": "b"}


@pytest.mark.parametrize("mode", [APPEND, OVERWRITE])
def test_permissions_stay(out: Path, journal: FileJournal, mode: SinkMode) -> None:
    put(out, {"p=1/part-0": "a"})
    out.chmod(0o2750)
    (out / "p=1").chmod(0o700)

    def write(path: str) -> None:
        # No other user can look at the rows before they are there, either.
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o2750
        put(path, {"p=2/part-0": "b"})

    assert write_once(DirectorySink(out, mode), start_of(journal), current, write)
    assert stat.S_IMODE(out.stat().st_mode) == 0o2750
    assert mode is OVERWRITE or stat.S_IMODE((out / "p=1").stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127, "a b%20c#?", "[x]*"])
def test_names_of_any_length_and_kind(out: Path, journal: FileJournal, name: str) -> None:
    before = {"part-0": "a", os.fsdecode(b"\xff"): "x"}
    put(out.with_name(name), before)
    append(out.with_name(name), journal, {"part-1": "b"})
    assert_holds(out.with_name(name), {**before, "part-1": "b"})


def test_a_file_of_the_same_name_is_never_replaced(out: Path, journal: FileJournal) -> None:
    put(out, ONE)
    with pytest.raises(SinkError, match="part-0"):
        append(out, journal, {"part-0": "b"})
    assert_holds(out, ONE)


def test_what_cannot_be_published_says_why(tmp_path: Path, journal: FileJournal) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert why_unpublishable(Path("/proc")) == "it is a mount point"
    assert why_unpublishable(file / "out") is not None
    assert why_unpublishable(tmp_path / "a" / "b" / "c") is None
    with pytest.raises(SinkError, match="it is not a directory"):
        append(file, journal, ONE)

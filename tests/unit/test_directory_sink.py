"""A sink's directory: what is in it afterwards, and when a sink refuses."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.errors import SinkError, SinkTargetExistsError
from holdfast.ids import JobID
from holdfast.runtime.recovery.job_sink import JobSink, write_once
from holdfast.sinks.directory_renames import KernelRenames, TwoRenames
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.sink_start import SinkStart
from holdfast.sinks.unpublishable import why_unpublishable

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


def put(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def contents(directory: Path) -> dict[str, str]:
    """Everything in a directory, hidden or not."""
    return {
        str(path.relative_to(directory)): path.read_text()
        for path in directory.rglob("*")
        if path.is_file()
    }


def current() -> None:
    """No other start has taken over."""


def publish(
    sink: JobSink, journal: FileJournal, files: dict[str, str], epoch: int = 1, end: bool = True
) -> bool:
    start = SinkStart(JOB, epoch, journal)
    written = write_once(sink, start, current, lambda path: put(Path(path), files))
    if end:
        sink.forget(start)
    return written


def assert_tidy(out: Path) -> None:
    assert [path.name for path in out.parent.iterdir()] == [out.name]


# -- modes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Write:
    """A write to a directory that holds something before, and what it holds then."""

    mode: SinkMode
    before: dict[str, str]
    written: dict[str, str]
    after: dict[str, str]
    dynamic: bool = False


NEW = {"part-0": "a", ".part-0.crc": "c", "_SUCCESS": "", "p=1/q=2/part-1": "b"}
HELD = {"part-0": "a", ".part-0.crc": "c", "_SUCCESS": "", "p=1/part-0": "b", "_meta": "m"}
ADDED = {"p=1/part-1": "d", "_SUCCESS": ""}
WRITES = {
    **{f"new-{mode.value}": Write(mode, {}, NEW, NEW) for mode in SinkMode},
    "append": Write(SinkMode.APPEND, HELD, ADDED, HELD | ADDED),
    "overwrite": Write(SinkMode.OVERWRITE, HELD, {"p=2/part-1": "d"}, {"p=2/part-1": "d"}),
    "partitions": Write(
        SinkMode.OVERWRITE,
        {"p=1/q=1/0": "a", "p=1/q=1/1": "a", "p=1/q=2/0": "b", "p=2/q=1/0": "c", "_SUCCESS": ""},
        {"p=1/q=1/new": "d", "p=3/q=1/new": "e", "_SUCCESS": ""},
        {
            "p=1/q=1/new": "d",
            "p=1/q=2/0": "b",
            "p=2/q=1/0": "c",
            "p=3/q=1/new": "e",
            "_SUCCESS": "",
        },
        dynamic=True,
    ),
    "error": Write(SinkMode.ERROR, {"part-0": "a"}, {"part-1": "b"}, {"part-0": "a"}),
    "ignore": Write(SinkMode.IGNORE, {"part-0": "a"}, {"part-1": "b"}, {"part-0": "a"}),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_what_a_directory_holds_after_a_write(
    out: Path, journal: FileJournal, write: Write
) -> None:
    put(out, write.before)
    inodes = {name: (out / name).stat().st_ino for name in write.before}
    sink = DirectorySink(out, write.mode, dynamic_partitions=write.dynamic)
    refused = write.mode is SinkMode.ERROR and bool(write.before)
    with pytest.raises(SinkTargetExistsError, match="out") if refused else nullcontext():
        written = publish(sink, journal, write.written)
        assert written is (write.mode is not SinkMode.IGNORE or not write.before)
    assert contents(out) == write.after
    for name in write.before.keys() & write.after.keys() - write.written.keys():
        assert ((out / name).stat().st_ino, (out / name).stat().st_nlink) == (inodes[name], 1)
    assert_tidy(out)


@pytest.mark.parametrize("mode", [SinkMode.ERROR, SinkMode.IGNORE])
def test_a_target_that_turns_up_meanwhile(out: Path, journal: FileJournal, mode: SinkMode) -> None:
    sink = DirectorySink(out, mode)
    start = SinkStart(JOB, 1, journal)
    path = sink.open(start)
    assert path is not None
    put(Path(path), {"part-1": "b"})
    put(out, {"part-0": "a"})
    if mode is SinkMode.ERROR:
        with pytest.raises(SinkTargetExistsError):
            sink.commit(current)
        sink.abort()
    else:
        sink.commit(current)
    assert contents(out) == {"part-0": "a"}
    assert_tidy(out)


@pytest.mark.parametrize("renames", [KernelRenames(), TwoRenames()])
@pytest.mark.parametrize("mode", [SinkMode.APPEND, SinkMode.OVERWRITE])
def test_a_target_that_comes_or_goes_while_it_is_published(
    out: Path, journal: FileJournal, mode: SinkMode, renames: KernelRenames | TwoRenames
) -> None:
    sink = DirectorySink(out, mode, renames=renames, grace_seconds=0)
    path = sink.open(SinkStart(JOB, 1, journal))
    assert path is not None
    put(Path(path), {"part-1": "b"})
    asked = []

    def check() -> None:
        asked.append(out.exists())
        if len(asked) == 1:
            put(out, {"part-0": "a"})
        elif len(asked) == 2:
            (out / "part-0").unlink()
            out.rmdir()

    sink.commit(check)
    assert asked == [False, True, False]
    sink.forget(SinkStart(JOB, 1, journal))
    assert contents(out) == {"part-1": "b"}
    assert_tidy(out)


# -- starts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("damaged", [False, True])
def test_a_start_finds_that_an_earlier_one_has_published(
    out: Path, journal: FileJournal, damaged: bool
) -> None:
    put(out, {"part-0": "a"})
    publish(DirectorySink(out, SinkMode.APPEND), journal, {"part-1": "b"}, end=False)
    if damaged:
        next(out.glob(".holdfast-*")).write_text("{")
    again = DirectorySink(out, SinkMode.APPEND)
    assert not publish(again, journal, {"part-2": "b"}, epoch=2)
    assert contents(out) == {"part-0": "a", "part-1": "b"}


def test_the_same_program_run_again_publishes_again(out: Path, tmp_path: Path) -> None:
    first, second = FileJournal(tmp_path / "first"), FileJournal(tmp_path / "second")
    # The first one's job directory is gone before the sink forgets it.
    publish(DirectorySink(out, SinkMode.APPEND), first, {"part-0": "a"}, end=False)
    assert publish(DirectorySink(out, SinkMode.APPEND), second, {"part-1": "a"})
    assert {"part-0", "part-1"} <= contents(out).keys()


def test_two_sinks_of_a_job_with_one_target(out: Path, journal: FileJournal) -> None:
    sinks = [DirectorySink(out, SinkMode.APPEND, ordinal=each) for each in range(2)]
    publish(sinks[0], journal, {"part-0": "a"}, end=False)
    assert publish(sinks[1], journal, {"part-1": "b"}, epoch=2, end=False)
    assert not publish(sinks[0], journal, {"part-2": "a"}, epoch=3, end=False)
    for sink in sinks:
        sink.forget(SinkStart(JOB, 3, journal))
    assert contents(out) == {"part-0": "a", "part-1": "b"}
    assert_tidy(out)


def test_what_is_written_again_is_written_once(out: Path, journal: FileJournal) -> None:
    sink = DirectorySink(out, SinkMode.APPEND)

    def write(path: str) -> None:
        put(Path(path), {"part-0": "a"})
        sink.clear()
        put(Path(path), {"part-1": "a"})

    assert write_once(sink, SinkStart(JOB, 1, journal), current, write)
    sink.forget(SinkStart(JOB, 1, journal))
    assert contents(out) == {"part-1": "a"}


def test_a_job_that_fails_leaves_nothing(out: Path, journal: FileJournal) -> None:
    put(out, {"part-0": "a"})

    def write(path: str) -> None:
        put(Path(path), {"part-1": "b"})
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        write_once(
            DirectorySink(out, SinkMode.OVERWRITE), SinkStart(JOB, 1, journal), current, write
        )
    assert contents(out) == {"part-0": "a"}
    assert_tidy(out)


# -- journals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{", "[]", '{"token": 3}', '{"token": "../x"}', '"x"', "null"])
def test_a_damaged_journal_is_replaced(out: Path, journal: FileJournal, text: str) -> None:
    journal.write(text)
    assert publish(DirectorySink(out, SinkMode.APPEND), journal, {"part-0": "a"})
    assert contents(out) == {"part-0": "a"}


def test_a_journal_that_cannot_be_read_or_written(
    out: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink, start = DirectorySink(out, SinkMode.APPEND), SinkStart(JOB, 1, FileJournal(tmp_path))
    with pytest.raises(SinkError, match="can't determine"):
        sink.open(start)
    sink.abort()
    sink.forget(start)
    with pytest.raises(SinkError, match="open"):
        sink.commit(current)
    assert publish(sink, FileJournal(tmp_path / "nowhere" / "journal"), {"part-0": "a"})
    assert "can't record the write" in caplog.text
    assert "part-0" in contents(out)


# -- directories ----------------------------------------------------------------------------------


def test_links_stay_links(out: Path, journal: FileJournal) -> None:
    put(out, {"part-0": "a"})
    put(out.parent.parent / "elsewhere", {"part-0": "e"})
    (out / "p=1").symlink_to(out.parent.parent / "elsewhere")
    (out / "dangling").symlink_to("nowhere")
    link = out.parent.parent / "link"
    link.symlink_to(out)
    publish(DirectorySink(link, SinkMode.APPEND), journal, {"part-1": "b"})
    assert link.is_symlink()
    assert (out / "p=1").is_symlink()
    assert os.readlink(out / "dangling") == "nowhere"
    assert (out / "p=1" / "part-0").read_text() == "e"
    assert contents(out) == {"part-0": "a", "part-1": "b"}
    assert_tidy(out)


def test_what_cannot_be_linked_is_copied(
    out: Path, journal: FileJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))

    put(out, {"part-0": "a"})
    monkeypatch.setattr(os, "link", refuse)
    publish(DirectorySink(out, SinkMode.APPEND), journal, {"part-1": "b"})
    assert contents(out) == {"part-0": "a", "part-1": "b"}


def test_permissions_stay(out: Path, journal: FileJournal) -> None:
    put(out, {"p=1/part-0": "a"})
    out.chmod(0o2750)
    (out / "p=1").chmod(0o700)
    seen = []
    for epoch, mode in enumerate([SinkMode.APPEND, SinkMode.OVERWRITE], start=1):
        sink, start = DirectorySink(out, mode), SinkStart(JOB, epoch, journal)

        def write(path: str) -> None:
            seen.append(stat.S_IMODE(os.stat(path).st_mode))
            put(Path(path), {"p=2/part-0": "b"})

        assert write_once(sink, start, current, write)
        assert stat.S_IMODE(out.stat().st_mode) == 0o2750
        if mode is SinkMode.APPEND:
            assert stat.S_IMODE((out / "p=1").stat().st_mode) == 0o700
        sink.forget(start)
        journal.write("")
    assert seen == [
        0o2750,
        0o2750,
    ]  # No other user can look at the rows before they are there, either.


def test_names_of_any_length_and_kind(out: Path, journal: FileJournal) -> None:
    for name in ("n" * 255, "ü" * 127, "a b%20c#?", "[x]*"):
        target = out.parent / name
        put(target, {"part-0": "a"})
        publish(DirectorySink(target, SinkMode.APPEND), journal, {"part-1": "b"})
        assert contents(target) == {"part-0": "a", "part-1": "b"}
    put(target, {os.fsdecode(b"\xff"): "x"})
    publish(DirectorySink(target, SinkMode.APPEND), journal, {"part-2": "b"}, epoch=2)
    assert len(contents(target)) == 4
    assert len(list(out.parent.iterdir())) == 4


def test_a_file_of_the_same_name_is_never_replaced(out: Path, journal: FileJournal) -> None:
    put(out, {"part-0": "a"})
    with pytest.raises(SinkError, match="part-0"):
        publish(DirectorySink(out, SinkMode.APPEND), journal, {"part-0": "b"})
    assert contents(out) == {"part-0": "a"}
    assert_tidy(out)


def test_what_cannot_be_published_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert why_unpublishable(tmp_path / "file") == "it is not a directory"
    assert why_unpublishable(Path("/proc")) == "it is a mount point"
    assert why_unpublishable(tmp_path / "file" / "out") is not None
    assert why_unpublishable(tmp_path / "a" / "b" / "c") is None
    with pytest.raises(SinkError, match="not a directory"):
        DirectorySink(tmp_path / "file", SinkMode.APPEND).open(
            SinkStart(JOB, 1, FileJournal(tmp_path / "journal"))
        )


# -- readers and other writers --------------------------------------------------------------------


@pytest.mark.parametrize("mode", [SinkMode.APPEND, SinkMode.OVERWRITE])
def test_a_reader_sees_all_or_nothing_of_a_write(out: Path, tmp_path: Path, mode: SinkMode) -> None:
    put(out, {f"0-{part}": "x" for part in range(20)})
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            names = [name for name in os.listdir(out) if not name.startswith((".", "_"))]
            assert names and len(names) % 20 == 0
            assert set(Counter(name.partition("-")[0] for name in names).values()) == {20}

    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(read)
        for number in range(1, 4):
            journal = FileJournal(tmp_path / f"journal-{number}")
            sink = DirectorySink(out, mode, grace_seconds=0.1)
            publish(sink, journal, {f"{number}-{part}": "x" for part in range(20)})
        done.set()
        reading.result()
    assert len(contents(out)) == (80 if mode is SinkMode.APPEND else 20)


def test_jobs_that_append_at_the_same_time_lose_nothing(out: Path, tmp_path: Path) -> None:
    put(out, {"part": "x"})

    def append(writer: int) -> None:
        for number in range(4):
            journal = FileJournal(tmp_path / f"journal-{writer}-{number}")
            start = SinkStart(JobID(f"{writer:06x}{number:06x}" + "0" * 20), 1, journal)
            sink = DirectorySink(out, SinkMode.APPEND, how=str(writer), grace_seconds=0)
            name = f"part-{writer}-{number}"
            assert write_once(sink, start, current, lambda path, n=name: put(Path(path), {n: "x"}))
            sink.forget(start)

    with ThreadPoolExecutor(3) as writers:
        list(writers.map(append, range(3)))
    assert len([name for name in contents(out) if not name.startswith(".")]) == 13

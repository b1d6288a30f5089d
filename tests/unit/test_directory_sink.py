"""A sink's directory: what is in it afterwards, and when a sink refuses."""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
from pathlib import Path

import pytest

from holdfast.errors import SinkError, SinkTargetExistsError, StaleEpochError
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_directory import JobDirectory
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.ids import JobID
from holdfast.runtime.recovery.job_sink import JobSink, write_once
from holdfast.sinks.directory_renames import KernelRenames, TwoRenames
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.sink_start import SinkStart
from holdfast.sinks.sink_token import JournalEntry, known_entry
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


@pytest.mark.parametrize("mode", list(SinkMode))
def test_a_new_target_is_what_was_written(out: Path, journal: FileJournal, mode: SinkMode) -> None:
    files = {"part-0": "a", ".part-0.crc": "c", "_SUCCESS": "", "p=1/q=2/part-1": "b"}
    assert publish(DirectorySink(out, mode), journal, files)
    assert contents(out) == files
    assert_tidy(out)


def test_append_keeps_what_is_there(out: Path, journal: FileJournal) -> None:
    put(out, {"part-0": "a", ".part-0.crc": "c", "_SUCCESS": "", "p=1/part-0": "b", "_meta": "m"})
    (out / "empty").mkdir()
    inode = (out / "part-0").stat().st_ino
    publish(DirectorySink(out, SinkMode.APPEND), journal, {"p=1/part-1": "d", "_SUCCESS": ""})
    assert contents(out) == {
        "part-0": "a",
        ".part-0.crc": "c",
        "_SUCCESS": "",
        "p=1/part-0": "b",
        "p=1/part-1": "d",
        "_meta": "m",
    }
    assert (out / "empty").is_dir()
    assert (out / "part-0").stat().st_ino == inode
    assert (out / "part-0").stat().st_nlink == 1
    assert_tidy(out)


def test_overwrite_replaces_everything(out: Path, journal: FileJournal) -> None:
    put(out, {"part-0": "a", "p=1/part-0": "b", "_meta": "m"})
    publish(DirectorySink(out, SinkMode.OVERWRITE), journal, {"p=2/part-1": "d"})
    assert contents(out) == {"p=2/part-1": "d"}
    assert_tidy(out)


def test_dynamic_overwrite_replaces_the_partitions_that_are_written(
    out: Path, journal: FileJournal
) -> None:
    put(
        out,
        {
            "p=1/q=1/part-0": "a",
            "p=1/q=1/part-1": "a",
            "p=1/q=2/part-0": "b",
            "p=2/q=1/part-0": "c",
            "_SUCCESS": "",
        },
    )
    sink = DirectorySink(out, SinkMode.OVERWRITE, dynamic_partitions=True)
    publish(sink, journal, {"p=1/q=1/new": "d", "p=3/q=1/new": "e", "_SUCCESS": ""})
    assert contents(out) == {
        "p=1/q=1/new": "d",
        "p=1/q=2/part-0": "b",
        "p=2/q=1/part-0": "c",
        "p=3/q=1/new": "e",
        "_SUCCESS": "",
    }
    assert_tidy(out)


def test_error_refuses_what_is_there(out: Path, journal: FileJournal) -> None:
    put(out, {"part-0": "a"})
    with pytest.raises(SinkTargetExistsError, match="out"):
        publish(DirectorySink(out, SinkMode.ERROR), journal, {"part-1": "b"})
    assert contents(out) == {"part-0": "a"}
    assert_tidy(out)


def test_ignore_leaves_what_is_there(out: Path, journal: FileJournal) -> None:
    put(out, {"part-0": "a"})
    assert not publish(DirectorySink(out, SinkMode.IGNORE), journal, {"part-1": "b"})
    assert contents(out) == {"part-0": "a"}
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


def test_a_start_finds_that_an_earlier_one_has_published(out: Path, journal: FileJournal) -> None:
    put(out, {"part-0": "a"})
    publish(DirectorySink(out, SinkMode.APPEND), journal, {"part-1": "b"}, end=False)
    again = DirectorySink(out, SinkMode.APPEND)
    assert not publish(again, journal, {"part-2": "b"}, epoch=2)
    assert contents(out) == {"part-0": "a", "part-1": "b"}


def test_the_same_program_run_again_publishes_again(out: Path, tmp_path: Path) -> None:
    first, second = FileJournal(tmp_path / "first"), FileJournal(tmp_path / "second")
    # The first one's job directory is gone before it could be told that the job has ended.
    publish(DirectorySink(out, SinkMode.APPEND), first, {"part-0": "a"}, end=False)
    assert publish(DirectorySink(out, SinkMode.APPEND), second, {"part-1": "a"})
    assert {"part-0", "part-1"} <= contents(out).keys()


def test_an_earlier_start_finds_nothing_to_publish(out: Path, journal: FileJournal) -> None:
    earlier, later = DirectorySink(out, SinkMode.APPEND), DirectorySink(out, SinkMode.APPEND)
    path = earlier.open(SinkStart(JOB, 1, journal))
    assert path is not None
    put(Path(path), {"part-0": "a"})
    assert later.open(SinkStart(JOB, 2, journal)) is not None

    def check() -> None:
        raise StaleEpochError(str(out), 1, 2)

    with pytest.raises(StaleEpochError):
        earlier.commit(check)
    earlier.abort()
    # Even one that could not be told so would not.
    put(Path(path), {"part-0": "a"})
    later.commit(current)
    later.forget(SinkStart(JOB, 2, journal))
    assert contents(out) == {}
    assert_tidy(out)


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


def test_what_a_damaged_marker_stands_beside_counts_as_published(
    out: Path, journal: FileJournal, caplog: pytest.LogCaptureFixture
) -> None:
    publish(DirectorySink(out, SinkMode.APPEND), journal, {"part-0": "a"}, end=False)
    (marker,) = out.glob(".holdfast-*")
    marker.write_text("{")
    with caplog.at_level(logging.WARNING):
        again = DirectorySink(out, SinkMode.APPEND)
        assert not publish(again, journal, {"part-1": "a"}, epoch=2)
    assert "damaged" in caplog.text
    assert contents(out) == {"part-0": "a"}


# -- journals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{", "[]", '{"token": 3}', '{"token": "../x"}', '"x"', "null"])
def test_a_damaged_journal_is_made_anew(out: Path, journal: FileJournal, text: str) -> None:
    journal.write(text)
    assert publish(DirectorySink(out, SinkMode.APPEND), journal, {"part-0": "a"})
    assert contents(out) == {"part-0": "a"}


def test_a_journal_that_cannot_be_read_is_no_start(out: Path, tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    sink, start = DirectorySink(out, SinkMode.APPEND), SinkStart(JOB, 1, FileJournal(tmp_path))
    with pytest.raises(SinkError, match="can't determine"):
        sink.open(start)
    sink.abort()
    sink.forget(start)


def test_a_journal_that_cannot_be_written_is_told(
    out: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = FileJournal(tmp_path / "nowhere" / "journal")
    with caplog.at_level(logging.WARNING):
        assert publish(DirectorySink(out, SinkMode.APPEND), journal, {"part-0": "a"})
    assert "can't record the write" in caplog.text
    assert "part-0" in contents(out)


# -- directories ----------------------------------------------------------------------------------


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
    assert seen == [0o2750, 0o2750]  # Nobody can look at the rows before they are there, either.


def test_a_new_target_has_the_permissions_of_any_new_directory(
    out: Path, journal: FileJournal
) -> None:
    publish(DirectorySink(out, SinkMode.APPEND), journal, {"part-0": "a"})
    other = out.parent / "other"
    other.mkdir()
    assert out.stat().st_mode == other.stat().st_mode


def test_a_link_to_a_directory_stays_a_link(out: Path, journal: FileJournal) -> None:
    put(out, {"part-0": "a"})
    link = out.parent.parent / "link"
    link.symlink_to(out)
    publish(DirectorySink(link, SinkMode.APPEND), journal, {"part-1": "b"})
    assert link.is_symlink()
    assert contents(out) == {"part-0": "a", "part-1": "b"}
    assert_tidy(out)


def test_links_inside_are_carried_as_links(out: Path, journal: FileJournal) -> None:
    put(out, {"part-0": "a"})
    put(out.parent.parent / "elsewhere", {"part-0": "e"})
    (out / "p=1").symlink_to(out.parent.parent / "elsewhere")
    (out / "dangling").symlink_to("nowhere")
    publish(DirectorySink(out, SinkMode.APPEND), journal, {"part-1": "b"})
    assert (out / "p=1").is_symlink()
    assert os.readlink(out / "dangling") == "nowhere"
    assert (out / "p=1" / "part-0").read_text() == "e"


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


@pytest.mark.slow
def test_what_cannot_be_linked_is_copied(out: Path, journal: FileJournal) -> None:
    put(out, {"part-0": "a"})
    links = out.parent.parent / "links"
    links.mkdir()
    try:
        for number in range(70_000):
            os.link(out / "part-0", links / str(number))
    except OSError as error:
        assert error.errno == errno.EMLINK
    else:
        pytest.skip("this file system has no limit that a test could reach")
    publish(DirectorySink(out, SinkMode.APPEND), journal, {"part-1": "b"})
    assert contents(out) == {"part-0": "a", "part-1": "b"}
    assert (out / "part-0").stat().st_nlink == 1


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


def test_commit_without_open_is_refused(out: Path) -> None:
    with pytest.raises(SinkError, match="open"):
        DirectorySink(out, SinkMode.APPEND).commit(current)


# -- readers and other writers --------------------------------------------------------------------


@pytest.mark.parametrize("mode", [SinkMode.APPEND, SinkMode.OVERWRITE])
def test_a_reader_sees_all_or_nothing_of_a_write(out: Path, tmp_path: Path, mode: SinkMode) -> None:
    put(out, {f"0-{part}": "x" for part in range(20)})
    done = threading.Event()
    seen: list[set[str]] = []

    def read() -> None:
        while not done.is_set():
            names = [name for name in os.listdir(out) if not name.startswith((".", "_"))]
            seen.append({f"{name.partition('-')[0]}:{len(names)}" for name in names})
            assert all(names.count(f"{each.partition(':')[0]}-0") == 1 for each in seen[-1])
            assert len(names) % 20 == 0
            assert names

    reader = threading.Thread(target=lambda: failures.extend(_failure(read)))
    failures: list[BaseException] = []
    reader.start()
    for number in range(1, 6):
        journal = FileJournal(tmp_path / f"journal-{number}")
        sink = DirectorySink(out, mode, grace_seconds=0.3)
        publish(sink, journal, {f"{number}-{part}": "x" for part in range(20)})
    done.set()
    reader.join()
    assert not failures
    assert len(contents(out)) == (120 if mode is SinkMode.APPEND else 20)


def _failure(function) -> list[BaseException]:
    try:
        function()
    except BaseException as error:
        return [error]
    return []


def test_jobs_that_append_at_the_same_time_lose_nothing(out: Path, tmp_path: Path) -> None:
    put(out, {"part": "x"})
    failures: list[BaseException] = []

    def append(writer: int) -> None:
        for number in range(8):
            journal = FileJournal(tmp_path / f"journal-{writer}-{number}")
            start = SinkStart(JobID(f"{writer:06x}{number:06x}" + "0" * 20), 1, journal)
            sink = DirectorySink(out, SinkMode.APPEND, how=str(writer), grace_seconds=0)
            name = f"part-{writer}-{number}"
            assert write_once(sink, start, current, lambda path, n=name: put(Path(path), {n: "x"}))
            sink.forget(start)

    threads = [
        threading.Thread(target=lambda each=writer: failures.extend(_failure(lambda: append(each))))
        for writer in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    visible = {name for name in contents(out) if not name.startswith(".")}
    assert len(visible) == 25


def test_a_journal_that_an_earlier_start_writes_too_late_does_not_count(
    tmp_path: Path, out: Path
) -> None:
    identity = JobIdentity(digest="1" * 64, action="save", sink=str(out))
    starts = []
    for program in ("one", "two", "three"):
        start = HighAvailabilityStorage(tmp_path / "ha", program).begin(identity)
        starts.append(SinkStart(start.job_id, start.epoch, start.journal))
        if program == "one":
            DirectorySink(out, SinkMode.APPEND).open(starts[0])
        start.let_go()
    one, two, three = starts
    DirectorySink(out, SinkMode.APPEND).open(three)
    token = known_entry(one.journal.read())
    late = JournalEntry(token="late").model_dump_json()
    JobDirectory.of(tmp_path / "ha", three.job_id).write_journal(two.epoch, late)
    assert known_entry(three.journal.read()) == token

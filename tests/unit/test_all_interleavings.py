"""Starts of one program in every order of what they do to their files, killed at any moment."""

from __future__ import annotations

import functools
import logging
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.errors import StaleEpochError
from holdfast.eventstore.events import JobStatus
from holdfast.highavailability import (
    driver_lock,
    epochs,
    ha_storage,
    job_directory,
    job_listing,
    job_start,
    program_run,
)
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_directory import ASIDE, JobDirectory
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_listing import KnownJob
from holdfast.highavailability.job_record import JobRecord
from holdfast.highavailability.job_start import JobStart
from holdfast.highavailability.program_run import ProgramRun
from holdfast.runtime.recovery.job_sink import JobSink, SinkStart, write_once
from holdfast.sinks import carried_files, directory_sink, stages
from holdfast.sinks.commit_marker import CommitMarker
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.sink_token import JournalEntry, SinkEntry, known_entry, token_of
from holdfast.sinks.stages import Stages
from tests.unit.interleavings import (
    Explored,
    Interleavings,
    Lock,
    Scenario,
    by_the_system,
    forgetful,
    is_locked,
    one_at_a_time,
    starts_over,
    who,
)
from tests.unit.modelled_interleavings import ModelledInterleavings
from tests.unit.named_files import NAME

HA = Path("ha")
STALE = "stale"
ROWS = "de"
_TIME = re.compile(r"[-0-9]{10}T[0-9:.]+Z")
_LONG_NUMBER = re.compile(rf"\b(?!{NAME.pattern}\b)[0-9]{{4,}}\b")
MARKER = re.compile(r"\.holdfast-[0-9a-f]{32}-[0-9]$")
STARTS = ["8123450", "8123451", "8123452"]
OVER = Path("over")


@pytest.fixture
def home() -> Iterator[Path]:
    """In memory, where there is such a place: no machine stops here."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Each start warns of what has become of the others."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def out(number: int) -> Path:
    return Path(f"out-{number}")


class OneFile:
    """A sink that publishes one file, in one step, with what says whose it is; in as few steps as
    can be, for a smaller search. What it does is what the real one does."""

    def __init__(self, number: int) -> None:
        self.identity = f"one file {number}"
        self._home = out(number)
        self._entry = SinkEntry(target=str(self._home), mode=SinkMode.APPEND)
        self._stage = self._published = Path()

    def open(self, start: SinkStart) -> str | None:
        token = token_of(start.journal, 0, self._entry).token
        self._sweep(start.epoch)
        self._stage = self._home / f".stage-{start.epoch:010}"
        self._published = self._home / f"part-{token}-{start.epoch:010}"
        return None if self._of(token) else str(self._stage)

    def commit(self, check: Callable[[], None]) -> None:
        check()
        self._stage.rename(self._published)

    def abort(self) -> None:
        self._stage.unlink(missing_ok=True)

    def settle(self, start: SinkStart) -> None:
        raise NotImplementedError

    def clear(self) -> None:
        raise NotImplementedError

    def forget(self, start: SinkStart) -> None:
        entry = known_entry(start.journal.read())
        if entry is None:
            return
        self._sweep(start.epoch)
        for name in self._of(entry.token):
            # That of a newer start says to others what is written.
            if _epoch(name) <= start.epoch:
                with suppress(FileNotFoundError):
                    (self._home / name).rename(self._home / f"done-{name}")

    def _sweep(self, epoch: int) -> None:
        for name in os.listdir(self._home):
            if name.startswith(".stage-") and _epoch(name) < epoch:
                (self._home / name).unlink(missing_ok=True)

    def _of(self, token: str) -> list[str]:
        return [name for name in os.listdir(self._home) if name.startswith(f"part-{token}-")]


def _epoch(name: str) -> int:
    return int(name.rpartition("-")[2])


class Nightly:
    """A program that writes to a directory, or to several one after another.

    Args:
        modes: of its writes.
        exists: whether the directories hold a row before.
        starts: how many starts of it there are at once.
        light: whether its sinks are such as publish one file.
    """

    def __init__(
        self,
        *modes: SinkMode,
        exists: bool = True,
        starts: int = 2,
        light: bool = False,
    ) -> None:
        self._light = light
        self._modes = modes
        self._exists = exists
        self.programs = dict.fromkeys(STARTS[:starts], self.run)
        self._opened: dict[str, HighAvailabilityStorage] = {}

    def prepare(self) -> None:
        for name in (*self.programs, "last"):
            # One each, so that no start goes by those of the others.
            (OVER / name).mkdir(parents=True)
        for number, _ in enumerate(self._modes if self._exists else ()):
            out(number).mkdir()
            (out(number) / "part-a").write_text("a")
        self._opened = {}
        for name in self.programs:
            by_the_system(name)
            self._opened[name] = HighAvailabilityStorage(HA, name)

    def run(self, name: str) -> object:
        storage = self._opened.get(name) or HighAvailabilityStorage(HA, name)
        try:
            for number, mode in enumerate(self._modes):
                self._write(storage, number, mode, name)
        except StaleEpochError:
            storage.close(interrupted=True)
            return STALE
        storage.close()
        return None

    def _write(
        self, storage: HighAvailabilityStorage, number: int, mode: SinkMode, name: str
    ) -> None:
        sink: JobSink = DirectorySink(out(number), mode, grace_seconds=0, patience_seconds=0)
        if self._light:
            sink = OneFile(number)
        identity = self._identity("1", sink)
        start = storage.begin(identity)
        sink_start = SinkStart(start.job_id, start.epoch, start.journal)

        def write(path: str) -> None:
            if self._light:
                Path(path).write_text("de")
                return
            for row in ROWS:
                (Path(path) / f"part-{row}-{name}").write_text(row)

        if not start.already_done:
            write_once(sink, sink_start, start.check, write)
            self._end(start)
        sink.forget(sink_start)

    def _identity(self, version: str, sink: JobSink) -> JobIdentity:
        return JobIdentity(
            digest=version * 64, action="save", sink=sink.identity, vertices=("a" * 64,)
        )

    def _end(self, start: JobStart) -> None:
        assert start.end(JobStatus.FINISHED, keep=True)

    @property
    def _over(self) -> int:
        """How many runs of the program have ended as they should."""
        return len(list(OVER.glob("*/ended")))

    def let_go(self) -> None:
        for lock in list(driver_lock._held):
            lock.release()

    # -- what may be seen

    def check(self) -> None:
        """Each write is there for each run that is over, once more at most, and never in part."""
        for number, mode in enumerate(self._modes):
            rows = _rows(number)
            if rows is None:
                assert not self._exists and not self._over, "the directory is gone"
                continue
            assert rows["d"] == rows["e"], rows
            allowed = {self._over, self._over + 1}
            if mode is not SinkMode.APPEND:
                allowed = {min(each, 1) for each in allowed}
            assert rows["d"] in allowed, (rows, self._over)
            assert rows["a"] == int(self._exists and (mode is SinkMode.APPEND or not rows["d"]))

    def is_passing(self, path: str) -> bool:
        # Apart from its writer only who finds it a day old looks at it.
        return path.startswith(f"{HA}/{ASIDE}/")

    def told(self, content: bytes) -> str:
        # But for times, and what tells files: no two have one name here.
        return _LONG_NUMBER.sub("", _TIME.sub("", content.decode("ascii")))

    def contents(self) -> object:
        found: list[object] = []
        for directory, directories, files in os.walk("."):
            if directory.endswith(ASIDE):
                continue
            found += [os.path.join(directory, name) for name in directories]
            for name in files:
                path = os.path.join(directory, name)
                found.append((path, self.told(Path(path).read_bytes())))
        return frozenset(found)

    def recover(self) -> None:
        """A last start ends the work."""
        over = self._over
        assert self.run("last") is None
        assert self._over == over + 1
        self._check_end()

    def ended(self, ends: Mapping[str, object]) -> None:
        """A start has ended well, or says that another one has taken over."""
        expected = ((None, None), (STALE, None), ("killed", None))
        assert all(end in expected for end in ends.values()), ends

    def _check_end(self) -> None:
        self.check()
        for number, mode in enumerate(self._modes):
            rows = _rows(number)
            expected = self._over if mode is SinkMode.APPEND else min(self._over, 1)
            assert rows is not None and rows["d"] == expected, (rows, self._over)
            # A start that was overtaken after its end leaves its marker to who overtook it, which
            # may be killed: that stays then, hidden, and says nothing to any later run.
            assert not [path for path in out(number).glob(".*") if not MARKER.match(path.name)]
        assert not list(Path().glob(".*"))


def _rows(number: int) -> Counter[str] | None:
    if not out(number).exists():
        return None
    return Counter(
        row for path in out(number).iterdir() if path.name[0] != "." for row in path.read_text()
    )


def _told_record(record: JobRecord | None) -> object:
    """A record without its times."""
    return record and record.model_dump_json(exclude={"begun", "started", "ended"})


def _told_job(job: KnownJob | None) -> object:
    return job and (job.directory, job.state, job.epoch, _told_record(job.record))


def _told_entry(entry: JournalEntry | None) -> object:
    """A journal without what tells files, no two of which have one name here."""
    if entry is None:
        return None
    sinks = [
        (name, sink.target, sorted(sink.published or ())) for name, sink in entry.sinks.items()
    ]
    return entry.token, repr(sinks)


def _told_start(start: JobStart) -> object:
    found = (start.epoch, start.already_done, start.changed)
    return (*found, _told_record(start.record), _told_record(start.previous))


def _forget(patch: pytest.MonkeyPatch) -> None:
    """What each of these functions gives is all that it leaves in memory."""
    # With `missing_ok` nobody learns whether there was anything.
    forgetful(patch, Path, "unlink")
    forgetful(patch, job_directory, "_remove_empty", "forget_epochs")
    forgetful(patch, ha_storage, "take_epoch", "newest_epoch")
    forgetful(patch, ha_storage, "_left_by_an_earlier_start", told=_told_record)
    forgetful(patch, HighAvailabilityStorage, "next_epoch", "close", "newest_anywhere")
    forgetful(patch, HighAvailabilityStorage, "_prepared", told=lambda found: found.hex)
    forgetful(patch, HighAvailabilityStorage, "_move", "_make_way")
    forgetful(patch, HighAvailabilityStorage, "begin", "_begin", "_begin_in", told=_told_start)
    forgetful(
        patch,
        JobDirectory,
        *"claim release fence newest_epoch write_record write_journal".split(),
        *"journal forget forget_events remove _remove_files".split(),
    )
    forgetful(patch, ProgramRun, "begin", "take_over", "end", "is_live")
    forgetful(patch, sys.modules[__name__], "token_of", "known_entry", told=_told_entry)
    forgetful(patch, OneFile, "_sweep", "_of", "commit", "abort", "forget")
    forgetful(patch, job_listing, "known_job", told=_told_job)
    forgetful(patch, JobStart, "check", "_checked_epoch", "end", "let_go", "remove")
    forgetful(patch, Stages, "epochs", "fence", "restore", "finish", "sweep", "discard")
    forgetful(patch, CommitMarker, "write")
    forgetful(patch, directory_sink, "token_of", "note", "known_entry", told=_told_entry)
    for module in (carried_files, directory_sink):
        patch.setattr(module, "take_attributes", _take_attributes)
        forgetful(patch, module, "take_attributes")
    forgetful(patch, stages, "settle")
    forgetful(patch, DirectorySink, "open", "commit", "abort", "forget", "_make", "_clean")
    # Loops. None goes on for so long that it gives up.
    patch.setattr(ha_storage, "_ATTEMPTS", 10**9)
    starts_over(patch, epochs, "claim_epoch", "take_epoch", lambda found: found is False)
    starts_over(
        patch,
        *(HighAvailabilityStorage, "_begin_in", "_begin"),
        lambda found: isinstance(found, FileNotFoundError),
    )


def _take_attributes(source: Path, to: Path) -> None:
    """In two steps, which find what all that it takes would find."""
    if source.exists():
        os.chmod(to, 0o700)


def _simplify(patch: pytest.MonkeyPatch) -> None:
    """What only looks whether a path is one that can't be written to finds nothing here."""
    patch.setattr(Path, "resolve", Path.absolute)
    patch.setattr(directory_sink, "why_unpublishable", lambda _: None)


def go_through(
    home: Path,
    nightly: Nightly,
    patch: pytest.MonkeyPatch,
    by: Callable[[Path, Scenario], Interleavings | ModelledInterleavings] = ModelledInterleavings,
    attempts: int = 1,
) -> Explored:
    _simplify(patch)
    _forget(patch)
    # Another attempt is as another start after one that was refused.
    patch.setattr(ha_storage, "_ATTEMPTS_AT_EPOCHS", attempts)
    end_once = program_run._end_once

    def counted(path: Path) -> bool:
        is_over = end_once(path)
        if is_over:
            (OVER / who() / "ended").mkdir()
        return is_over

    patch.setattr(program_run, "_end_once", counted)
    patch.setattr(job_start, "DriverLock", Lock)
    patch.setattr(job_directory, "is_held", is_locked)
    return by(home, nightly).go_through()


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("modes", "starts", "attempts"),
    [
        ([SinkMode.APPEND], 2, 1),
        pytest.param([SinkMode.APPEND], 2, 3, marks=pytest.mark.soak),
        pytest.param([SinkMode.APPEND] * 2, 2, 1, marks=pytest.mark.soak),
        pytest.param([SinkMode.APPEND], 3, 1, marks=pytest.mark.soak),
    ],
)
def test_starts_at_once(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    modes: Sequence[SinkMode],
    starts: int,
    attempts: int,
) -> None:
    """Each is stopped, or killed, anywhere in its work."""
    nightly = Nightly(*modes, starts=starts, light=True)
    # Whose lock is held decides about starts of a changed program alone.
    by = functools.partial(ModelledInterleavings, kills=starts == 2)
    found = go_through(home, nightly, monkeypatch, by, attempts=attempts)
    assert found.states > 5_000
    assert found.files > 100


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("goes_back", [False, True])
@pytest.mark.parametrize("starts", [2, 3])
def test_starts_of_a_changed_program(
    home: Path, monkeypatch: pytest.MonkeyPatch, starts: int, goes_back: bool
) -> None:
    """All go on with the job that the killed one has left, under whatever id."""
    by = functools.partial(ModelledInterleavings, kills=True)
    go_through(home, Changed(goes_back=goes_back, starts=starts), monkeypatch, by)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_model_of_the_files_finds_what_files_do(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, modelled = (home / name for name in ("real", "modelled"))
    real.mkdir()
    modelled.mkdir()
    nightly = Nightly(SinkMode.APPEND, light=True)
    with monkeypatch.context() as patch:
        expected = go_through(real, nightly, patch, Interleavings)
    with monkeypatch.context() as patch:
        by = functools.partial(ModelledInterleavings, turns=False)
        found = go_through(modelled, nightly, patch, by)
    assert found.files == expected.files
    assert found.states < expected.states


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_two_starts_where_locks_work(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds the lock is killed, too, while the other one waits for it."""
    monkeypatch.setattr(ha_storage, "one_at_a_time", one_at_a_time)
    go_through(home, Nightly(SinkMode.APPEND, light=True), monkeypatch, Interleavings)


class Changed(Nightly):
    """A program that was killed, and whose code has changed before it is started again.

    Args:
        goes_back: whether it is as it was once, and another one goes on with its job since.
    """

    def __init__(self, *, goes_back: bool = False, starts: int = 2) -> None:
        super().__init__(SinkMode.APPEND, light=True, starts=starts)
        self._goes_back = goes_back

    def prepare(self) -> None:
        versions = ["1", "2"] if self._goes_back else ["2"]
        for version in versions:
            killed = HighAvailabilityStorage(HA, f"killed {version}")
            killed.begin(self._identity(version, OneFile(0)))
        super().prepare()


class Unfenced(Nightly):
    """As it was once: whether another start has taken over was asked before the end was recorded,
    and what the sink had left was removed in either case."""

    def _end(self, start: JobStart) -> None:
        start.check()
        with suppress(StaleEpochError), pytest.MonkeyPatch.context() as patch:
            patch.setattr(JobDirectory, "release", lambda *_: True)
            start.end(JobStatus.FINISHED, keep=True)


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(
    ("by", "light"),
    [
        (ModelledInterleavings, True),
        (ModelledInterleavings, False),
        pytest.param(Interleavings, True, marks=pytest.mark.soak),
    ],
)
def test_an_end_that_is_not_one_step_is_found(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    by: Callable[[Path, Scenario], Interleavings | ModelledInterleavings],
    light: bool,
) -> None:
    nightly = Unfenced(SinkMode.APPEND, light=light)
    with pytest.raises(AssertionError):
        go_through(home, nightly, monkeypatch, by)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("mode", [SinkMode.APPEND, SinkMode.OVERWRITE])
def test_starts_that_write_directories(
    home: Path, monkeypatch: pytest.MonkeyPatch, mode: SinkMode, exists: bool
) -> None:
    """Each is stopped, or killed, anywhere in its work."""
    found = go_through(home, Nightly(mode, exists=exists), monkeypatch)
    assert found.states > 10_000

"""Starts of one program in every order of what they do: rows are there exactly once."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError, SinkTargetExistsError, StaleEpochError
from holdfast.eventstore.events import JobStatus
from holdfast.highavailability import epochs, ha_storage, job_directory, program_run
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_directory import JobDirectory
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_start import JobStart
from holdfast.highavailability.program_run import ProgramRun
from holdfast.runtime.recovery.job_sink import SinkStart, write_once
from holdfast.sinks.carried_files import CarriedFiles
from holdfast.sinks.commit_marker import CommitMarker
from holdfast.sinks.directory_renames import DirectoryRenames, KernelRenames, TwoRenames
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.stages import Stages
from tests.unit.interleavings import Killed, Step, explore

ROWS = "de"
STALE = "stale"
APPEND, OVERWRITE = SinkMode.APPEND, SinkMode.OVERWRITE

# What a start does: takes an epoch, takes over, records; publishes; records the end, and ends.
STEPS = [
    Step(ha_storage, "take_epoch"),
    *(Step(JobDirectory, name) for name in ("fence", "record", "write_record", "release")),
    *(Step(ProgramRun, name) for name in ("take_over", "is_live", "end")),
    *(Step(Stages, name) for name in ("fence", "sweep")),
    Step(CommitMarker, "read"),
    *(Step(each, name) for each in (KernelRenames, TwoRenames) for name in ("put", "exchange")),
    Step(JobDirectory, "remove"),
    Step(DirectorySink, "forget"),
]
# How a program's run begins, takes over from another one, and ends.
RUN_STEPS = [
    *(Step(ProgramRun, name) for name in ("begin", "take_over", "end")),
    Step(ha_storage, "take_epoch"),
    Step(JobDirectory, "release"),
]
# In a few words, for more starts.
FEW_STEPS = [
    Step(HighAvailabilityStorage, "begin"),
    Step(DirectorySink, "open"),
    Step(KernelRenames, "exchange"),
    Step(JobDirectory, "release"),
    Step(ProgramRun, "end"),
    Step(DirectorySink, "forget"),
]
# The same with all that the product's classes do for it.
ALL_STEPS = [
    *(Step(ProgramRun, name) for name in ("begin", "take_over", "is_live", "end")),
    Step(ha_storage, "known_jobs"),
    Step(ha_storage, "take_epoch", is_whole=False),
    *(Step(epochs, name) for name in ("newest_epoch", "claim_epoch")),
    Step(ha_storage, "newest_epoch"),
    *(Step(job_directory, name) for name in ("create_once", "claim_epoch", "forget_epochs")),
    *(Step(JobDirectory, name) for name in ("newest_epoch", "release", "fence")),
    *(Step(JobDirectory, name) for name in ("record", "write_record", "journal", "write_journal")),
    *(Step(JobDirectory, name) for name in ("forget", "forget_events")),
    Step(JobDirectory, "remove", is_whole=False),
    Step(DirectorySink, "commit", is_whole=False),
    *(Step(Stages, name) for name in ("fence", "restore", "finish", "sweep", "discard")),
    *(Step(CommitMarker, name) for name in ("read", "write")),
    Step(CarriedFiles, "update"),
    *(Step(each, name) for each in (KernelRenames, TwoRenames) for name in ("put", "exchange")),
    *(Step(sys.modules[__name__], name) for name in ("_add", "_remove")),
]
# What it does to files, one after another.
FILE_STEPS = [
    *(Step(os, name) for name in ("link", "mkdir", "rename", "replace", "rmdir", "unlink")),
    Step(KernelRenames, "_rename"),
    Step(ProgramRun, "end"),
]


@pytest.fixture
def home() -> Iterator[Path]:
    """In memory, where there is such a place: no machine stops here."""
    memory = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each start warns of the others; none waits for a lock of one that stands still."""
    monkeypatch.setattr(ha_storage, "_PATIENCE_SECONDS", 0)
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


class Nightly:
    """A program that writes to a directory, or to several one after another.

    Args:
        modes: of its writes.
        exists: whether the directories hold a row before.
        dynamic: whether an overwrite replaces only the partitions that it writes.
        renames: how directories are put in their place.
        starts: how many starts of it there are at once.
        versions: those of its code of which a start was killed before; these are "2".
        outsider: whether another program adds a row meanwhile, and removes the one before.
    """

    def __init__(
        self,
        *modes: SinkMode,
        exists: bool = True,
        dynamic: bool = False,
        renames: DirectoryRenames | None = None,
        starts: int = 2,
        versions: str = "",
        outsider: bool = False,
    ) -> None:
        self.names: Sequence[str] = [f"start-{number}" for number in range(starts)] + [
            "outsider"
        ] * outsider
        self.are_alike = not outsider
        self._outsider = outsider
        self._modes = modes
        self._exists = exists
        self._dynamic = dynamic
        self._renames = renames
        self._versions = versions

    # -- what it does

    def prepare(self) -> None:
        self._over, self._epochs, self._others = 0, list[int](), set[str]()
        self._begun: dict[str, list[JobStart]] = {}
        for number, _ in enumerate(self._modes if self._exists else ()):
            (_out(number) / "p=2").mkdir(parents=True)
            (_out(number) / "p=2" / "part-a").write_text("a")
        for version in self._versions:
            killed = HighAvailabilityStorage(Path("ha"), f"killed {version}")
            killed.begin(self._identity(0, version)).let_go()
        HighAvailabilityStorage(Path("ha"))

    def run(self, name: str) -> object:
        if name == "outsider":
            return _add("x") and _remove("a")
        storage = HighAvailabilityStorage(Path("ha"), name)
        try:
            for number in range(len(self._modes)):
                self._write(storage, number, name)
        except StaleEpochError:
            storage.close(interrupted=True)
            return STALE
        return storage.close()

    def _write(self, storage: HighAvailabilityStorage, number: int, name: str) -> None:
        sink = self._sink(number)
        start = storage.begin(self._identity(number))
        self._begun.setdefault(name, []).append(start)
        sink_start = SinkStart(start.job_id, start.epoch, start.journal)

        def write(path: str) -> None:
            partition = Path(path) / "p=1"
            partition.mkdir()
            for row in ROWS:
                (partition / f"part-{row}-{name}").write_text(row)

        if not start.already_done:
            self.write_and_end(start, lambda: write_once(sink, sink_start, start.check, write))
        sink.forget(sink_start)

    def write_and_end(self, start: JobStart, write: Callable[[], object]) -> None:
        write()
        start.end(JobStatus.FINISHED, keep=True)

    def _sink(self, number: int) -> DirectorySink:
        return DirectorySink(
            _out(number),
            self._modes[number],
            dynamic_partitions=self._dynamic,
            renames=self._renames,
            grace_seconds=0,
            patience_seconds=0,
        )

    def _identity(self, number: int, version: str = "2") -> JobIdentity:
        sink = self._sink(number).identity
        return JobIdentity(digest=version * 64, action="save", sink=sink, vertices=("a" * 64,))

    def killed(self, name: str) -> None:
        for start in self._begun.get(name, ()):
            start.let_go()

    def observe(self, name: str, step: str, answer: object) -> None:
        if step == "take_epoch":
            assert isinstance(answer, int)
            self._epochs.append(answer)
        self._over += step == "end" and answer is True
        if name == "outsider":
            self._others.add(step)

    def observed(self) -> object:
        return self._over, *sorted(self._others)

    # -- what has to hold

    def check(self) -> None:
        """Each write is there for each run that is over, once more at most, and never in part."""
        assert len(set(self._epochs)) == len(self._epochs), "an epoch was given twice"
        for number, mode in enumerate(self._modes):
            rows = _rows(number)
            if rows is None:
                may_be_gone = not self._exists or isinstance(self._renames, TwoRenames)
                assert may_be_gone and not self._over, "the directory is gone"
                continue
            assert rows["d"] == rows["e"], rows
            allowed = {self._over, self._over + 1}
            if mode is not APPEND:
                allowed = {min(each, 1) for each in allowed}
            assert rows["d"] in allowed, (rows, self._over)
            if self._outsider:
                continue
            keeps = mode is APPEND or self._dynamic or not rows["d"]
            assert rows["a"] == int(self._exists and keeps)

    def recover(self) -> None:
        """Wherever all are killed, another start ends the work, and nothing hidden stays."""
        before = self._over
        if before and SinkMode.ERROR in self._modes:
            # Another run is refused, as the mode says.
            return
        try:
            assert self.run("last") is True, "the last start could not end the work"
            self._over += 1
            self.check()
            for number, mode in enumerate(self._modes):
                rows = _rows(number)
                expected = self._over if mode is APPEND else 1
                assert rows is not None and rows["d"] == expected, (rows, self._over)
                for done, found in (("_add", rows["x"] == 1), ("_remove", rows["a"] == 0)):
                    assert found or done not in self._others, f"{done} was lost: {rows}"
            if not self._versions:
                # A job that was moved has another id, by which a start that wakes late names them.
                assert not list(Path().glob(".*")), "something hidden is left"
        except (HoldfastError, OSError) as error:
            raise AssertionError("the last start failed") from error
        finally:
            self._over = before

    def check_ends(self, ends: Mapping[str, object]) -> None:
        """A start has ended well, or says that another one has taken over."""
        allowed: tuple[type, ...] = (bool, Killed)
        if self._over and SinkMode.ERROR in self._modes:
            allowed += (SinkTargetExistsError,)
        assert all(end == STALE or isinstance(end, allowed) for end in ends.values()), ends


def _add(row: str) -> bool:
    (_out(0) / f"part-{row}").write_text(row)
    return True


def _remove(row: str) -> bool:
    (_out(0) / "p=2" / f"part-{row}").unlink()
    return True


def _out(number: int) -> Path:
    return Path(f"out-{number}")


def _rows(number: int) -> Counter[str] | None:
    if not _out(number).exists():
        return None
    files = [path for path in _out(number).rglob("*") if path.is_file() and path.name[0] != "."]
    return Counter(row for path in files for row in path.read_text())


# -- in every order

NIGHTLY = {
    "append": Nightly(APPEND),
    "overwrite": Nightly(OVERWRITE),
    "partitions": Nightly(OVERWRITE, dynamic=True),
    "two-renames": Nightly(APPEND, renames=TwoRenames()),
    "append-new": Nightly(APPEND, exists=False),
    "overwrite-new": Nightly(OVERWRITE, exists=False),
    "error-new": Nightly(SinkMode.ERROR, exists=False),
    "ignore-new": Nightly(SinkMode.IGNORE, exists=False),
    "two-writes": Nightly(APPEND, APPEND),
    "changed": Nightly(APPEND, versions="1"),
    "as-it-was-once": Nightly(APPEND, versions="21"),
}
DAILY = ("append", "changed")
KILLED_DAILY = ("append", "partitions", "two-renames")
soak = pytest.mark.soak
each = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in DAILY else soak) for name in NIGHTLY]
)


@each
def test_a_start_stands_still_or_is_killed_anywhere_while_another_does_its_work(
    home: Path, name: str
) -> None:
    assert explore(home, NIGHTLY[name], ALL_STEPS, switches=1).states > 1000


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each in KILLED_DAILY else soak) for each in NIGHTLY],
)
def test_a_start_is_killed_between_any_two_changes_of_files(home: Path, name: str) -> None:
    alone = copy(NIGHTLY[name])
    alone.names = ["alone"]
    assert explore(home, alone, FILE_STEPS).files > 10


@pytest.mark.parametrize(
    ("name", "steps", "switches"),
    [("append", STEPS, 2), ("two-writes", RUN_STEPS, 2)],
    ids=["append", "two-writes"],
)
def test_two_starts_stand_still(home: Path, name: str, steps: list[Step], switches: int) -> None:
    assert explore(home, NIGHTLY[name], steps, switches=switches).states > 100


@pytest.mark.parametrize("mode", [APPEND, pytest.param(OVERWRITE, marks=soak)])
def test_what_others_do_to_the_directory_meanwhile_is_not_lost(home: Path, mode: SinkMode) -> None:
    nightly = Nightly(mode, dynamic=mode is OVERWRITE, starts=1, outsider=True)
    assert explore(home, nightly, ALL_STEPS).states > 100


@soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", NIGHTLY)
def test_two_starts_in_all_orders(home: Path, name: str) -> None:
    kills = name in ("changed", "as-it-was-once")
    steps = RUN_STEPS if name == "two-writes" else STEPS
    assert explore(home, NIGHTLY[name], steps, kills=kills).states > 100


@soak
@pytest.mark.timeout(0)
def test_two_starts_in_all_orders_of_all_steps(home: Path) -> None:
    assert explore(home, NIGHTLY["append"], ALL_STEPS).states > 1000


@soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("versions", ["", "1"])
def test_three_starts_in_all_orders(home: Path, versions: str) -> None:
    nightly = Nightly(APPEND, starts=3, versions=versions)
    assert explore(home, nightly, FEW_STEPS).states > 1000


# -- faults are found


class RecordsFirst(Nightly):
    """Records the end before the rows are there."""

    def write_and_end(self, start: JobStart, write: Callable[[], object]) -> None:
        start.end(JobStatus.FINISHED, keep=True)
        with suppress(StaleEpochError):
            write()


class EndsInTwoSteps(Nightly):
    """Asks whether another start has taken over, and records its end then, in any case."""

    def write_and_end(self, start: JobStart, write: Callable[[], object]) -> None:
        write()
        start.check()
        with suppress(StaleEpochError), pytest.MonkeyPatch.context() as patch:
            patch.setattr(JobDirectory, "release", lambda *_: True)
            start.end(JobStatus.FINISHED, keep=True)


def _claims_what_is_taken(directory: Path, epoch: int) -> bool:
    (directory / f"{epoch:010}").touch()
    return True


def _nothing(*_: Any, **__: Any) -> None:
    pass


EPOCH_STEPS = [Step(ha_storage, "take_epoch", is_whole=False), Step(epochs, "claim_epoch")]
Fault = list[tuple[object, str, Callable[..., object]]]
# Which steps, and how many switches, show it.
FAULTS: dict[str, tuple[Fault, list[Step], int | None]] = {
    "no check for a newer start": ([(JobStart, "check", _nothing)], STEPS, 1),
    "rows that don't say whose they are": ([(CommitMarker, "write", _nothing)], STEPS, 1),
    "a run that ends although it was taken over": (
        [(program_run, "_end_once", Path.exists)],
        STEPS,
        1,
    ),
    "a take-over that fences no job": ([(JobDirectory, "fence", _nothing)], STEPS, None),
    "a take-over that fences no sink": ([(Stages, "fence", _nothing)], STEPS, None),
    "epochs taken without exclusion": (
        [(module, "claim_epoch", _claims_what_is_taken) for module in (epochs, job_directory)],
        EPOCH_STEPS,
        1,
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=soak if "fences" in each else ()) for each in FAULTS]
)
def test_a_fault_is_found(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    fault, steps, switches = FAULTS[name]
    for owner, function, faulty in fault:
        monkeypatch.setattr(owner, function, faulty)
    with pytest.raises(AssertionError):
        explore(home, Nightly(APPEND), steps, switches=switches)


@pytest.mark.parametrize("faulty", [RecordsFirst, pytest.param(EndsInTwoSteps, marks=soak)])
def test_a_faulty_order_is_found(home: Path, faulty: type[Nightly]) -> None:
    with pytest.raises(AssertionError):
        explore(home, faulty(APPEND), STEPS, switches=2)

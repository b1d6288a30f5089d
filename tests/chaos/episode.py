"""A program that is killed again and again, started again each time, and then looked at."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.driver_process import Blow, DriverProcess
from tests.chaos.moments import Moment, Scene
from tests.chaos.orders import Diary, Orders
from tests.chaos.places import Place
from tests.chaos.programs import COLLECTED, Job, Program
from tests.chaos.references import References
from tests.chaos.rows import Difference, Rows, data_files, read_rows, times
from tests.chaos.watching_reader import WatchingReader
from tests.harness.waiting import wait_for

_SECONDS_BETWEEN_LOOKS = 0.003
_SHARE_OF_TIME = 3
"""A look that takes long is followed by a pause of so many times its length."""
_START_SECONDS = 300
_ALSO_EXECUTORS = 0.5
"""How often a task executor is killed between two starts, where there are any."""


@dataclass
class Outcome:
    """How an episode went."""

    program: str
    kills: int = 0
    executors_killed: int = 0
    lost: int = 0
    doubled: int = 0
    strange: int = 0
    half_visible: int = 0
    complaints: list[str] = field(default_factory=list)
    vertices: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        wrong = self.lost or self.doubled or self.strange or self.half_visible
        return not (wrong or self.complaints)


class Episode:
    """Runs a program in its own directory."""

    def __init__(
        self,
        program: Program,
        home: Path,
        data: Path,
        references: References,
        place: Place,
        *,
        recovery: bool = True,
        slowness: float = 0.0,
    ) -> None:
        self.program = program
        self.home = home
        self.output = home / "output"
        self.recorded = home / "recorded"
        self._data = data
        self._references = references
        self._place = place
        self._recovery = recovery
        self._slowness = slowness
        self._starts = 0
        self.outcome = Outcome(program.name)
        self.output.mkdir(parents=True)
        for job in self._first_writers():
            references.place_before(job, job.path(self.output))

    def play(self, moments: Sequence[Moment], chance: random.Random) -> Outcome:
        """Kills at the moments, one after another, and lets the last driver end."""
        started = time.monotonic()
        left = deque(moments)
        with self.watched():
            while self._killed_in(left, chance):
                if Blow.TASK_EXECUTOR in self._place.blows and chance.random() < _ALSO_EXECUTORS:
                    self._strike_executor(chance)
        self.outcome.seconds = time.monotonic() - started
        return self.outcome

    def _killed_in(self, left: deque[Moment], chance: random.Random) -> bool:
        """Starts a driver; returns whether it was killed, and not left to its end."""
        with self.start() as driver:
            while left:
                moment = left.popleft()
                if moment.blow is not Blow.TASK_EXECUTOR:
                    if self.kill(driver, moment):
                        return True
                    break
                if not self.await_moment(driver, moment):
                    break
                self._strike_executor(chance)
            self._await_end(driver)
        return False

    def _strike_executor(self, chance: random.Random) -> None:
        self._place.strike(chance)
        self.outcome.executors_killed += 1

    def watched(self) -> ExitStack:
        """Has readers look at all targets until the block ends; then all is compared."""
        stack = ExitStack()
        stack.callback(self._judge_end)
        for job in self._first_writers():
            reader = WatchingReader(job.path(self.output), self.home / "seen" / job.directory)
            stack.callback(self._judge_sightings, job, reader)
            stack.enter_context(reader)
        return stack

    def start(self) -> DriverProcess:
        """Starts the program."""
        number, self._starts = self._starts, self._starts + 1
        orders = Orders(
            self.program.jobs,
            self._data,
            self.output,
            self._diary(number),
            self._place.spark(),
            self._place.holdfast(self.home) | (self._recovery_settings()),
            self._slowness,
        )
        return DriverProcess(orders, self.home, f"start-{number}", self._place.environment())

    def _recovery_settings(self) -> dict[str, object]:
        if not self._recovery:
            return {}
        return {
            "execution.batch.job-recovery.enabled": True,
            "high-availability.storageDir": self.recorded.as_uri(),
        }

    def scene(self, driver: DriverProcess) -> Scene:
        """Where a driver's doings are seen."""
        return Scene(driver.diary, self._place.kept(self.home), self.recorded, self.output)

    def await_moment(self, driver: DriverProcess, moment: Moment) -> bool:
        """Waits for a moment; returns False when the driver ended before it."""
        scene = self.scene(driver)
        deadline = time.monotonic() + _START_SECONDS
        while driver.returncode is None and time.monotonic() < deadline:
            looked = time.monotonic()
            if scene.shows(moment.sight, moment.job, self.program.jobs[moment.job]):
                return driver.wait(moment.delay) is None
            time.sleep(max(_SECONDS_BETWEEN_LOOKS, _SHARE_OF_TIME * (time.monotonic() - looked)))
        return False

    def kill(self, driver: DriverProcess, moment: Moment) -> bool:
        """Kills a driver at a moment; returns False when it ended, or began to, before that."""
        if not self.await_moment(driver, moment) or driver.diary.has("closing"):
            return False
        try:
            driver.strike(moment.blow)
        except AssertionError as error:
            self.outcome.complaints.append(str(error))
        self.outcome.kills += 1
        return True

    def _await_end(self, driver: DriverProcess) -> None:
        code = driver.wait(_START_SECONDS)
        if code is None:
            self.outcome.complaints.append(f"not done within {_START_SECONDS} s")
            driver.strike(Blow.ALL)
        elif code != 0:
            self.outcome.complaints.append(f"ended with {code}:\n{driver.said()[-4000:]}")

    def _first_writers(self) -> list[Job]:
        first: dict[str, Job] = {}
        for job in self.program.jobs:
            if job.format != COLLECTED:
                first.setdefault(job.directory, job)
        return list(first.values())

    def _diary(self, number: int) -> Path:
        return self.home / f"diary-{number}.jsonl"

    # -- judging ----------------------------------------------------------------------------------

    def _judge_sightings(self, job: Job, reader: WatchingReader) -> None:
        copies = self.program.copies(job.directory)
        allowed = [times(self._references.rows(job), number) for number in copies]
        at = 0
        for sighting in reader.sightings:
            rows = read_rows(sighting.files, job.format)
            known = [index for index in range(at, len(allowed)) if allowed[index] == rows]
            if known:
                at = known[0]
            else:
                self.outcome.half_visible += 1
                self.outcome.complaints.append(
                    f"{job.directory} showed {rows.total()} rows in {sighting.files}: not what it "
                    f"held before ({allowed[0].total()}) or after ({allowed[-1].total()}) a job"
                )

    def _judge_end(self) -> None:
        outcome = self.outcome
        self._place.mend()
        for job in {job.directory: job for job in self.program.jobs}.values():
            expected = times(self._references.rows(job), self.program.copies(job.directory)[-1])
            difference = Difference.between(expected, self._found(job))
            outcome.lost += difference.lost
            outcome.doubled += difference.doubled
            outcome.strange += difference.strange
            if difference:
                outcome.complaints.append(f"{job.directory}: {difference}")
        for number in range(self._starts):
            for entry in Diary(self._diary(number)).entries():
                for _, what in entry.get("vertices", ()):
                    outcome.vertices[what] = outcome.vertices.get(what, 0) + 1
        if self._recovery:
            outcome.complaints += self._left_behind()

    def _found(self, job: Job) -> Rows:
        return read_rows(job.path(self.output), job.format)

    def _left_behind(self) -> list[str]:
        """What a program that has ended should have removed."""
        stages = [path.name for path in self.output.iterdir() if path.name.startswith(".")]
        hidden = [
            str(path.relative_to(self.output))
            for path in self.output.rglob("*")
            if path.name.startswith((".holdfast", "_holdfast")) or path.name == "_temporary"
        ]
        # A task executor that was away when a job ended keeps its partitions that much longer.
        wait_for(lambda: None if self._kept() else True, self._place.retention_seconds)
        listed = self.listed_jobs()
        found = {"stages": stages, "hidden": hidden, "kept": self._kept(), "jobs": listed}
        return [f"{what} left behind: {names}" for what, names in found.items() if names]

    def _kept(self) -> list[str]:
        return [
            str(path)
            for root in self._place.kept(self.home)
            for path in data_files(root)
            # What tasks of a driver that was taken over still write goes with a later start.
            if "datasets" in path.parts and path.suffix == ".parquet"
        ]

    def listed_jobs(self) -> list[dict[str, object]]:
        """What `holdfast jobs` lists."""
        command = [
            *(sys.executable, "-m", "holdfast.cli.main", "jobs", "--json"),
            *("--storage-dir", self.recorded.as_uri()),
        ]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if listed.returncode:
            return [{"error": listed.stderr}]
        found: list[dict[str, object]] = json.loads(listed.stdout)
        return found

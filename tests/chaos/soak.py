"""`python -m tests.chaos.soak`: kills programs for as long as is asked, and counts the rows."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.chaos import data
from tests.chaos.episode import Episode, Outcome
from tests.chaos.moments import random_moments
from tests.chaos.places import OneMachine, Place, TwoWorkers
from tests.chaos.programs import CLUSTER_PROGRAMS, PROGRAMS, STREAM_PROGRAMS, Program
from tests.chaos.references import References
from tests.harness.local_cluster import LocalCluster

_MOST_KILLS = 5
_MEASURES = (
    *("episodes", "kills survived", "executors killed", "rows lost", "rows doubled"),
    *("strange rows", "half visible", "other faults"),
)


Outcomes = dict[str, list[Outcome]]


def cells(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """The measures of a program's episodes, as texts."""
    differences = sum(1 for each in outcomes if each.lost or each.doubled or each.strange)
    complaints = sum(len(each.complaints) for each in outcomes)
    half_visible = sum(each.half_visible for each in outcomes)
    measures = (
        len(outcomes),
        sum(each.kills for each in outcomes if each.is_good),
        sum(each.executors_killed for each in outcomes),
        sum(each.lost for each in outcomes),
        sum(each.doubled for each in outcomes),
        sum(each.strange for each in outcomes),
        half_visible,
        max(0, complaints - differences - half_visible),
    )
    return tuple(map(str, measures))


def main() -> int:
    """Soaks; returns 1 when anything was wrong."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long to begin new episodes")
    parser.add_argument("--seed", type=int, default=0, help="what is killed when")
    parser.add_argument("--scale", type=float, default=0.05, help="TPC-H scale factor")
    parser.add_argument("--cluster", action="store_true", help="on a cluster of two workers")
    parser.add_argument("--only", help="a program's name")
    parser.add_argument("--recovery", choices=("on", "off"), default="on", help="off: what is lost")
    parser.add_argument("--output", type=Path, default=Path("build/soak"))
    arguments = parser.parse_args()
    output = arguments.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    programs: Sequence[Program]
    programs = CLUSTER_PROGRAMS if arguments.cluster else (*PROGRAMS, *STREAM_PROGRAMS)
    if arguments.only:
        programs = tuple(each for each in programs if each.name == arguments.only)
    tables = data.prepare(output / "data", arguments.scale)
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=output, prefix="run-")))
        plain = OneMachine(home / "spark")
        place: Place = plain
        if arguments.cluster:
            place = TwoWorkers(stack.enter_context(LocalCluster(home / "cluster")))
        _say(f"plain Spark computes what {len(programs)} programs should give")
        references = References(home / "references", tables, plain)
        references.compute(programs)
        soak = Soak(home, output, tables, references, place)
        soak.recovery = arguments.recovery == "on"
        scores = soak.run(programs, arguments.minutes * 60, arguments.seed)
    _report(scores, output / "soak.json", arguments.seed)
    return 0 if all(each.is_good for of_one in scores.values() for each in of_one) else 1


class Soak:
    """Plays episodes one after another."""

    def __init__(
        self,
        home: Path,
        output: Path,
        tables: Path,
        references: References,
        place: Place,
    ) -> None:
        self._home = home
        self._output = output
        self._tables = tables
        self._references = references
        self._place = place
        self.recovery = True

    def run(self, programs: Sequence[Program], seconds: float, seed: int) -> Outcomes:
        """Plays until the time is over, each program in turn."""
        scores: Outcomes = {program.name: [] for program in programs}
        deadline = time.monotonic() + seconds
        for number in _count_until(deadline):
            program = programs[number % len(programs)]
            chance = random.Random(f"{seed} {number}")
            kills = chance.randint(1, _MOST_KILLS)
            outcome = self._play(program, f"episode-{number}", kills, chance)
            scores[program.name].append(outcome)
        return scores

    def _play(self, program: Program, name: str, kills: int, chance: random.Random) -> Outcome:
        home = self._home / f"{name} {program.name}".replace(" ", "-")
        moments = random_moments(program, kills, chance, self._place.blows)
        episode = Episode(
            program,
            home,
            self._tables,
            self._references,
            self._place,
            recovery=self.recovery,
        )
        outcome = episode.play(moments, chance)
        judged = "good" if outcome.is_good else "WRONG"
        _say(
            f"{home.name}: {judged}, {outcome.kills} kills, {outcome.executors_killed} of task "
            f"executors, in {outcome.seconds:.0f} s"
        )
        if outcome.is_good:
            shutil.rmtree(home)
        else:
            for line in (*map(str, moments), *outcome.complaints):
                _say(f"    {line}")
            kept = self._output / "wrong" / home.name
            shutil.rmtree(kept, ignore_errors=True)
            kept.parent.mkdir(exist_ok=True)
            shutil.move(home, kept)
            _say(f"    all of it is in {kept}")
        return outcome


def _count_until(deadline: float) -> Iterator[int]:
    number = 0
    while time.monotonic() < deadline:
        yield number
        number += 1


def _report(scores: Outcomes, path: Path, seed: int) -> None:
    table = Table(title=f"Soak with seed {seed}")
    table.add_column("program")
    for measure in _MEASURES:
        table.add_column(measure, justify="right")
    for name, score in scores.items():
        table.add_row(name, *cells(score))
    Console(width=150).print(table)
    document = {
        name: [asdict(outcome) for outcome in outcomes] for name, outcomes in scores.items()
    }
    path.write_text(json.dumps({"seed": seed, "programs": document}, indent=2) + "\n")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

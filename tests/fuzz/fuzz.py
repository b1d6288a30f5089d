"""`python -m tests.fuzz.fuzz`: compares generated pairs of computations until the time is over."""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast import Environment
from tests.fuzz.classes import CLASSES, FAMILIES, HIVE, PAIRS, case, case_of, family_of, pair_of
from tests.fuzz.family import Family, variants_of
from tests.fuzz.player import Counts, Finding, Player
from tests.fuzz.processes import in_processes
from tests.fuzz.proving import prove
from tests.fuzz.script import Script, snippet
from tests.fuzz.session import fuzz_session
from tests.fuzz.shrink import shrunk
from tests.fuzz.tables import make_tables
from tests.fuzz.unfixed import UNFIXED
from tests.fuzz.world import World

# Digests of many families are compared in the time that the jobs of one take.
_TOGETHER = 8
# Of what one program has kept and another one should find.
_LEAST_FOUND = 0.95


@dataclass
class Score:
    """What a class of cases came to.

    Attributes:
        played: cases through Holdfast.
        digested: pairs of which digests were compared.
        seconds: that it took.
        kinds: of the findings, how many.
    """

    played: int = 0
    digested: int = 0
    seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)


def main() -> int:
    """Fuzzes; returns 1 when anything was found, or with `--prove` when something wasn't."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long new pairs are made")
    parser.add_argument("--pairs", type=int, help="how many pairs are made, however long it takes")
    parser.add_argument("--seed", type=int, default=0, help="which pairs are made")
    parser.add_argument("--only", action="append", choices=CLASSES, help="a class of mutations")
    parser.add_argument("--case", action="append", metavar="CLASS:SEED", help="one case")
    parser.add_argument("--mode", choices=("both", "jobs", "digests"), default="both")
    parser.add_argument(
        "--prove", action="store_true", help="show that bugs are found with their fixes taken out"
    )
    parser.add_argument("--without", choices=UNFIXED, help="the bug whose fix is taken out")
    parser.add_argument("--implicit", action="store_true", help="with the implicit cache")
    parser.add_argument("--attempts", type=int, default=60, help="to make a case smaller")
    parser.add_argument("--output", type=Path, default=Path("build/fuzz"))
    parser.add_argument(
        "--processes",
        action="store_true",
        help="`--pairs` of programs that share results, each of which is a process",
    )
    parser.add_argument("--part", type=int, help="which program of its cases this process is")
    parser.add_argument("--home", type=Path, help="the directory of all programs of the cases")
    arguments = parser.parse_args()
    if arguments.prove:
        return prove(arguments.output, _say)
    if arguments.without:
        UNFIXED[arguments.without]()
    # PySpark logs every error, and errors are answers here.
    logging.disable(logging.CRITICAL)
    arguments.output.mkdir(parents=True, exist_ok=True)
    classes = tuple(arguments.only or CLASSES)
    cases = [each.rpartition(":") for each in arguments.case or ()]
    hive = not HIVE.isdisjoint([name for name, *_ in cases] or classes)
    with tempfile.TemporaryDirectory(dir=arguments.output, prefix="run-") as directory:
        home = (arguments.home or Path(directory)).absolute()
        if arguments.processes:
            return in_processes(
                home, classes, arguments.seed, arguments.pairs or 100, arguments.output
            )
        spark = fuzz_session(home, hive=hive, stays=arguments.home is not None)
        make_tables(spark, Path(directory).absolute() / "tables")
        config = {
            "intermediate-result-storage.directory": str(Path(directory).absolute() / "kept"),
            "implicit-cache.enabled": arguments.implicit,
        }
        with Environment(spark, config=config) as env:
            player = Player(env, World(spark, home / "cases"), arguments.part)
            fuzz = Fuzz(player, arguments.output, arguments.attempts)
            if cases:
                for name, _, seed in cases:
                    verdict = fuzz.verdict(name, int(seed))
                    if verdict != "good" or arguments.part is None:
                        _say(f"{name} {seed}: {verdict}")
                fuzz.report(arguments.seed)
            else:
                fuzz.run(
                    classes, arguments.seed, arguments.minutes * 60, arguments.pairs, arguments.mode
                )
                fuzz.report(arguments.seed)
                if env._implicit.live is not None:
                    _say(f"{env._implicit.live.uses} shuffles and broadcasts were reused")
            status = 1 if fuzz.findings or player.counts.share_found < _LEAST_FOUND else 0
        spark.stop()
    return status


class Fuzz:
    """Makes cases, plays them, and shows what it finds.

    Args:
        player: of one session.
        output: keeps the findings.
        attempts: how often a case is tried with something left out.
    """

    def __init__(self, player: Player, output: Path, attempts: int) -> None:
        self._player = player
        self._attempts = attempts
        self._output = output
        self.findings: list[Finding] = []
        self.scores: dict[str, Score] = {}

    def run(
        self, classes: Sequence[str], seed: int, seconds: float, pairs: int | None, mode: str
    ) -> None:
        """Makes pairs of each class in turn, until the time is over or there are enough."""
        counts = self._player.counts
        deadline = time.monotonic() + seconds
        for number in itertools.count():
            for name in classes:
                enough = counts.pairs + counts.digested >= pairs if pairs else False
                if enough or (pairs is None and time.monotonic() > deadline):
                    return
                self._round(name, seed * 1_000_000 + number, mode)

    def _round(self, name: str, number: int, mode: str) -> None:
        score = self.scores.setdefault(name, Score())
        started = time.monotonic()
        if mode != "digests":
            score.played += 1
            self.play(case(name, number))
        if name in FAMILIES:
            self._family(name, number, mode, score)
        elif name in PAIRS and mode != "jobs":
            self._digests(name, number, variants_of(pair_of(name, number)), score)
        score.seconds += time.monotonic() - started

    def _family(self, name: str, number: int, mode: str, score: Score) -> None:
        family = self._digests(f"{name} family", number, family_of(name, number), score)
        if mode == "jobs" or (mode == "both" and number % _TOGETHER == 0):
            score.played += 1
            self.play(case_of(name, number, family))

    def _digests(self, kind: str, number: int, family: Family, score: Score) -> Family:
        family, findings = self._player.digests_agree_wrongly(f"{kind} {number}", family)
        score.digested += family.pairs
        for found in findings:
            # Jobs may show it, too; then it can be made smaller.
            played = self._player.play(found.script)
            small = self._small(found.script, played[0].kind) if played else found.script
            self._show(found, small)
            score.kinds[found.kind] += 1
        return family

    def play(self, script: Script) -> bool:
        """Plays a case; shows what was wrong, made small. Whether there was anything."""
        found = self._player.play(script)
        if not found:
            return False
        self._show(found[0], self._small(script, found[0].kind))
        name = script.label.partition(" ")[0]
        self.scores.setdefault(name, Score()).kinds[found[0].kind] += 1
        return True

    def verdict(self, name: str, seed: int) -> str:
        """Plays one case, and says in a word what came of it."""
        refused, started = self._player.counts.invalid, time.monotonic()
        is_found = self.play(case(name, seed))
        score = self.scores.setdefault(name, Score())
        score.played += 1
        score.seconds += time.monotonic() - started
        if is_found:
            return "found"
        return "good" if self._player.counts.invalid == refused else "refused by Spark"

    def _small(self, script: Script, kind: str) -> Script:
        def is_bad(smaller: Script) -> bool:
            return kind in [each.kind for each in self._player.play(smaller)]

        counts = self._player.counts
        # What is tried to make a case smaller isn't another one.
        self._player.counts = Counts()
        try:
            return shrunk(script, is_bad, self._attempts)
        finally:
            self._player.counts = counts

    def _show(self, finding: Finding, script: Script) -> None:
        self.findings.append(finding)
        told = f"{finding.kind}, of `{finding.step}`\n{finding.detail}".replace('"""', "")
        text = f'r"""{told}\n"""\n{snippet(script)}\n'
        path = self._output / f"{finding.script.label.replace(' ', '-')}.py"
        path.write_text(text)
        _say(f"FOUND {finding.script.label}: {finding.kind} -> {path}")

    def report(self, seed: int) -> None:
        """Says what was played, how fast, and what was found."""
        counts = self._player.counts
        seconds = sum(score.seconds for score in self.scores.values()) or 1.0
        total = counts.pairs + counts.digested
        _say(
            f"seed {seed}: {total} pairs in {seconds:.0f} s, {total / seconds:.1f} a second: "
            f"{counts.pairs} through Holdfast ({counts.runs} jobs, {counts.repeated} run twice), {counts.digested} by their "
            f"digests; {counts.invalid} that Spark refuses; {len(self.findings)} findings"
        )
        for name, score in self.scores.items():
            _say(
                f"  {name}: {score.played} cases, {score.digested} by digest, "
                f"{score.seconds:.0f} s, {dict(score.kinds) or 'nothing found'}"
            )
        for name, hits, hoped in _reads(counts.expected_reads):
            _say(f"  read what was kept, {name}: {hits} of {hoped}")
        if counts.due:
            _say(
                f"  found what another program has kept: {counts.share_found:.1%} of "
                f"{counts.due.total()}; private with a reason: {dict(counts.private) or 'nothing'}"
            )
        for name, hits, due in _reads(counts.due):
            _say(f"    {name}: {hits} of {due}")
        for missed in counts.missed:
            _say(f"  MISSED {missed}")
        document = {
            "seed": seed,
            "pairs_by_jobs": counts.pairs,
            "pairs_by_digests": counts.digested,
            "refused_by_spark": counts.invalid,
            "pairs_per_second": round(total / seconds, 2),
            "share_found": round(counts.share_found, 4),
            "due": counts.due.total(),
            "private": dict(counts.private),
            "findings": [f"{each.script.label}: {each.kind}" for each in self.findings],
        }
        (self._output / "fuzz.json").write_text(json.dumps(document, indent=2) + "\n")


def _reads(counted: Counter[tuple[str, bool]]) -> Iterator[tuple[str, int, int]]:
    for name in sorted({name for name, _ in counted}):
        yield name, counted[name, True], counted[name, True] + counted[name, False]


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())

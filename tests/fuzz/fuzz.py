"""`python -m tests.fuzz.fuzz`: compares generated pairs of computations until the time is over."""

from __future__ import annotations

import argparse
import itertools
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast import Environment
from tests.fuzz.classes import CLASSES, FAMILIES, HIVE, PAIRS, case, case_of, family_of, pair_of
from tests.fuzz.family import Family, variants_of
from tests.fuzz.player import Counts, Finding, Player
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


def main() -> int:
    """Fuzzes; returns 1 when anything was found, or with `--prove` when something wasn't."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long new pairs are made")
    parser.add_argument("--pairs", type=int, help="how many pairs are enough, before that")
    parser.add_argument("--seed", type=int, default=0, help="which pairs are made")
    parser.add_argument("--only", action="append", choices=CLASSES, help="a class of mutations")
    parser.add_argument("--case", action="append", metavar="CLASS:SEED", help="one case")
    parser.add_argument(
        "--prove", action="store_true", help="show that bugs are found with their fixes taken out"
    )
    parser.add_argument("--without", choices=UNFIXED, help="the bug whose fix is taken out")
    parser.add_argument("--implicit", action="store_true", help="with the implicit cache")
    parser.add_argument("--attempts", type=int, default=60, help="to make a case smaller")
    parser.add_argument("--output", type=Path, default=Path("build/fuzz"))
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
        home = Path(directory).absolute()
        spark = fuzz_session(home, hive=hive)
        make_tables(spark, home / "tables")
        config = {
            "intermediate-result-storage.directory": str(home / "kept"),
            "implicit-cache.enabled": arguments.implicit,
        }
        with Environment(spark, config=config) as env:
            player = Player(env, World(spark, home / "cases"))
            fuzz = Fuzz(player, arguments.output, arguments.attempts)
            for name, _, seed in cases:
                _say(f"{name} {seed}: {fuzz.verdict(name, int(seed))}")
            if not cases:
                fuzz.run(classes, arguments.seed, arguments.minutes * 60, arguments.pairs)
            fuzz.report()
            if env._implicit.live is not None:
                _say(f"{env._implicit.live.uses} shuffles and broadcasts were reused")
            status = 1 if fuzz.findings or player.counts.share_found < _LEAST_FOUND else 0
        spark.stop()
    return status


class Fuzz:
    """Makes cases, plays them, and keeps what it finds, made small by so many attempts."""

    def __init__(self, player: Player, output: Path, attempts: int) -> None:
        self._player = player
        self._attempts = attempts
        self._output = output
        self._started = time.monotonic()
        self.findings: list[Finding] = []

    def run(self, classes: Sequence[str], seed: int, seconds: float, enough: int | None) -> None:
        """Makes pairs of each class in turn, until the time is over or there are enough."""
        counts = self._player.counts
        for number in itertools.count(seed * 1_000_000):
            for name in classes:
                is_over = time.monotonic() > self._started + seconds
                if is_over or (enough is not None and counts.pairs + counts.digested >= enough):
                    return
                self._play(case(name, number))
                if name in FAMILIES:
                    family = self._digests(f"{name} family {number}", family_of(name, number))
                    if number % _TOGETHER == 0:
                        self._play(case_of(name, number, family))
                elif name in PAIRS:
                    self._digests(f"{name} {number}", variants_of(pair_of(name, number)))

    def verdict(self, name: str, seed: int) -> str:
        """Plays one case, and says in a word what came of it."""
        refused = self._player.counts.invalid
        if self._play(case(name, seed)):
            return "found"
        return "good" if self._player.counts.invalid == refused else "refused by Spark"

    def _digests(self, label: str, family: Family) -> Family:
        family, findings = self._player.digests_agree_wrongly(label, family)
        for found in findings:
            # Jobs may show it, too; then it can be made smaller.
            played = self._player.play(found.script)
            small = self._small(found.script, played[0].kind) if played else found.script
            self._show(found, small)
        return family

    def _play(self, script: Script) -> bool:
        """Plays a case; shows what was wrong, made small. Whether there was anything."""
        found = self._player.play(script)
        if found:
            self._show(found[0], self._small(script, found[0].kind))
        return bool(found)

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
        path = self._output / f"{finding.script.label.replace(' ', '-')}.py"
        path.write_text(f'r"""{told}\n"""\n{snippet(script)}\n')
        _say(f"FOUND {finding.script.label}: {finding.kind} -> {path}")

    def report(self) -> None:
        """Says what was played, how fast, and what was found."""
        counts = self._player.counts
        _say(
            f"{counts.pairs} pairs through Holdfast ({counts.runs} jobs, {counts.repeated} run "
            f"twice), {counts.digested} by their digests, in {time.monotonic() - self._started:.0f} "
            f"s; {counts.invalid} that Spark refuses; {len(self.findings)} findings"
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


def _reads(counted: Counter[tuple[str, bool]]) -> Iterator[tuple[str, int, int]]:
    for name in sorted({name for name, _ in counted}):
        yield name, counted[name, True], counted[name, True] + counted[name, False]


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())

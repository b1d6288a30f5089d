"""Plays cases of programs that share results with a process for each program."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.fuzz.classes import PROGRAMS, case


def in_processes(home: Path, classes: Sequence[str], seed: int, pairs: int, output: Path) -> int:
    """Has the first programs of all cases played by a process, then the second ones, and so on.

    Args:
        home: a directory that they share.
        classes: of cases; those whose programs share nothing are left out.
        seed: which cases.
        pairs: how many pairs there are at least.
        output: where programs go that show what was wrong.

    Returns:
        1 if anything is wrong, or too little was found.
    """
    names = [each for each in classes if each in PROGRAMS]
    chosen = [f"{name}:{number}" for name, number in _chosen(names, seed, pairs)]
    failed = False
    for part in range(max(PROGRAMS.values())):
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "tests.fuzz.fuzz", "--part", str(part)),
                *("--home", str(home), "--output", str(output), "--attempts", "0"),
                *itertools.chain.from_iterable(("--case", each) for each in chosen),
            ],
            check=False,
        )
        failed = failed or ended.returncode != 0
    return 1 if failed else 0


def _chosen(names: Sequence[str], seed: int, pairs: int) -> Iterator[tuple[str, int]]:
    for number in itertools.count(seed * 1_000_000):
        for name in names:
            if pairs <= 0:
                return
            pairs -= case(name, number).pairs
            yield name, number

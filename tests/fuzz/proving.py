"""Shows that the fuzzer finds the bugs that it has found, each with its fix taken out."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.fuzz.proofs import PROOFS, Proof

_FOUND = re.compile(r"^FOUND (.*): (.+) -> ", re.MULTILINE)


def prove(output: Path, say: Callable[[str], None]) -> int:
    """Plays all cases that have found bugs; 0 when each bug is found again."""
    missed = 0
    for bug, proofs in itertools.groupby(PROOFS, lambda each: each.bug):
        found = found_without_fix(list(proofs), output)
        missed += not found
        cases = ", ".join(f"{case} ({kind})" for case, kind in found.items())
        say(f"bug {bug}: {'found by ' + cases if found else 'NOT found'}")
    return 1 if missed else 0


def found_without_fix(proofs: Sequence[Proof], output: Path) -> dict[str, str]:
    """What is wrong in cases of a bug, by their labels, where its fix is taken out."""
    cases = (("--case", f"{each.name}:{each.seed}") for each in proofs)
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzz.fuzz", "--without", proofs[0].bug[0]),
            *itertools.chain.from_iterable(cases),
            *("--attempts", "0", "--output", str(output)),
            *(["--implicit"] if proofs[0].implicit else []),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = dict(_FOUND.findall(ended.stdout))
    assert found or ended.returncode == 0, ended.stderr[-2_000:]
    return found

"""Shows that the fuzzer finds the bugs that it has found, each with its fix taken out."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.proofs import PROOFS, Proof

_FOUND = re.compile(r"^FOUND .*: (.+) -> ", re.MULTILINE)


def prove(output: Path, say: Callable[[str], None]) -> int:
    """Plays all cases that have found bugs; 0 when each bug is found again.

    Args:
        output: where programs go that show what was wrong.
        say: told what was found.
    """
    missed = 0
    for bug, proofs in itertools.groupby(PROOFS, lambda each: each.bug):
        told = {f"{each.name}:{each.seed}": found_without_fix(each, output) for each in proofs}
        found = [f"{case} ({kind})" for case, kind in told.items() if kind]
        missed += not found
        say(f"bug {bug}: {'found by ' + ', '.join(found) if found else 'NOT found'}")
    return 1 if missed else 0


def found_without_fix(proof: Proof, output: Path) -> str | None:
    """Plays a case in a program from which the fix of its bug is taken out.

    Args:
        proof: the case.
        output: as of `prove`.

    Returns:
        what was wrong; None when nothing was.

    Raises:
        AssertionError: when the program fails.
    """
    number, case_of = proof.bug[0], f"{proof.name}:{proof.seed}"
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzz.fuzz", "--without", number, "--case", case_of),
            *("--attempts", "0", "--output", str(output)),
            *(["--implicit"] if proof.implicit else []),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = _FOUND.search(ended.stdout)
    assert found or ended.returncode == 0, ended.stderr[-2_000:]
    return found[1] if found else None

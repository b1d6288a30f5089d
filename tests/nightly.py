"""What `make nightly` runs: all that `make test` leaves out, and one table at the end.

Every step is a command with its log in `build/nightly`. The exit status is 1 if one failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

_ROOT = Path(__file__).parents[1]
_LOGS = _ROOT / "build/nightly"
_VERSIONS = ("4.0", "4.1", "4.2")
_TESTS = ("-m", "pytest", "--dist", "loadfile", "--no-loadscope-reorder")


@dataclass(frozen=True)
class Step:
    """A part of the night.

    Attributes:
        name: as the table has it.
        command: what is run.
        settings: of its environment.
        counts_tests: whether it writes a report of tests, to the path that is appended.
    """

    name: str
    command: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)
    counts_tests: bool = True


def steps(seed: int, minutes: int) -> list[Step]:
    """The steps, in their order."""
    python = sys.executable

    def tests(interpreter: str, workers: int, *arguments: str) -> tuple[str, ...]:
        return (interpreter, *_TESTS, "-n", str(workers), *arguments)

    def tool(module: str, *arguments: str) -> tuple[str, ...]:
        return (python, "-m", module, *arguments)

    return [
        Step("all tests, with every variant", tests(python, 3, "-m", "soak or not soak", "tests")),
        Step(
            "properties, 1,000 examples each",
            tests(python, 2, "-m", "hypothesis", "tests/unit"),
            {"HYPOTHESIS_PROFILE": "thorough"},
        ),
        *(
            Step(
                f"Spark {version}",
                tests(
                    str(_ROOT / f"build/spark-{version}/bin/python"),
                    2,
                    *("tests/versions", "tests/promises", "tests/spark"),
                ),
            )
            for version in _VERSIONS
        ),
        Step(
            "random pairs of programs",
            tool("tests.fuzz.fuzz", "--minutes", str(minutes), "--seed", str(seed)),
            counts_tests=False,
        ),
        Step("faults that they must find", tool("tests.fuzz.fuzz", "--prove"), counts_tests=False),
        *(
            Step(
                f"kills at random, {place}",
                tool(
                    "tests.chaos.soak",
                    *("--minutes", str(minutes), "--seed", str(seed), "--scale", "0.05", *options),
                ),
                counts_tests=False,
            )
            for place, options in (("one machine", ()), ("a cluster", ("--cluster",)))
        ),
    ]


def outcome(step: Step, number: int) -> tuple[bool, tuple[str, ...]]:
    """Whether a step was good, and its row of the table."""
    slug = f"{number:02} {step.name}".replace(",", "").replace(" ", "-")
    report = _LOGS / f"{slug}.xml"
    command = [*step.command, *([f"--junitxml={report}"] if step.counts_tests else [])]
    began = time.monotonic()
    with open(_LOGS / f"{slug}.log", "w") as log:
        ended = subprocess.run(
            command, cwd=_ROOT, stdout=log, stderr=subprocess.STDOUT, env=os.environ | step.settings
        )
    minutes = f"{(time.monotonic() - began) / 60:.1f}"
    good = ended.returncode == 0
    return good, (
        step.name,
        "good" if good else f"FAILED ({ended.returncode})",
        *_counts(report),
        minutes,
        Path(log.name).name,
    )


def _counts(report: Path) -> tuple[str, str, str]:
    if not report.exists():
        return "", "", ""
    (suite,) = ElementTree.parse(report).getroot().findall("testsuite")
    tests, failures, errors, skipped = (
        int(suite.get(count, "0")) for count in ("tests", "failures", "errors", "skipped")
    )
    bad = failures + errors
    return f"{tests - bad - skipped:,}", f"{bad:,}", f"{skipped:,}"


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="nightly", description=__doc__)
    parser.add_argument("--minutes", type=int, default=30, help="of everything that is random")
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86_400)
    parser.add_argument("--only", help="steps whose name has this")
    arguments = parser.parse_args()
    _LOGS.mkdir(parents=True, exist_ok=True)
    table = Table(title=f"The night with seed {arguments.seed}")
    for heading in ("step", "", "passed", "failed", "skipped", "minutes", f"log in {_LOGS.name}"):
        table.add_column(heading)
    all_good = True
    for number, step in enumerate(steps(arguments.seed, arguments.minutes), 1):
        if arguments.only and arguments.only not in step.name:
            continue
        print(f"{time.strftime('%H:%M')} {step.name}", flush=True)
        good, row = outcome(step, number)
        all_good &= good
        table.add_row(*row)
    Console(width=120).print(table)
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())

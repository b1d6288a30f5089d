"""Runs both programs, and says what the second one found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.two_programs.cases import CASES

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "sharing.md"
_SECONDS = 3_600
_BEGIN, _END = "<!-- made by tests/two_programs -->", "<!-- end -->"


@dataclass(frozen=True)
class Found:
    """What became of a case.

    Attributes:
        is_found: the second program read what the first one had kept.
        why: why nobody else finds it, as `list_cached()` says in the second program.
        rows: the first program's, and the second's.
        plain: the second program's, of plain Spark.
        error: what the second program failed with.
    """

    is_found: bool
    why: tuple[str, ...]
    rows: tuple[list[str], list[str]]
    plain: list[str]
    error: str | None = None


@dataclass(frozen=True)
class Runner:
    """Who runs a program.

    Attributes:
        python: its interpreter.
        user: a user of this machine who shares with all others, and keeps no file open to anybody
            of their own accord; None: this one, who shares with nobody else.
    """

    python: str = sys.executable
    user: str | None = None


def played(
    home: Path, names: Collection[str], first_by: Runner = Runner(), second_by: Runner = Runner()
) -> dict[str, Found]:
    """What became of cases, by their names; of all without any.

    Raises:
        AssertionError: when a program fails.
    """
    if first_by.user != second_by.user:
        # As the machine's administrator makes it.
        (home / "kept").mkdir()
        (home / "kept").chmod(0o1777)
        home.chmod(0o777)
    first = program(home, names, first_by)
    if first_by.user != second_by.user:
        _open_inputs(home)
    return found_again(first, program(home, names, second_by))


Said = dict[str, dict[str, Any]]


def found_again(first: Said, second: Said) -> dict[str, Found]:
    """What became of the cases of a second program."""
    return {
        name: Found(
            again.get("is_found", False),
            tuple(again.get("why", ())),
            (first[name].get("rows", []), again.get("rows", [])),
            again.get("plain", []),
            again.get("error"),
        )
        for name, again in second.items()
        if name in first
    }


def _open_inputs(home: Path) -> None:
    """Lets all users ask Derby's catalog; Spark has let them read the sources of the cases.

    Those files are left alone: whose mode changes may be another one since.
    """
    for directory, _, files in os.walk(home):
        if not Path(directory).is_relative_to(home / "kept"):
            os.chmod(directory, 0o777)
        for name in files:
            if Path(directory).is_relative_to(home / "catalog") or name == "derby.log":
                os.chmod(os.path.join(directory, name), 0o666)


def program(home: Path, names: Iterable[str], by: Runner = Runner()) -> Said:
    """What one program says of cases, by their names; of all without any.

    Raises:
        AssertionError: when it fails.
    """
    as_user = () if by.user is None else ("--user", by.user)
    # Python's workers import the functions of the cases.
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    pythons = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), by.python)
    ended = subprocess.run(
        [by.python, "-m", "tests.two_programs.program", *as_user, str(home), *names],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **pythons, "PYTHONPATH": path},
        timeout=_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    lines = [json.loads(each) for each in ended.stdout.splitlines() if each.startswith("{")]
    return {each.pop("name"): each for each in lines}


def asked(request: pytest.FixtureRequest, *tests: Callable[..., None]) -> list[str]:
    """Of which names tests were chosen."""
    chosen = {test.__name__ for test in tests}
    return [
        each.callspec.params["name"]
        for each in request.session.items
        if isinstance(each, pytest.Function) and each.originalname in chosen
    ]


def documented() -> dict[str, tuple[str, str]]:
    """What the document says of each case: whether it is found, and why not."""
    said = {}
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[1] in ("yes", "no"):
            said[cells[0]] = (cells[1], cells[2])
    return said


def tables(found: dict[str, Found]) -> Iterator[str]:
    """The document's tables, by lines."""
    for section, cases in CASES.items():
        yield from (f"### {section}", "", "| asked again | found | why not |", "|---|---|---|")
        for name in cases:
            case = found[name]
            why = "" if case.is_found else "; ".join(case.why)
            yield f"| {name} | {'yes' if case.is_found else 'no'} | {why} |"
        yield ""


def write(found: dict[str, Found]) -> None:
    """Puts the tables into the document."""
    before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(_BEGIN)
    after = rest.partition(_END)[2]
    text = "\n".join((f"{before}{_BEGIN}", "", *tables(found), f"{_END}{after}"))
    DOCUMENT.write_text(text, encoding="utf-8")

"""What one program keeps, the next one finds, or says why not: as the document says."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest

import holdfast
from tests.catalog.user_program import is_open_to_others
from tests.two_programs import hive_tables
from tests.two_programs.cases import CASES, SEVERAL_ANSWERS
from tests.two_programs.functions import PROGRAMS
from tests.two_programs.played import (
    ROOT,
    Found,
    Runner,
    asked,
    documented,
    found_again,
    played,
    program,
)
from tests.two_programs.program import STREAMS

NAMES = [name for section in CASES.values() for name in section]
_MOST = max(len([*each.versions()]) for each in PROGRAMS.values())
OTHER_PYTHON = ROOT / "build" / "other-python" / "bin" / "python"
_INSTALLED = (Path(each.__file__).resolve().parent for each in (holdfast, pyspark))
_PYTHON = Path(sys.executable).resolve()
# Whoever may not run this Python runs none of its workers.
NEEDS_WORKERS = {*CASES["Python functions"], *CASES["Rows that the program makes"]}


def is_this_spark(python: Path) -> bool:
    """Whether another version of Python has the Spark that this one has."""
    asked = "import pyspark, sys; print(pyspark.__version__, *sys.version_info[:2])"
    try:
        ended = subprocess.run([python, "-c", asked], capture_output=True, text=True)
    except OSError:
        return False
    version, *of_python = ended.stdout.split()
    return version == pyspark.__version__ and of_python != [*map(str, sys.version_info[:2])]


@dataclass(frozen=True)
class Said:
    """What two programs say, and of functions with modules further ones, which have other modules.

    Attributes:
        home: where they keep what they keep.
        programs: what each says of what it was asked, by names.
    """

    home: Path
    programs: list[dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Said:
    names = asked(request, test_a_second_program_finds_what_the_document_says)
    of_another_python = asked(request, test_a_program_of_another_python_finds_what_has_no_python)
    functions = asked(request, test_the_same_function_is_found_and_no_other_one)
    streams = asked(request, test_a_later_program_reads_records_of_the_classes_that_it_knows)
    hive = asked(request, test_what_one_program_keeps_of_a_table_of_hives_the_next_one_finds)
    others: list[list[str]] = [[], *([] for _ in range(1, _MOST))]
    for name in functions:
        for number in range(1, _versions(name)):
            others[number if PROGRAMS[name].modules else 0].append(f"{name}#{number}")
    same = [*streams, *(f"{name}#0" for name in functions)]
    home = tmp_path_factory.mktemp("programs")
    lists = [
        [*dict.fromkeys((*names, *of_another_python, *same))],
        [*names, *same, *others[0], *hive],
        *filter(None, others[1:]),
    ]
    return Said(home, [program(home, each) if each else {} for each in lists])


def _versions(name: str) -> int:
    return len([*PROGRAMS[name].versions()])


@pytest.fixture(scope="module")
def found(said: Said) -> dict[str, Found]:
    return found_again(*said.programs[:2])


@pytest.fixture(scope="module")
def found_under_another_python(request: pytest.FixtureRequest, said: Said) -> dict[str, Found]:
    if not OTHER_PYTHON.exists() or not is_this_spark(OTHER_PYTHON):
        pytest.skip("this Spark is under no other version of Python: see `make other-python`")
    names = asked(request, test_a_program_of_another_python_finds_what_has_no_python)
    return found_again(said.programs[0], program(said.home, names, Runner(str(OTHER_PYTHON))))


@pytest.fixture(scope="module")
def found_by_another_user(request: pytest.FixtureRequest) -> Iterator[dict[str, Found]]:
    if os.getuid() != 0 or not is_open_to_others(
        *_INSTALLED, Path(os.environ.get("JAVA_HOME", "/")).resolve()
    ):
        pytest.skip("only root becomes other users, who have to get to Holdfast, Spark and Java")
    names = asked(request, test_a_program_of_another_user_finds_the_same)
    if not is_open_to_others(_PYTHON.parent):
        names = [name for name in names if name not in NEEDS_WORKERS] or ["`range`"]
    with tempfile.TemporaryDirectory() as home:
        yield played(Path(home), names, Runner(user="daemon"), Runner(user="bin"))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(9)
def test_a_second_program_finds_what_the_document_says(found: dict[str, Found], name: str) -> None:
    case = found[name]
    assert_right(name, case)
    why = "" if case.is_found else "; ".join(case.why)
    assert ("yes" if case.is_found else "no", why) == documented()[name]
    assert case.is_found or why, "nothing is private without a reason"


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(18)
def test_a_program_of_another_python_finds_what_has_no_python(
    found_under_another_python: dict[str, Found], name: str
) -> None:
    case = found_under_another_python[name]
    assert_right(name, case)
    is_found = documented()[name][0] == "yes" and name not in CASES["Python functions"]
    assert case.is_found is is_found


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.soak
def test_a_program_of_another_user_finds_the_same(
    found_by_another_user: dict[str, Found], name: str
) -> None:
    if name in NEEDS_WORKERS and not is_open_to_others(_PYTHON.parent):
        pytest.skip("other users can't run this Python")
    case = found_by_another_user[name]
    assert_right(name, case)
    is_of_catalog = any("catalog" in why for why in case.why)
    assert case.is_found is (documented()[name][0] == "yes" and not is_of_catalog)


def assert_right(name: str, case: Found) -> None:
    """Rows are those of plain Spark, and of what was kept."""
    assert case.error is None
    first, second = case.rows
    if case.is_found:
        assert second == first
    if name not in SEVERAL_ANSWERS:
        assert second == case.plain


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(80, 47)
def test_the_same_function_is_found_and_no_other_one(said: Said, name: str) -> None:
    versions = [f"{name}#{number}" for number in range(_versions(name))]
    played = [program[each] for program in said.programs for each in versions if each in program]
    assert len(played) == len(versions) + 1
    for number, case in enumerate(played):
        assert "error" not in case, (number, case)
        if not PROGRAMS[name].is_varying:
            assert case["rows"] == case["plain"], number
        if number == 1:
            assert case["is_found"] or case["why"], "nothing is private without a reason"
        else:
            assert not case["is_found"], number


@pytest.mark.timeout(0)
@pytest.mark.parametrize(("name", "is_found"), [*zip(STREAMS, (True, False), strict=True)])
def test_a_later_program_reads_records_of_the_classes_that_it_knows(
    said: Said, name: str, is_found: bool
) -> None:
    first, second = (program[name] for program in said.programs[:2])
    assert first["rows"] == second["rows"] != []
    assert (first["is_found"], second["is_found"]) == (False, is_found)


@pytest.mark.timeout(0)
@pytest.mark.sampled(20, 1)
@pytest.mark.parametrize("name", hive_tables.CASES)
def test_what_one_program_keeps_of_a_table_of_hives_the_next_one_finds(
    said: Said, name: str
) -> None:
    assert said.programs[1][name]["wrong"] == ""


def test_the_document_has_each_case() -> None:
    assert list(documented()) == NAMES

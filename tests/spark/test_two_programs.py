"""What one program keeps, the next one finds, or says why not: as the document says."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import holdfast
from tests.catalog.user_program import is_open_to_others
from tests.two_programs.cases import CASES, SEVERAL_ANSWERS
from tests.two_programs.played import (
    ROOT,
    Found,
    Runner,
    Said,
    asked,
    documented,
    found_again,
    played,
    program,
)

ME = Runner()
NAMES = [name for section in CASES.values() for name in section]
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


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module")
def first(request: pytest.FixtureRequest, home: Path) -> Said:
    """What the program says that is the first to ask."""
    tests = (
        test_a_second_program_finds_what_the_document_says,
        test_a_program_of_another_python_finds_what_has_no_python,
    )
    return program(home, {name for test in tests for name in asked(request, test.__name__)}, ME)


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, home: Path, first: Said) -> dict[str, Found]:
    test = test_a_second_program_finds_what_the_document_says.__name__
    return found_again(first, program(home, asked(request, test), ME))


@pytest.fixture(scope="module")
def found_under_another_python(
    request: pytest.FixtureRequest, home: Path, first: Said
) -> dict[str, Found]:
    if not OTHER_PYTHON.exists() or not is_this_spark(OTHER_PYTHON):
        pytest.skip("this Spark is under no other version of Python: see `make other-python`")
    names = asked(request, test_a_program_of_another_python_finds_what_has_no_python.__name__)
    return found_again(first, program(home, names, Runner(str(OTHER_PYTHON))))


@pytest.fixture(scope="module")
def found_by_another_user(request: pytest.FixtureRequest) -> Iterator[dict[str, Found]]:
    if os.getuid() != 0 or not is_open_to_others(
        *_INSTALLED, Path(os.environ.get("JAVA_HOME", "/")).resolve()
    ):
        pytest.skip("only root becomes other users, who have to get to Holdfast, Spark and Java")
    names = asked(request, test_a_program_of_another_user_finds_the_same.__name__)
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


def test_the_document_has_each_case() -> None:
    assert list(documented()) == NAMES

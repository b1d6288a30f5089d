"""Results over tables that Spark reads by a SerDe, which one program keeps and another asks for."""

from __future__ import annotations

import pytest

from tests.two_programs.hive_tables import CASES
from tests.two_programs.played import asked, run


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """What was wrong in each case; nothing where all is well."""
    test = test_what_one_program_keeps_of_a_table_of_hives_the_next_one_finds.__name__
    found = run("hive_tables", str(tmp_path_factory.mktemp("hive")), *asked(request, test))
    return {name: case["wrong"] for name, case in found.items()}


@pytest.mark.timeout(0)
@pytest.mark.sampled(8, 1)
@pytest.mark.parametrize("name", CASES)
def test_what_one_program_keeps_of_a_table_of_hives_the_next_one_finds(
    played: dict[str, str], name: str
) -> None:
    assert played[name] == ""

"""What one program keeps, the next one finds, or says why not: as the document says."""

from __future__ import annotations

import pytest

from tests.two_programs.cases import CASES, SEVERAL_ANSWERS
from tests.two_programs.played import Found, documented, played

NAMES = [name for section in CASES.values() for name in section]


@pytest.fixture(scope="module")
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Found]:
    asked = [
        each.callspec.params["name"]
        for each in request.session.items
        if isinstance(each, pytest.Function) and each.originalname == _TEST
    ]
    return played(tmp_path_factory.mktemp("two programs"), asked)


_TEST = "test_a_second_program_finds_what_the_document_says"


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(5)
def test_a_second_program_finds_what_the_document_says(found: dict[str, Found], name: str) -> None:
    case = found[name]
    assert case.error is None
    first, second = case.rows
    if case.is_found:
        assert second == first
    if name not in SEVERAL_ANSWERS:
        assert second == case.plain
    why = "" if case.is_found else "; ".join(case.why)
    assert ("yes" if case.is_found else "no", why) == documented()[name]
    assert case.is_found or why, "nothing is private without a reason"


def test_the_document_has_each_case() -> None:
    assert list(documented()) == NAMES

"""Functions that one program has and another has, too, and such as differ by one thing."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from tests.two_programs.functions import PROGRAMS
from tests.two_programs.played import asked, run

_AGAIN = "again"
_VERSIONS = max(len(list(program.versions())) for program in PROGRAMS.values())

Played = dict[str, dict[str, Any]]


def _program(home: Path, version: int, names: Collection[str]) -> Played:
    return run("function_program", str(home), str(version), *names)


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[int | str, Played]:
    """What became of each version of programs, and of the first one again."""
    test = test_the_same_function_is_found_and_no_other_one.__name__
    names = asked(request, test)
    home = tmp_path_factory.mktemp("functions")
    found: dict[int | str, Played] = {0: _program(home, 0, names), _AGAIN: _program(home, 0, names)}
    for version in range(1, _VERSIONS):
        found[version] = _program(home, version, names)
    return found


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(40, 3)
def test_the_same_function_is_found_and_no_other_one(
    played: dict[int | str, Played], name: str
) -> None:
    program = PROGRAMS[name]
    for version, found in played.items():
        case = found.get(name)
        if case is None:
            continue
        assert "error" not in case and "plain_error" not in case, (version, case)
        if not program.is_varying:
            assert case["rows"] == case["plain"], version
        if version == _AGAIN:
            assert case["is_found"] or case["why"], "nothing is private without a reason"
        else:
            assert not case["is_found"], version

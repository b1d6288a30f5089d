"""Functions that one program has and another has, too, and such as differ by one thing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.two_programs.functions import PROGRAMS
from tests.two_programs.played import asked, run

_MOST = max(len(list(program.versions())) for program in PROGRAMS.values())

Played = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """What became of each program, of the same one in another process, and of what differs.

    The modules of a process are those of one version.
    """
    names = asked(request, test_the_same_function_is_found_and_no_other_one.__name__)
    home = str(tmp_path_factory.mktemp("functions"))
    bare = [name for name in names if not PROGRAMS[name].modules]
    found: Played = {name: [] for name in names}
    others = [str(version) for version in range(1, _MOST)]
    for versions, of_them in (
        ("0", names),
        ("0", [name for name in names if name not in bare]),
        (",".join(("0", *others)), bare),
        *((version, [name for name in names if name not in bare]) for version in others),
    ):
        if any(len(list(PROGRAMS[name].versions())) > int(versions[0]) for name in of_them):
            for key, case in run("function_program", home, versions, *of_them).items():
                found[key.partition("#")[0]].append(case)
    return found


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.sampled(80, 47)
def test_the_same_function_is_found_and_no_other_one(played: Played, name: str) -> None:
    program = PROGRAMS[name]
    assert len(played[name]) == len(list(program.versions())) + 1
    for number, case in enumerate(played[name]):
        assert "error" not in case and "plain_error" not in case, (number, case)
        if not program.is_varying:
            assert case["rows"] == case["plain"], number
        if number == 1:
            assert case["is_found"] or case["why"], "nothing is private without a reason"
        else:
            assert not case["is_found"], number

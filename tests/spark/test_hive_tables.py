"""Results over tables that Spark reads by a SerDe, which one program keeps and another asks for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.two_programs.hive_tables import CASES

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def played(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """What was wrong in each case; nothing where all is well."""
    names = [
        each.callspec.params["name"]
        for each in request.session.items
        if isinstance(each, pytest.Function) and each.originalname == _TEST
    ]
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "tests.two_programs.hive_tables"),
            *(str(tmp_path_factory.mktemp("hive")), *names),
        ],
        capture_output=True,
        text=True,
        cwd=_ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    lines = [json.loads(each) for each in ended.stdout.splitlines() if each.startswith("{")]
    return {each["name"]: each["wrong"] for each in lines}


_TEST = "test_what_one_program_keeps_of_a_table_of_hives_the_next_one_finds"


@pytest.mark.timeout(0)
@pytest.mark.sampled(4, 1)
@pytest.mark.parametrize("name", CASES)
def test_what_one_program_keeps_of_a_table_of_hives_the_next_one_finds(
    played: dict[str, str], name: str
) -> None:
    assert played[name] == ""

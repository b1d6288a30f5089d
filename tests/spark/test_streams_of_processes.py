"""Streams that are read by programs started later, each a process with a JVM of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.short_lived_jvm import environment_of_program

PROGRAM = """
import json
import sys
from dataclasses import dataclass

from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.testing import outcomes
from places import Place


@dataclass(frozen=True)
class Visit:
    word: str


def located(words):
    pairs = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
    return pairs.map(lambda pair: Place(*pair))


def visits(words):
    return words.map(Visit)


def is_known(record):
    return isinstance(record, (Place, Visit))


kept, words = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").getOrCreate()
found = {}
with Environment(spark, config={"intermediate-result-storage.directory": kept}) as env:
    for stream in (located, visits):
        result = stream(env.read_text_file(words)).cache(lifetime="1 h")
        # They are compared with classes of this program's.
        with result.filter(is_known).execute_and_collect() as records:
            shown = sorted(map(repr, records))
        found[stream.__name__] = [shown, [each.value for each in outcomes(env)]]
print(json.dumps(found))
"""
MODULE = """
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    name: str
    number: int
"""
WORDS = "to be or not to be that is the question".split()


def run(home: Path) -> dict[str, Any]:
    path = os.pathsep.join([str(home), str(Path(holdfast.__path__[0]).parent)])
    program = subprocess.run(
        [sys.executable, str(home / "program.py"), str(home / "kept"), str(home / "words.txt")],
        env=os.environ | environment_of_program() | {"PYTHONPATH": path},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    found: dict[str, Any] = json.loads(program.stdout.splitlines()[-1])
    records, outcomes = found["visits"]
    # Of a class that is the program's own, they aren't shared.
    assert records == sorted(f"Visit(word={word!r})" for word in WORDS)
    assert "produced" in outcomes and "Define them in a module" in program.stderr
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize("changed", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_later_process_reads_records_of_the_classes_that_it_knows(
    tmp_path: Path, changed: bool
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "places.py").write_text(MODULE)
    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    places = sorted(f"Place(name={word!r}, number={WORDS.count(word)})" for word in set(WORDS))
    records, outcomes = run(tmp_path)["located"]
    assert records == places and "produced" in outcomes
    if changed:
        (tmp_path / "places.py").write_text(MODULE.replace("name: str", "title: str"))
        places = [each.replace("name=", "title=") for each in places]
    records, outcomes = run(tmp_path)["located"]
    assert records == places and ("produced" in outcomes) == changed

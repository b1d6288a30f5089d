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

PROGRAM = """
import json
import sys
from dataclasses import dataclass

from pyspark.sql import SparkSession

from holdfast import Environment, MapFunction
from places import Place, moved


@dataclass(frozen=True)
class Visit:
    word: str


class Located(MapFunction):
    def __init__(self, by):
        self.by = by

    def map(self, value):
        return moved(Place(value[0], value[1]), self.by)


def pair(word):
    return (word, 1)


def located(words):
    return words.map(pair).key_by(lambda p: p[0]).sum(1).map(Located(2))


def visits(words):
    return words.map(Visit)


def main(kept, words):
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    config = {"intermediate-result-storage.directory": kept}
    with Environment(spark.getOrCreate(), config=config) as env:
        told = {}
        for stream in (located, visits):
            result = stream(env.read_text_file(words)).cache(lifetime="1 h")
            with result.execute_and_collect() as records:
                # Places are compared with places of this program's.
                told[stream.__name__] = {
                    "records": sorted(map(repr, records)),
                    "outcomes": [str(v.outcome.value) for v in env.last_job_result.vertices],
                    "shown": repr(env.last_job_result),
                }
            with result.filter(is_known).execute_and_collect() as records:
                told[stream.__name__]["known"] = len(list(records))
        plain = located(env.read_text_file(words)).execute_and_collect()
        told["located"]["plain"] = sorted(map(repr, plain))
    print(json.dumps(told))


def is_known(record):
    return isinstance(record, (Place, Visit))


main(*sys.argv[1:])
"""
MODULE = """
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    name: str
    number: int


def moved(place, by):
    return Place(place.name, place.number * by)
"""
WORDS = "to be or not to be that is the question".split()


def run(home: Path) -> dict[str, dict[str, Any]]:
    path = os.pathsep.join([str(home), str(Path(holdfast.__path__[0]).parent)])
    program = subprocess.run(
        [sys.executable, str(home / "program.py"), str(home / "kept"), str(home / "words.txt")],
        env=os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    told: dict[str, dict[str, Any]] = json.loads(program.stdout.splitlines()[-1])
    located, visits = told["located"], told["visits"]
    assert located["records"] == located["plain"]
    assert located["known"] == len(set(WORDS)) and visits["known"] == len(WORDS)
    assert visits["records"] == sorted(f"Visit(word={word!r})" for word in WORDS)
    # Its records' class is the program's own.
    assert "produced" in visits["outcomes"]
    assert "Define them in a module" in program.stderr
    return told


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_later_process_reads_what_an_earlier_one_has_kept(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "places.py").write_text(MODULE)
    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    first = run(tmp_path)["located"]
    assert "produced" in first["outcomes"]
    later = run(tmp_path)["located"]
    assert "produced" not in later["outcomes"] and "kept by " in later["shown"]
    assert later["records"] == first["records"]
    # Of other classes the records are others, although the program is the same.
    (tmp_path / "places.py").write_text(
        MODULE.replace("name: str", "title: str").replace("place.name", "place.title")
    )
    changed = run(tmp_path)["located"]
    assert "produced" in changed["outcomes"]
    assert changed["records"] == [each.replace("name=", "title=") for each in first["records"]]

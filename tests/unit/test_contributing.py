"""What CONTRIBUTING says of where things are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import holdfast

HOME = Path(holdfast.__path__[0])
_ROW = re.compile(r"\| (F[^|]+) \| ([^|]+) \| `([^`]+)` \|")
_NAME = re.compile(r"\b(?:[A-Z][a-z]+){2,}\b")
CONCEPTS = _ROW.findall((HOME.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("seed", "concept", "file"), CONCEPTS)
def test_a_seed_s_concept_is_where_it_is_said_to_be(seed: str, concept: str, file: str) -> None:
    text = (HOME / file).read_text(encoding="utf-8")
    # What is called otherwise here stands behind a colon.
    names = _NAME.findall(concept.rpartition(":")[2])
    assert [name for name in names if f"class {name}" not in text] == []


def test_each_seed_has_concepts() -> None:
    seeds = {seed for row in CONCEPTS for seed in row[0].split(", ")}
    assert seeds == {"FLIP-36", "FLIP-205", "FLIP-383", "FLINK-12406", "FLINK-12612"}

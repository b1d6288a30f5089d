"""A slice of what `make fuzz` does: the same cases each time, and those that have found bugs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.classes import CLASSES, FAMILIES, HIVE, case, family_of
from tests.fuzz.player import Player
from tests.fuzz.playing import assert_nothing, playing
from tests.fuzz.proofs import PROOFS, Proof, fingerprint
from tests.fuzz.script import Next, snippet


@pytest.fixture(scope="module")
def player(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """Plays cases over the tables of generated plans."""
    with playing(spark, tmp_path_factory.mktemp("fuzz")) as player:
        yield player


@pytest.mark.timeout(0)
@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: f"{proof.name} {proof.seed}")
@pytest.mark.sampled(6)
def test_a_case_that_has_found_a_bug(player: Player, proof: Proof) -> None:
    """Each fails where the fix of its bug is taken out, as `make fuzz ARGS=--prove` shows."""
    script, refused = proof.script(), player.counts.invalid
    assert fingerprint(script) == proof.fingerprint, "another case, which proves nothing"
    assert_nothing(player.play(script), f"bug {proof.bug}\n{snippet(script)}")
    assert player.counts.invalid == refused, "plain Spark takes the case's plans"


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", [each for each in CLASSES if each not in HIVE])
@pytest.mark.sampled(10, 7)
def test_a_case_of_each_class(player: Player, name: str) -> None:
    script = case(name, 1)
    assert_nothing(player.play(script), snippet(script))


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=[pytest.mark.soak] * (each == "moved-partitions"))
        for each in FAMILIES
    ],
)
def test_what_has_one_digest_has_the_same_rows(player: Player, name: str) -> None:
    compared = player.counts.digested
    _, found = player.digests_agree_wrongly(name, family_of(name, 1))
    assert_nothing(found, name)
    assert player.counts.digested > compared


@pytest.mark.timeout(0)
def test_programs_find_what_has_not_changed_since_others_kept_it(player: Player) -> None:
    script = case("programs", 2)
    # The first two of its programs.
    third = [place for place, step in enumerate(script.steps) if isinstance(step, Next)][2]
    script = replace(script, steps=script.steps[:third])
    assert_nothing(player.play(script), snippet(script))
    assert not player.counts.missed
    assert player.counts.due.total() > 2


@pytest.mark.timeout(0)
@pytest.mark.soak
def test_programs_over_tables_of_hive(tmp_path: Path) -> None:
    command = ["tests.fuzz.fuzz", "--case", "programs-hive:1", "--output", str(tmp_path)]
    ended = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-2_000:]
    assert "refused" not in ended.stdout
    assert "found what another program has kept" in ended.stdout

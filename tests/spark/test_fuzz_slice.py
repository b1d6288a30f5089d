"""A slice of what `make fuzz` does: the same cases each time, and those that have found bugs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.fuzz.classes import CLASSES, FAMILIES, case, family_of
from tests.fuzz.player import Player
from tests.fuzz.playing import assert_nothing, playing
from tests.fuzz.proofs import PROOFS, Proof, fingerprint
from tests.fuzz.proving import found_without_fix
from tests.fuzz.script import snippet

BY_TEXTS = [each.name for each in PROOFS].index("literals")
"""Of the proofs, one whose fix stands in a Java class."""


@pytest.fixture(scope="module")
def player(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """Plays cases over the tables of generated plans."""
    with playing(spark, tmp_path_factory.mktemp("fuzz")) as player:
        yield player


@pytest.mark.timeout(0)
@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: f"{proof.name} {proof.seed}")
@pytest.mark.sampled(2)
def test_a_case_that_has_found_a_bug(player: Player, proof: Proof) -> None:
    """Each of these fails where the fix of its bug is taken out."""
    script, refused = proof.script(), player.counts.invalid
    assert fingerprint(script) == proof.fingerprint, "another case, which proves nothing"
    assert_nothing(player.play(script), f"bug {proof.bug}\n{snippet(script)}")
    assert player.counts.invalid == refused, "plain Spark takes the case's plans"


@pytest.mark.timeout(0)
@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: f"{proof.name} {proof.seed}")
@pytest.mark.sampled(len(PROOFS), BY_TEXTS)
def test_a_bug_is_found_where_its_fix_is_taken_out(proof: Proof, tmp_path: Path) -> None:
    assert found_without_fix([proof], tmp_path)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.sampled(2, 1)
def test_a_case_of_each_class(player: Player, name: str) -> None:
    script = case(name, 1)
    assert_nothing(player.play(script), snippet(script))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", FAMILIES)
def test_what_has_one_digest_has_the_same_rows(player: Player, name: str) -> None:
    compared = player.counts.digested
    _, found = player.digests_agree_wrongly(name, family_of(name, 1))
    assert_nothing(found, name)
    assert player.counts.digested > compared

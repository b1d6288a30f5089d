"""Which hits are verified, and which plans give the same rows each time."""

from __future__ import annotations

import random
from typing import Any

import pytest

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Why
from holdfast.runtime.verification import Verification, adds_up, why_unverifiable
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, Manifest


def node(operator: str, *children: CanonicalNode, **more: Any) -> CanonicalNode:
    return CanonicalNode(operator, operator, children, (), 0, (1,), False, 0, False, **more)


def kept(seal: str | None = None) -> KeptDataSet:
    dataset = DataSetDescription(
        dataset_id="0" * 64, computes="a range", columns=(), seal=seal, spark_version="4.3.0"
    )
    return KeptDataSet(
        directories=("/a",), manifest=Manifest(created="", dataset=dataset, partitions=())
    )


@pytest.mark.parametrize("fraction", [0.0, 0.25, 1.0])
def test_a_share_of_the_hits_is_verified(fraction: float) -> None:
    verification: Verification[Any] = Verification(fraction, None, random.Random(7).random)  # type: ignore[arg-type]
    due = sum(verification.is_due() for _ in range(10_000))
    assert due == pytest.approx(fraction * 10_000, abs=200 if fraction == 0.25 else 0)


LEAF = node("Range")


@pytest.mark.parametrize(
    ("plan", "seal", "why"),
    [
        (node("Filter", LEAF), None, None),
        (node("Filter", node("Project", LEAF, doubts=(Why.RANDOM.of("Uuid"),))), None, "doubts"),
        (node("GlobalLimit", LEAF, ambiguous_rows=True), None, "several answers"),
        (LEAF, "label", "stream"),
        (node("Project", node("CollectMetrics", LEAF)), None, "observed"),
    ],
    ids=["verified", "chance", "ties", "stream", "metrics"],
)
def test_plans_that_give_other_rows_by_right_are_not_verified(
    plan: CanonicalNode, seal: str | None, why: str | None
) -> None:
    found = why_unverifiable(plan, kept(seal))
    assert found is None if why is None else why in (found or "")


def test_numbers_are_added_up_by_what_sees_several_rows() -> None:
    assert not adds_up(node("Sort", node("Join", node("Filter", LEAF), node("Distinct", LEAF))))
    for operator in ("Aggregate", "Window", "FlatMapGroupsInPandas", "SomethingNew"):
        assert adds_up(node("Project", node(operator, LEAF)))

"""Which hits are verified, and which plans give the same rows each time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Why
from holdfast.runtime.verification import Comparison, Verification, adds_up, why_unverifiable
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, Manifest


class Nothing:
    """A verifier for those who only ask whose turn it is."""

    def compare(
        self, query: object, nodes: Sequence[CanonicalNode], kept: KeptDataSet, *, rounding: bool
    ) -> Comparison | None:
        raise AssertionError


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
    verification: Verification[object] = Verification(fraction, Nothing(), random.Random(7).random)
    due = sum(verification.is_due() for _ in range(10_000))
    assert due == pytest.approx(fraction * 10_000, abs=200)
    assert fraction not in (0.0, 1.0) or due == fraction * 10_000


def test_a_comparison_differs_where_rows_are_on_one_side_alone() -> None:
    assert not Comparison().differs
    assert not Comparison(rounded=True).differs
    assert Comparison(only_kept=1).differs
    assert Comparison(only_computed=1).differs


def test_plans_that_give_other_rows_by_right_are_not_verified() -> None:
    leaf = node("Range")
    assert why_unverifiable(node("Filter", leaf), kept()) is None
    doubtful = node("Filter", node("Project", leaf, doubts=(Why.RANDOM.of("Uuid"),)))
    assert "doubts" in (why_unverifiable(doubtful, kept()) or "")
    limited = node("GlobalLimit", leaf, ambiguous_rows=True)
    assert "several answers" in (why_unverifiable(limited, kept()) or "")
    assert "stream" in (why_unverifiable(leaf, kept("label")) or "")
    observed = node("Project", node("CollectMetrics", leaf))
    assert "observed" in (why_unverifiable(observed, kept()) or "")


def test_numbers_are_added_up_by_whatever_sees_several_rows() -> None:
    leaf = node("Range")
    assert not adds_up(node("Sort", node("Join", node("Filter", leaf), node("Distinct", leaf))))
    for operator in ("Aggregate", "Window", "FlatMapGroupsInPandas", "SomethingNew"):
        assert adds_up(node("Project", node(operator, leaf)))

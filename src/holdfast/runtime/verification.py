"""Whether what is kept is looked over by computing it again, and what comes of it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.storage.kept_dataset import KeptDataSet

Q = TypeVar("Q")
Q_contra = TypeVar("Q_contra", contravariant=True)

logger = logging.getLogger(__name__)

# What these put out depends on one row of each input at a time, or on which rows are equal.
_NEVER_ADD = frozenset(
    {
        "ArrowEvalPython",
        "BatchEvalPython",
        "Distinct",
        "Except",
        "Expand",
        "Filter",
        "Generate",
        "Intersect",
        "Join",
        "LateralJoin",
        "LocalRelation",
        "LogicalRDD",
        "LogicalRelation",
        "OneRowRelation",
        "Project",
        "Range",
        "Sort",
        "Union",
    }
)


class VerificationError(Exception):
    """A kept result could not be compared with what the plan gives, which says nothing of either.

    Args:
        reason: why, for people.
    """


@dataclass(frozen=True, slots=True)
class Comparison:
    """A kept result beside what its plan gives.

    Attributes:
        only_kept: how many rows are kept and not computed, each counted as often as it is.
        only_computed: how many are computed and not kept.
        rounded: rows differed in the last digits of floating-point numbers alone, and count as
            equal.
    """

    only_kept: int = 0
    only_computed: int = 0
    rounded: bool = False

    @property
    def differs(self) -> bool:
        """Whether they are other rows."""
        return bool(self.only_kept or self.only_computed)


class ResultVerifier(Protocol[Q_contra]):
    """What an engine does to look over what is kept."""

    def compare(
        self, query: Q_contra, nodes: Sequence[CanonicalNode], kept: KeptDataSet, *, rounding: bool
    ) -> Comparison | None:
        """Computes parts of a query anew and compares their rows with what is kept of them.

        Args:
            query: what reads it.
            nodes: the nodes of its canonical plan that would be read instead of being computed.
            kept: the result.
            rounding: floating-point numbers may differ in their last digits.

        Returns:
            what differs, by the first node for which anything does; None where none of them can be
            computed by itself.

        Raises:
            VerificationError: when it can't be done.
        """


@dataclass(frozen=True, slots=True)
class Verification(Generic[Q]):
    """For a share of hits the plan is computed as well, and compared with what is kept.

    Attributes:
        fraction: of the hits, from 0 to 1.
        verifier: compares.
        sample: draws from 0 (inclusive) to 1 (exclusive) for each hit.
    """

    fraction: float
    verifier: ResultVerifier[Q]
    sample: Callable[[], float] = random.random

    def is_due(self) -> bool:
        """Whether this hit is one of those."""
        return self.sample() < self.fraction

    def compare(
        self,
        query: Q,
        nodes: Sequence[CanonicalNode],
        made_from: Q,
        root: CanonicalNode,
        kept: KeptDataSet,
    ) -> Comparison:
        """What a kept result differs in from its plan, as far as that can be told.

        Args:
            query: what is about to read it. Its own plan is computed: whether that is the one that
                the result was made from is what is in question.
            nodes: the nodes of its canonical plan that it is read for.
            made_from: what the result was made from, for where no node can be run by itself.
            root: its canonical plan.
            kept: the result.
        """
        dataset_id = IntermediateDataSetID.from_digest(kept.manifest.dataset.dataset_id)
        why = why_unverifiable(root, kept)
        if why is not None:
            logger.debug("reading %s unverified: %s", dataset_id, why)
            return Comparison()
        rounding = adds_up(root)
        try:
            found = self.verifier.compare(query, nodes, kept, rounding=rounding)
            if found is None:
                found = self.verifier.compare(made_from, [root], kept, rounding=rounding)
        except VerificationError as error:
            logger.warning("can't verify %s, reading it unverified: %s", dataset_id, error)
            return Comparison()
        if found is None:
            logger.debug("reading %s unverified: no plan computes it on its own", dataset_id)
            return Comparison()
        if found.rounded:
            logger.debug("%s agrees with its plan up to floating-point rounding", dataset_id)
        return found


def why_unverifiable(node: CanonicalNode, kept: KeptDataSet) -> str | None:
    """Why two computations of a plan may differ by right; None where they must not.

    Args:
        node: the plan.
        kept: its result.
    """
    if node.all_doubts():
        return "its plan has doubts"
    if node.ambiguous:
        return f"several answers are right: {'; '.join(map(str, node.ambiguities()))}"
    if kept.manifest.dataset.seal is not None:
        return "it is a stream, whose batches may be divided in another way"
    if any(each.operator == "CollectMetrics" for each in node.walk()):
        return "it is observed, and would be observed twice"
    return None


def adds_up(node: CanonicalNode) -> bool:
    """Whether floating-point numbers may come of several rows, in an order that Spark chooses.

    Args:
        node: a plan.
    """
    return any(each.operator not in _NEVER_ADD for each in node.walk())

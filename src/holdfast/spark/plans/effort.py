"""How much work nodes of a plan are, by what is estimated."""

from __future__ import annotations

from collections.abc import Callable, Collection

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.spark.plans.size_estimates import SizeEstimates

_GATHERS = frozenset({"Aggregate", "Distinct"})


class Effort:
    """How much work nodes of an analyzed plan are, of which Spark reads the used columns alone.

    Args:
        estimates: of its nodes.
        needed: those of a node's columns that are used above it; None where all of them may be.
    """

    def __init__(
        self,
        estimates: SizeEstimates,
        needed: Callable[[CanonicalNode], Collection[int] | None],
    ) -> None:
        self._estimates = estimates
        self._needed = needed

    def of(self, root: CanonicalNode) -> float:
        """That of a node and of all below it; what stands there twice is done once."""
        return sum(map(self._own, {node.digest: node for node in root.walk()}.values()))

    def reading(self, root: CanonicalNode) -> float:
        """That of what a node, and all below it, is made of."""
        leaves = {node.digest: node for node in root.walk() if not node.children}
        return sum(map(self._own, leaves.values()))

    def share(self, node: CanonicalNode) -> float:
        """Which part of a node's bytes is used above it."""
        needed = self._needed(node)
        if needed is None:
            return 1.0
        places = [place for place, column in enumerate(node.output) if column in needed]
        return self._estimates.share_of(node, places)

    def _own(self, node: CanonicalNode) -> float:
        facts = self._estimates.facts(node)
        if not node.children:
            return facts.work * self.share(node)
        inputs = [(self._estimates.facts(each).size, each) for each in node.children]
        used = sum(size * self.share(each) for size, each in inputs)
        if node.operator in _GATHERS:
            # Rows are gathered before they are shuffled.
            return used + facts.size
        return facts.work * used / max(1, sum(size for size, _ in inputs))

"""Where a job can keep a table and use its rows at the same time."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.substitution import examine
from holdfast.plan.traits import Trait

# They take whatever comes, in the order in which it comes, once.
_TAKES_AS_IT_COMES = frozenset(
    {
        "ArrowEvalPython",
        "BatchEvalPython",
        "Expand",
        "Filter",
        "Generate",
        "Join",
        "MapInArrow",
        "MapInPandas",
        "Project",
        "Repartition",
        "Sample",
        "Sort",
        "Union",
    }
)
# What is above them gets rows when they have had all of theirs.
_TAKES_ALL = frozenset({"Aggregate", "Distinct", "Except", "Intersect", "Window"})
_OBSERVED = "CollectMetrics"


def one_pass_node(
    root: CanonicalNode, digest: str, is_cached: Callable[[CanonicalNode], bool]
) -> CanonicalNode | None:
    """The node of a job's plan whose rows can be written while they flow on to what is above it.

    It is the only one that computes them, and all of them are asked for, once: by a limit right
    above they aren't, and a global sort first takes samples. What Spark decides on its way may
    still have it otherwise, which the tasks' receipts tell.

    Args:
        root: the canonical plan of the answer.
        digest: of what is to be kept.
        is_cached: whether a node's rows are, or are going to be, kept.

    Returns:
        the node; None where two Spark jobs have to do it: one that keeps, and one that reads.
    """
    found = [match for match in examine(root, is_cached) if match.node.digest == digest]
    if len(found) != 1 or found[0].in_barrier or found[0].obstacle is not None:
        return None
    node = found[0].node
    if node.layout_sensitive or node.layout is not None or node.all_doubts():
        return None
    if any(each.operator == _OBSERVED or Trait.BARRIER in each.traits for each in root.walk()):
        return None
    above = _above(root, node)
    return node if above is not None and _take_all_rows(above) else None


def _above(root: CanonicalNode, node: CanonicalNode) -> list[CanonicalNode] | None:
    """The operators above a node, the nearest first; None where it isn't simply an input of theirs.

    What is inside an expression, or defined for the whole plan, Spark may run several times.
    """
    waiting: list[tuple[CanonicalNode, list[CanonicalNode]]] = []
    if root.replaceable:
        waiting.append((root, []))
    while waiting:
        each, above = waiting.pop()
        if each is node:
            return above
        waiting.extend((child, [each, *above]) for child in each.children if child.replaceable)
    return None


def _take_all_rows(above: list[CanonicalNode]) -> bool:
    for operator in above:
        if operator.operator in _TAKES_ALL:
            return True
        if operator.operator not in _TAKES_AS_IT_COMES:
            return False
        # A sort of all rows alone fixes an order; below, there may be one as well.
        if operator.operator == "Sort" and operator.ordered:
            return False
    return True

"""Plans in which a part counts as another one that has the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.deep import Walk, walked


def standing_in(root: CanonicalNode, others: Mapping[str, CanonicalNode]) -> CanonicalNode:
    """A canonical plan in which parts are known as what they stand in for.

    What is above them is known as before.

    Args:
        root: the plan.
        others: for digests of parts other nodes, whose rows these have, and whose columns in the
            same order.
    """
    return walked(_standing_in(root, others)) if others else root


def _standing_in(node: CanonicalNode, others: Mapping[str, CanonicalNode]) -> Walk[CanonicalNode]:
    children = []
    for child in node.children:
        children.append((yield _standing_in(child, others)))
    if any(new is not old for new, old in zip(children, node.children, strict=True)):
        node = replace(node, children=tuple(children))
    other = others.get(node.digest)
    if other is None:
        return node
    return replace(node, digest=other.digest, rows=other.rows, columns=other.columns)

"""Parts of a plan that are to be run as they are written."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from holdfast.plan.canonical_plan import CanonicalNode


def with_fixed_parts(root: CanonicalNode, fixed: Collection[int]) -> CanonicalNode:
    """The plan in which nothing below some nodes may be replaced; these nodes themselves may.

    The engine can't tell a plan's equal nodes apart, so what is below one of them is fixed wherever
    it occurs.

    Args:
        root: a canonical plan.
        fixed: handles of nodes.
    """
    tops = [node for node in root.walk() if node.handle in fixed]
    below = {
        part.digest
        for node in tops
        for child in (*node.children, *node.subqueries)
        for part in child.walk()
    }
    # What only renames its input has its digest.
    below -= {node.digest for node in tops}
    if not below:
        return root
    done: dict[int, CanonicalNode] = {}
    # Plans can be deeper than Python's stack.
    for node in reversed(list(root.walk())):
        done[id(node)] = replace(
            node,
            children=tuple(done[id(child)] for child in node.children),
            subqueries=tuple(done[id(each)] for each in node.subqueries),
            replaceable=node.replaceable and node.digest not in below,
        )
    return done[id(root)]

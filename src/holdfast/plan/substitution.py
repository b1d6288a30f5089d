"""Finds in a plan what is to be read instead of computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.plan.canonical_plan import CanonicalNode


def find_matches(
    root: CanonicalNode, wanted: Callable[[CanonicalNode], bool], *, below_root: bool = False
) -> Iterator[CanonicalNode]:
    """The topmost nodes that `wanted` accepts, in pre-order, subqueries included.

    What is below a match is not looked at: reading the match makes it unnecessary.

    Args:
        root: a canonical plan.
        wanted: whether a node's rows are, or are going to be, kept.
        below_root: leave out the root itself, for a plan that is about to be computed.
    """
    waiting = [root]
    while waiting:
        node = waiting.pop()
        runnable = node.reach == 0 and node.replaceable
        if runnable and wanted(node) and not (below_root and node.digest == root.digest):
            yield node
            continue
        waiting.extend(reversed(node.subqueries))
        waiting.extend(reversed(node.children))

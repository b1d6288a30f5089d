"""An order in which everything comes after what it needs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def topological_order(roots: Iterable[T], needs: Callable[[T], Iterable[T]]) -> list[T]:
    """All that can be reached from the roots, each once and after all that it needs.

    The order depends on nothing but the order of the roots and of what each needs.

    Args:
        roots: where to begin.
        needs: what a node needs. There are no cycles.

    >>> topological_order("d", {"d": "bc", "c": "a", "b": "a", "a": ""}.__getitem__)
    ['a', 'b', 'c', 'd']
    """
    ordered: dict[T, None] = {}
    for root in roots:
        # Not recursive: a program may be longer than Python's stack is deep.
        path = [(root, iter(needs(root)))]
        while path:
            node, rest = path[-1]
            for each in rest:
                if each not in ordered:
                    path.append((each, iter(needs(each))))
                    break
            else:
                ordered[node] = None
                path.pop()
    return list(ordered)

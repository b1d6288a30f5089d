"""Where a plan's files were looked for."""

from __future__ import annotations

from typing import Any

# No path has it.
_BETWEEN = "\x00"


def root_paths(leaf: Any) -> tuple[str, ...]:
    """The paths that a leaf was asked for, with what wildcards stand for, sorted.

    Args:
        leaf: the JVM's `LogicalRelation` over listed files.
    """
    joined: str = leaf.relation().location().rootPaths().mkString(_BETWEEN)
    return tuple(sorted(joined.split(_BETWEEN)))

"""A plan in a few words, for people."""

from __future__ import annotations

from pathlib import PurePosixPath

from holdfast.plan.canonical_plan import CanonicalNode

_OPERATORS = 4
_SOURCES = 4
_SILENT = frozenset({"LocalLimit", "Project", "LogicalRelation", "LocalRelation", "LogicalRDD"})


def summarize(root: CanonicalNode) -> str:
    """What a plan does, from the top, and what it reads.

    Args:
        root: a canonical plan.

    Returns:
        for example `Aggregate, Filter, Join over customer.parquet, orders`.
    """
    operators: dict[str, None] = {}
    sources: dict[str, None] = {}
    for node in root.walk():
        for file in node.files:
            sources[source_name(file[0])] = None
        if node.operator in _SILENT:
            if not node.files and not node.children and node.operator != "Project":
                sources["rows in memory"] = None
        elif not node.children and node.operator == "Range":
            sources["a range"] = None
        else:
            operators[node.operator] = None
    what = _listed(list(operators) or ["Project"], _OPERATORS)
    return f"{what} over {_listed(list(sources), _SOURCES)}" if sources else what


def source_name(path: str) -> str:
    """What people call a file that is read: it, or the directory that it is a part of.

    >>> source_name("file:/data/sales/day=1/part-0.parquet"), source_name("s3://b/rates.csv")
    ('sales', 'rates.csv')
    """
    location = PurePosixPath(path)
    # Files that Spark wrote are called by the directory that they are the parts of.
    is_part = location.name.startswith("part-")
    steps = [step for step in location.parent.parts if "=" not in step]
    return steps[-1] if is_part and steps else location.name


def _listed(names: list[str], most: int) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")

"""Which plans may be split into other tasks."""

from __future__ import annotations

import pytest

from holdfast.graph.task_sizes import may_be_split_anew
from holdfast.plan.canonical_plan import CanonicalNode


def node(
    operator: str, *children: CanonicalNode, ordered: bool = False, sensitive: bool = False
) -> CanonicalNode:
    digest = f"{operator}({[each.digest for each in children]})"
    sensitive = sensitive or any(each.layout_sensitive for each in children)
    return CanonicalNode(operator, digest, children, (), 0, (0,), ordered, 0, sensitive)


FILES = node("Files")
SORTED = node("Sort", FILES, ordered=True)
SAMPLED = node("Sort", node("Sample", FILES, sensitive=True), ordered=True)


def limited(below: CanonicalNode, ordered: bool = True) -> CanonicalNode:
    local = node("LocalLimit", below, ordered=ordered, sensitive=True)
    return node("GlobalLimit", local, ordered=ordered, sensitive=True)


@pytest.mark.parametrize(
    ("root", "may_be"),
    [
        (node("Aggregate", FILES), True),
        # Rows that show their tasks are left in them.
        (node("Aggregate", node("Project", FILES, sensitive=True)), False),
        # The first of rows in an order are those of any split.
        (limited(SORTED), True),
        (limited(FILES, ordered=False), False),
        (limited(SAMPLED), False),
        # What stands above may show its task, which can't be seen from there.
        (node("Project", limited(SORTED), ordered=True), False),
    ],
    ids=lambda param: getattr(param, "digest", param),
)
def test_rows_may_be_split_otherwise(root: CanonicalNode, may_be: bool) -> None:
    assert may_be_split_anew(root) == may_be

"""How much of a plan's data one task goes through."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.graph.plan_cuts import NodeFacts
from holdfast.graph.task_sizes import (
    LEAST_TASK,
    LONGEST_SHARE,
    SHUFFLED_RATE,
    WORK_RATE,
    PlanEffort,
    may_be_split_anew,
    plan_effort,
    task_sizes,
)
from holdfast.plan.canonical_plan import CanonicalNode

BYTES = st.integers(0, 1 << 50)
SECONDS = st.floats(0.001, 3600)
CORES = st.integers(1, 512)
EFFORTS = st.builds(
    lambda read, more, *flags: PlanEffort(read, read + more, *flags),
    *(st.integers(1, 1 << 50), BYTES, st.booleans(), st.booleans()),
)


def node(
    operator: str, *children: CanonicalNode, ordered: bool = False, sensitive: bool = False
) -> CanonicalNode:
    digest = f"{operator}({[each.digest for each in children]})"
    sensitive = sensitive or any(each.layout_sensitive for each in children)
    return CanonicalNode(operator, digest, children, (), 0, (0,), ordered, 0, sensitive)


@given(EFFORTS, SECONDS, CORES)
def test_tasks_are_neither_too_long_nor_too_many(
    effort: PlanEffort, seconds: float, cores: int
) -> None:
    sizes = task_sizes(effort, seconds, cores)
    may = max(seconds, effort.longest_share * effort.work / WORK_RATE / cores) * 1.000001
    if sizes.files > LEAST_TASK:
        work = sizes.files * effort.work / max(1, effort.read)
        assert work / WORK_RATE <= may
    if sizes.shuffled > LEAST_TASK:
        assert sizes.shuffled / SHUFFLED_RATE <= may
    assert min(sizes.files, sizes.shuffled) >= LEAST_TASK
    assert effort.read / sizes.files <= cores / LONGEST_SHARE * 1.01 + 1
    harder = task_sizes(replace(effort, work=2 * effort.work), seconds, cores)
    # Of so many bytes, floating-point numbers leave out the last few.
    assert harder.files <= sizes.files * 1.000001 + 1


FILES, MORE_FILES, GROUP = node("Files"), node("More files"), node("Group", node("Files"))


@pytest.mark.parametrize(
    ("root", "shows", "aggregates"),
    [
        # Files show in partitions where no shuffle lies between, rows are aggregated where files
        # are read.
        (node("Project", node("Filter", FILES)), True, False),
        (node("Project", node("Join", node("Filter", FILES), MORE_FILES)), False, False),
        (node("Union", node("Sort", FILES), MORE_FILES), True, False),
        (node("Group", node("Filter", FILES)), False, True),
        (node("Join", GROUP, FILES), False, True),
        (node("Group", node("Join", FILES, MORE_FILES)), False, False),
        (node("Sort", FILES), False, False),
        (node("Group", node("Rows")), False, False),
    ],
    ids=lambda param: getattr(param, "digest", param),
)
def test_what_becomes_of_the_rows_of_files(
    root: CanonicalNode, shows: bool, aggregates: bool
) -> None:
    def facts(each: CanonicalNode) -> NodeFacts:
        shuffles = each.operator in ("Group", "Join", "Sort")
        is_partial = each.operator == "Group"
        work = int(each.operator in ("Files", "More files"))
        return NodeFacts(1, work=work, shuffles=shuffles, partial_aggregation=is_partial)

    effort = plan_effort(root, facts)
    assert (effort.files_make_partitions, effort.partial_aggregation) == (shows, aggregates)
    # Equal files are read once.
    files = {each.operator for each in root.walk() if not each.children} - {"Rows"}
    assert effort.read == len(files)


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

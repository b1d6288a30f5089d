"""How much of a plan's data one task goes through."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.graph.plan_cuts import MIB, NodeFacts
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


def node(
    operator: str, *children: CanonicalNode, ordered: bool = False, sensitive: bool = False
) -> CanonicalNode:
    digest = f"{operator}({[each.digest for each in children]})"
    sensitive = sensitive or any(each.layout_sensitive for each in children)
    return CanonicalNode(operator, digest, children, (), 0, (0,), ordered, 0, sensitive)


def efforts() -> st.SearchStrategy[PlanEffort]:
    return st.builds(
        lambda read, more, *told: PlanEffort(read, read + more, *told),
        st.integers(1, 1 << 50),
        BYTES,
        st.booleans(),
        st.booleans(),
    )


@given(efforts(), SECONDS, CORES)
def test_a_task_takes_no_longer_than_it_may(effort: PlanEffort, seconds: float, cores: int) -> None:
    sizes = task_sizes(effort, seconds, cores)
    may = max(seconds, effort.longest_share * effort.work / WORK_RATE / cores) * 1.000001
    if sizes.files > LEAST_TASK:
        work = sizes.files * effort.work / max(1, effort.read)
        assert work / WORK_RATE <= may
    if sizes.shuffled > LEAST_TASK:
        assert sizes.shuffled / SHUFFLED_RATE <= may
    assert min(sizes.files, sizes.shuffled) >= LEAST_TASK


@given(efforts(), SECONDS, CORES)
def test_a_core_has_no_more_tasks_than_lose_little(
    effort: PlanEffort, seconds: float, cores: int
) -> None:
    tasks = effort.read / task_sizes(effort, seconds, cores).files
    assert tasks <= cores / LONGEST_SHARE * 1.01 + 1


@given(efforts(), SECONDS, BYTES, CORES)
def test_more_work_for_the_same_bytes_makes_no_task_larger(
    effort: PlanEffort, seconds: float, more: int, cores: int
) -> None:
    harder = replace(effort, work=effort.work + more)
    sizes, of_harder = (task_sizes(each, seconds, cores) for each in (effort, harder))
    # Of so many bytes, floating-point numbers leave out the last few.
    assert of_harder.files <= sizes.files * 1.000001 + 1


@given(efforts(), SECONDS, SECONDS, CORES)
def test_more_time_makes_no_task_smaller(
    effort: PlanEffort, one: float, other: float, cores: int
) -> None:
    short, long = (task_sizes(effort, seconds, cores) for seconds in sorted((one, other)))
    assert short.files <= long.files
    assert short.shuffled <= long.shuffled


def test_a_plan_s_effort_counts_what_stands_in_it_twice_once() -> None:
    facts = {
        "Files": NodeFacts(10 * MIB, work=100 * MIB),
        "Aggregate": NodeFacts(MIB, work=50 * MIB, shuffles=True),
        "Union": NodeFacts(2 * MIB),
    }
    group = node("Aggregate", node("Files"))
    effort = plan_effort(node("Union", group, group), lambda each: facts[each.operator])
    assert effort == PlanEffort(100 * MIB, 150 * MIB, False)


@pytest.mark.parametrize(
    ("shuffles", "shows"), [((), True), (("Join",), False), (("Below",), True)], ids=str
)
def test_files_show_in_partitions_where_no_shuffle_lies_between(
    shuffles: tuple[str, ...], shows: bool
) -> None:
    def facts(each: CanonicalNode) -> NodeFacts:
        work = 1 if not each.children else 0
        return NodeFacts(1, work=work, shuffles=each.operator in shuffles)

    root = node("Project", node("Join", node("Below", node("Files")), node("More files")))
    assert plan_effort(root, facts).files_make_partitions is shows


@pytest.mark.parametrize(
    ("root", "aggregates"),
    [
        (node("Group", node("Filter", node("Files"))), True),
        (node("Join", node("Group", node("Files")), node("Files")), True),
        (node("Group", node("Join", node("Files"), node("More files"))), False),
        (node("Sort", node("Files")), False),
        (node("Group", node("Rows")), False),
    ],
    ids=lambda param: getattr(param, "digest", param),
)
def test_rows_are_aggregated_where_files_are_read(root: CanonicalNode, aggregates: bool) -> None:
    def facts(each: CanonicalNode) -> NodeFacts:
        shuffles = each.operator in ("Group", "Join", "Sort")
        work = 1 if "iles" in each.operator else 0
        return NodeFacts(
            1, work=work, shuffles=shuffles, partial_aggregation=each.operator == "Group"
        )

    assert plan_effort(root, facts).partial_aggregation is aggregates


def test_tasks_of_a_long_job_that_aggregate_what_they_read_are_fewer() -> None:
    aggregating = PlanEffort(4 << 30, 8 << 30, False, partial_aggregation=True)
    other = replace(aggregating, partial_aggregation=False)
    assert task_sizes(aggregating, 1, 2).files == 2 * task_sizes(other, 1, 2).files
    # In one that doesn't take long, a task takes no longer than it may.
    short = replace(aggregating, read=64 * MIB, work=128 * MIB)
    assert task_sizes(short, 1, 2) == task_sizes(replace(short, partial_aggregation=False), 1, 2)


def test_rows_that_tell_their_tasks_are_left_in_them() -> None:
    assert may_be_split_anew(node("Aggregate", node("Files")))
    assert not may_be_split_anew(node("Aggregate", node("Project", node("Files"), sensitive=True)))


def test_the_first_of_rows_in_an_order_are_those_of_any_split() -> None:
    ordered = node("Sort", node("Files"), ordered=True)

    def limited(below: CanonicalNode, ordered: bool) -> CanonicalNode:
        local = node("LocalLimit", below, ordered=ordered, sensitive=True)
        return node("GlobalLimit", local, ordered=ordered, sensitive=True)

    assert may_be_split_anew(limited(ordered, True))
    assert not may_be_split_anew(limited(node("Files"), False))
    drawn = node("Sort", node("Sample", node("Files"), sensitive=True), ordered=True)
    assert not may_be_split_anew(limited(drawn, True))
    # What stands above may tell its task, which can't be seen from there.
    assert not may_be_split_anew(node("Project", limited(ordered, True), ordered=True))

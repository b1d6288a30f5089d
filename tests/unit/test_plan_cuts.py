"""Where plans are cut."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.graph.plan_cuts import (
    MIB,
    CutLimits,
    NodeFacts,
    choose_cuts,
    is_worth_retaining,
)
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Reason, Why
from holdfast.plan.validity import Validity


class Plan:
    """Makes nodes, and knows what there is to be known of them."""

    def __init__(self) -> None:
        self._facts: dict[str, NodeFacts] = {}

    def node(
        self, name: str, *children: CanonicalNode, size: float = 1, work: float = 0, **facts: bool
    ) -> CanonicalNode:
        digest = f"{name}({','.join(child.digest for child in children)})"
        self._facts[digest] = NodeFacts(int(size * MIB), int(work * MIB), **facts)
        return CanonicalNode(name, digest, children, (), len(self._facts), (), False, 0, False)

    def facts(self, node: CanonicalNode) -> NodeFacts:
        return self._facts[node.digest]

    def cuts(self, root: CanonicalNode, limits: CutLimits | None = None) -> list[str]:
        return [cut.operator for cut in choose_cuts(root, self.facts, limits)]


def heavy(plan: Plan, name: str = "group", size: float = 2) -> CanonicalNode:
    """A group over much data."""
    scan = plan.node(f"files of {name}", size=1000, work=1000)
    return plan.node(name, scan, size=size, work=1000, shuffles=True)


def finished(plan: Plan, *below: CanonicalNode) -> CanonicalNode:
    """A plan that has as much to do after what stands below."""
    more = plan.node("more files", size=1000, work=1000)
    join = plan.node("join", *below, more, size=900, work=3000, shuffles=True)
    return plan.node("answer", join)


def test_a_small_result_of_much_work_is_kept() -> None:
    plan = Plan()
    assert plan.cuts(finished(plan, heavy(plan))) == ["group"]


def test_a_large_result_is_not_kept() -> None:
    plan = Plan()
    assert plan.cuts(finished(plan, heavy(plan, size=200))) == []


def test_the_narrowest_of_what_follows_is_kept() -> None:
    plan = Plan()
    project = plan.node("project", plan.node("filter", heavy(plan, size=30), size=20), size=5)
    assert plan.cuts(finished(plan, project)) == ["project"]


def test_what_little_is_left_after_is_not_worth_a_cut() -> None:
    plan = Plan()
    root = plan.node("sort", heavy(plan), work=2, shuffles=True)
    assert plan.cuts(plan.node("answer", root)) == []


def test_a_plan_that_does_little_is_not_cut() -> None:
    plan = Plan()
    scan = plan.node("files", size=20, work=20)
    group = plan.node("group", scan, size=0.01, work=20, shuffles=True)
    join = plan.node("join", group, plan.node("more"), work=20, shuffles=True)
    assert plan.cuts(plan.node("answer", join)) == []


def below_a_shuffle(
    operator: str, *, doubts: tuple[Reason, ...] = ()
) -> tuple[Plan, CanonicalNode]:
    """A plan that leaves little of its files before it shuffles them."""
    plan = Plan()
    some = plan.node("filter", plan.node("files", size=1000, work=1000), size=2)
    shuffled = plan.node(operator, some, size=900, work=3000, shuffles=True)
    return plan, replace(plan.node("answer", shuffled), doubts=doubts)


def test_what_leaves_little_of_its_files_is_kept() -> None:
    plan, root = below_a_shuffle("join")
    assert plan.cuts(root) == ["filter"]


def test_a_reader_that_gives_what_it_is_asked_for_stays_below_what_asks_it() -> None:
    for is_sensitive, cuts in ((False, ["Filter"]), (True, [])):
        plan = Plan()
        scan = plan.node("LogicalRelation", size=1000, work=1000)
        some = replace(plan.node("Filter", scan, size=2), scan_sensitive=is_sensitive)
        shuffled = plan.node("join", some, size=900, work=3000, shuffles=True)
        assert plan.cuts(plan.node("answer", shuffled)) == cuts


def test_what_the_files_of_a_kept_shuffle_hold_is_not_kept_beside_them() -> None:
    plan, root = below_a_shuffle("join")
    assert plan.cuts(root, CutLimits(keeps_shuffles=True)) == []
    plan, root = below_a_shuffle("join", doubts=(Why.RANDOM.of("Uuid"),))
    assert plan.cuts(root, CutLimits(keeps_shuffles=True)) == ["filter"]
    little = CutLimits(keeps_shuffles=True, least_retained=10_000 * MIB)
    plan, root = below_a_shuffle("join")
    assert plan.cuts(root, little) == ["filter"]
    plan, root = below_a_shuffle("Sort")
    assert plan.cuts(root, CutLimits(keeps_shuffles=True)) == ["filter"]


def test_cuts_cost_less_beside_the_files_of_kept_shuffles() -> None:
    plan = Plan()
    root = finished(plan, heavy(plan, size=80))
    assert plan.cuts(root) == ["group"]
    assert plan.cuts(root, CutLimits(keeps_shuffles=True)) == []
    # Of a plan that does less no shuffle is kept.
    little = CutLimits(keeps_shuffles=True, least_retained=10_000 * MIB)
    assert plan.cuts(root, little) == ["group"]


def test_what_is_computed_by_a_shuffle_is_kept_beside_its_files() -> None:
    plan = Plan()
    root = finished(plan, heavy(plan))
    assert plan.cuts(root, CutLimits(keeps_shuffles=True)) == ["group"]


def test_lower_cuts_come_first() -> None:
    plan = Plan()
    join = plan.node(
        "both", heavy(plan, "left"), heavy(plan, "right"), size=3, work=4000, shuffles=True
    )
    cuts = plan.cuts(finished(plan, plan.node("project", join, size=2.5)))
    assert cuts == ["left", "right", "project"]


def test_a_part_that_stands_twice_is_one_cut() -> None:
    plan = Plan()
    group = heavy(plan)
    again = replace(group, handle=77)
    root = finished(plan, group, plan.node("other use", again, shuffles=True, work=500))
    assert plan.cuts(root).count("group") == 1


@pytest.mark.parametrize(
    "why",
    [
        {"ordered": True},
        {"replaceable": False},
        {"reach": 1},
        {"layout_sensitive": True},
        {"doubts": (Why.RANDOM.of("Uuid"),)},
    ],
    ids=lambda why: next(iter(why)),
)
def test_what_can_not_be_read_instead_is_not_kept(why: dict[str, object]) -> None:
    plan = Plan()
    group = replace(heavy(plan), **why)  # type: ignore[arg-type]
    assert plan.cuts(finished(plan, group)) == []


def test_what_lasts_no_longer_than_the_application_is_not_kept() -> None:
    plan = Plan()
    rdd = replace(plan.node("rdd", size=1000, work=1000), of_session=(Why.RDD.of(),))
    group = plan.node("group", rdd, work=1000, shuffles=True)
    assert plan.cuts(finished(plan, group)) == []


@st.composite
def plans(draw: st.DrawFn) -> tuple[Plan, CanonicalNode]:
    plan = Plan()
    trees = [plan.node(f"scan {number}", size=draw(SIZES), work=draw(SIZES)) for number in range(4)]
    for number in range(draw(st.integers(1, 12))):
        below = draw(st.lists(st.sampled_from(trees), min_size=1, max_size=2))
        made = plan.node(
            f"node {number}",
            *below,
            size=draw(SIZES),
            work=draw(SIZES),
            shuffles=draw(st.booleans()),
        )
        if draw(st.booleans()):
            made = replace(made, doubts=(Why.RANDOM.of("Uuid"),))
        if draw(st.sampled_from([True, False, False, False])):
            made = replace(made, of_session=(Why.RDD.of(),))
        trees.append(made)
    return plan, trees[-1]


SIZES = st.sampled_from([0, 0.001, 1, 5, 50, 500, 5000])
LIMITS = st.builds(
    CutLimits,
    least_saved=st.sampled_from([0, MIB, 64 * MIB]),
    least_left=st.sampled_from([-1, 0, 0.1, 0.5]),
    most_cost=st.sampled_from([0, 0.15, 10]),
    cost_of_byte=st.sampled_from([0, 8]),
    cost_of_cut=st.sampled_from([0, 16 * MIB]),
    most_cuts=st.integers(0, 8),
)


@given(plans(), LIMITS)
def test_any_plan_is_cut_within_the_limits(
    made: tuple[Plan, CanonicalNode], limits: CutLimits
) -> None:
    plan, root = made
    cuts = choose_cuts(root, plan.facts, limits)
    digests = [cut.digest for cut in cuts]
    assert len(set(digests)) == len(digests) <= limits.most_cuts
    assert root.digest not in digests
    nodes = {node.digest: node for node in root.walk()}
    assert set(digests) <= set(nodes)
    for place, cut in enumerate(cuts):
        assert cut.validity() is Validity.ANYWHERE
        above = set(digests[place + 1 :])
        assert not above & {node.digest for node in cut.walk()}
    cost = sum(plan.facts(cut).size * limits.cost_of_byte + limits.cost_of_cut for cut in cuts)
    whole = sum(plan.facts(node).work for node in nodes.values())
    assert cost <= whole * limits.most_cost or not cuts


def test_a_plan_over_nothing_is_cut_where_that_costs_nothing() -> None:
    plan = Plan()
    inner = plan.node("group", plan.node("scan", size=0, work=0), size=0, work=0, shuffles=True)
    root = plan.node("sort", inner, size=0, work=0)
    free = CutLimits(least_saved=0, least_left=0, cost_of_byte=0, cost_of_cut=0)
    assert plan.cuts(root, free) == ["scan", "group"]
    assert plan.cuts(root, CutLimits(least_saved=0)) == []


def test_what_shuffles_write_is_worth_keeping_from_some_work_on() -> None:
    plan = Plan()
    root = finished(plan, heavy(plan, "group"))
    work = sum(plan.facts(node).work for node in {n.digest: n for n in root.walk()}.values())
    assert is_worth_retaining(root, plan.facts, CutLimits(least_retained=work))
    assert not is_worth_retaining(root, plan.facts, CutLimits(least_retained=work + 1))


def test_a_plan_that_shuffles_nothing_has_nothing_to_keep_of_it() -> None:
    plan = Plan()
    files = plan.node("files", size=500, work=500)
    assert not is_worth_retaining(files, plan.facts, CutLimits(least_retained=0))

"""Where plans are cut: what a recoverable job keeps on its way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.graph.plan_cuts import MIB, CutLimits, NodeFacts, choose_cuts
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Why
from holdfast.plan.validity import Validity

RANDOM = (Why.RANDOM.of("Uuid"),)
SHUFFLES = CutLimits(keeps_shuffles=True)
# Of a plan that does less no shuffle is kept.
FEW_SHUFFLES = CutLimits(keeps_shuffles=True, least_retained=10_000 * MIB)


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

    def heavy(self, name: str = "group", size: float = 2) -> CanonicalNode:
        """A group over much data."""
        scan = self.node(f"files of {name}", size=1000, work=1000)
        return self.node(name, scan, size=size, work=1000, shuffles=True)

    def finished(self, *below: CanonicalNode) -> CanonicalNode:
        """A plan that has as much to do after what stands below."""
        more = self.node("more files", size=1000, work=1000)
        join = self.node("join", *below, more, size=900, work=3000, shuffles=True)
        return self.node("answer", join)

    def facts(self, node: CanonicalNode) -> NodeFacts:
        return self._facts[node.digest]

    def cuts(self, root: CanonicalNode, limits: CutLimits | None = None) -> list[str]:
        return [cut.operator for cut in choose_cuts(root, self.facts, limits)]


@pytest.fixture
def plan() -> Plan:
    return Plan()


@pytest.mark.parametrize(
    ("size", "limits", "is_kept"),
    [
        (80, None, True),
        (200, None, False),
        # What is computed by a shuffle is kept beside its files, where it is small.
        (2, SHUFFLES, True),
        (80, SHUFFLES, False),
        (80, FEW_SHUFFLES, True),
    ],
)
def test_a_small_result_of_much_work_is_kept_unless_little_is_left_after_it(
    plan: Plan, size: float, limits: CutLimits | None, is_kept: bool
) -> None:
    group = plan.heavy(size=size)
    assert plan.cuts(plan.finished(group), limits) == ["group"] * is_kept
    # The narrowest of what follows is.
    project = plan.node("project", plan.node("filter", group, size=0.5), size=0.1)
    assert plan.cuts(plan.finished(project), limits) == ["project"]
    last = plan.node("sort", group, work=2, shuffles=True)
    assert plan.cuts(plan.node("answer", last), limits) == []


@pytest.mark.parametrize(
    "why",
    [
        {"ordered": True},
        {"replaceable": False},
        {"reach": 1},
        {"layout_sensitive": True},
        {"doubts": RANDOM},
        # It lasts no longer than the application.
        {"of_session": (Why.RDD.of(),)},
    ],
    ids=lambda why: next(iter(why)),
)
def test_what_can_not_be_read_instead_is_not_kept(plan: Plan, why: dict[str, object]) -> None:
    group = replace(plan.heavy(), **why)  # type: ignore[arg-type]
    assert plan.cuts(plan.finished(group)) == []


def test_what_gives_the_columns_it_is_asked_for_stays_below_what_asks_it(plan: Plan) -> None:
    scan = plan.node("LogicalRelation", size=1000, work=1000)
    some = replace(plan.node("Filter", scan, size=2), scan_sensitive=True)
    shuffled = plan.node("join", some, size=900, work=3000, shuffles=True)
    assert plan.cuts(plan.node("answer", shuffled)) == []


SIZES = st.sampled_from([0, 0.001, 1, 5, 50, 500, 5000])


@st.composite
def plans(draw: st.DrawFn) -> tuple[Plan, CanonicalNode]:
    plan = Plan()
    trees = [plan.node(f"scan {number}", size=draw(SIZES), work=draw(SIZES)) for number in range(4)]
    for number in range(draw(st.integers(1, 12))):
        below = draw(st.lists(st.sampled_from(trees), min_size=1, max_size=2))
        facts = {"size": draw(SIZES), "work": draw(SIZES), "shuffles": draw(st.booleans())}
        made = plan.node(f"node {number}", *below, **facts)
        in_doubt = {"doubts": RANDOM} if draw(st.booleans()) else {}
        trees.append(replace(made, **in_doubt))
    return plan, trees[-1]


@given(plans(), st.sampled_from([0, 16 * MIB]), st.integers(0, 8))
def test_any_plan_is_cut_within_the_limits(
    made: tuple[Plan, CanonicalNode], cost_of_cut: int, most_cuts: int
) -> None:
    plan, root = made
    limits = CutLimits(
        least_saved=MIB, least_left=0, most_cost=0.15, cost_of_cut=cost_of_cut, most_cuts=most_cuts
    )
    cuts = choose_cuts(root, plan.facts, limits)
    digests = [cut.digest for cut in cuts]
    assert len(set(digests)) == len(digests) <= most_cuts
    nodes = {node.digest: node for node in root.walk()}
    assert set(digests) <= set(nodes) - {root.digest}
    for place, cut in enumerate(cuts):
        assert cut.validity() is Validity.ANYWHERE
        # Lower ones come first.
        assert not {*digests[place + 1 :]} & {node.digest for node in cut.walk()}
    cost = sum(plan.facts(cut).size * limits.cost_of_byte + cost_of_cut for cut in cuts)
    whole = sum(plan.facts(node).work for node in nodes.values())
    assert cost <= whole * limits.most_cost or not cuts

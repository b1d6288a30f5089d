"""Which leaves of a physical plan decide which task has which rows, over trees of any shape."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.spark.recovery.streamed_scans import StreamedScans, streamed_scans

_EXECUTION = "org.apache.spark.sql.execution."
SCAN, RANGE, TABLE = "FileSourceScanExec", "RangeExec", "LocalTableScanExec"
JOIN, BROADCAST = "joins.BroadcastHashJoinExec", "exchange.BroadcastExchangeExec"
SHUFFLE, REUSED = "exchange.ShuffleExchangeExec", "exchange.ReusedExchangeExec"


@dataclass(frozen=True)
class Tree:
    """A physical plan."""

    name: str
    inputs: tuple[Tree, ...] = ()

    def pre_order(self) -> list[tuple[str, int]]:
        below = [each for tree in self.inputs for each in tree.pre_order()]
        return [(_EXECUTION + self.name, len(self.inputs)), *below]

    def leaves(self, *, streamed: bool = True) -> list[tuple[str, bool]]:
        """The leaves from the left, each with whether its rows are streamed."""
        streamed = streamed and self.name not in (BROADCAST, REUSED)
        if not self.inputs:
            return [(self.name, streamed)]
        return [leaf for tree in self.inputs for leaf in tree.leaves(streamed=streamed)]


def _joined(streamed: Tree, built: Tree, left: bool) -> Tree:
    broadcast = Tree(BROADCAST, (built,))
    return Tree(JOIN, (broadcast, streamed) if left else (streamed, broadcast))


LEAVES = st.sampled_from([SCAN, RANGE, TABLE, REUSED]).map(Tree)
BUILT = st.recursive(
    LEAVES, lambda below: st.builds(Tree, st.just("FilterExec"), st.tuples(below)), max_leaves=4
)
TREES = st.recursive(
    st.sampled_from([SCAN, SCAN, SCAN, RANGE, REUSED]).map(Tree),
    lambda below: st.one_of(
        st.builds(Tree, st.sampled_from(["ProjectExec", "InputAdapter"]), st.tuples(below)),
        st.builds(Tree, st.just("UnionExec"), st.lists(below, min_size=2, max_size=3).map(tuple)),
        st.builds(_joined, below, BUILT, st.booleans()),
    ),
    max_leaves=12,
)


@given(TREES)
def test_the_scans_that_are_not_broadcast_decide(tree: Tree) -> None:
    leaves = tree.leaves()
    streamed = [(index, name) for index, (name, is_streamed) in enumerate(leaves) if is_streamed]
    expected = StreamedScans(
        tuple(index for index, _ in streamed),
        any(name == _EXECUTION + JOIN for name, _ in tree.pre_order()),
    )
    only_files = all(name == SCAN for _, name in streamed)
    assert streamed_scans(tree.pre_order()) == (expected if only_files else None)


@pytest.mark.parametrize(
    "tree",
    [
        Tree(SHUFFLE, (Tree(SCAN),)),
        Tree(JOIN, (Tree(SCAN), Tree(BROADCAST, (Tree(SHUFFLE, (Tree(SCAN),)),)))),
        Tree("CoalesceExec", (Tree(SCAN),)),
        Tree("joins.BroadcastNestedLoopJoinExec", (Tree(SCAN), Tree(BROADCAST, (Tree(SCAN),)))),
        Tree("joins.SortMergeJoinExec", (Tree(SCAN), Tree(SCAN))),
        Tree("adaptive.AdaptiveSparkPlanExec"),
    ],
)
def test_where_something_else_decides_none_is_known(tree: Tree) -> None:
    assert streamed_scans(tree.pre_order()) is None

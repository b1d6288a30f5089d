"""Where a plan is cut: what of it is kept while it runs, so that it need not run again.

A job that starts again reads what lies below its cuts. A cut costs the writing and reading of its
rows; it pays when the work below it is large beside that, and much is left to be done above it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.validity import Validity

MIB = 1 << 20

# Spark has readers give what these ask for.
_ABOVE_READERS = frozenset({"Filter", "LogicalRelation", "Project"})
# Their shuffles may be by range.
_BY_RANGE = frozenset({"Sort", "RepartitionByExpression"})


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of a node before it runs.

    Attributes:
        size: estimated bytes of its rows, as they would be kept.
        work: estimated effort of the node itself: the bytes that it goes through, weighted by what
            it does with them. Reading a byte of a file is 1.
        shuffles: its inputs are dealt anew to tasks.
        partial_aggregation: its tasks aggregate by keys what they have before it is dealt anew.
    """

    size: int
    work: int = 0
    shuffles: bool = False
    partial_aggregation: bool = False


Facts = Callable[[CanonicalNode], NodeFacts]
"""For a node of a plan, what is known of it."""


@dataclass(frozen=True, slots=True)
class CutLimits:
    """When a cut is worth it.

    Attributes:
        least_saved: the work that a cut must save, beside what cuts below it save.
        least_left: which part of the plan's work must be left above a cut.
        most_cost: which part of the plan's work all cuts together may cost.
        most_cost_beside_shuffles: which part they may cost where what shuffles write is kept, which
            saves the same program more: cuts are left to a changed one.
        cost_of_byte: the work of writing and reading a byte of a cut.
        cost_of_cut: the work that each cut costs beside that: a further Spark job.
        most_cuts: how many cuts a plan gets.
        least_retained: the work of a plan of which nothing but its shuffles is kept.
        keeps_shuffles: what shuffles write is kept, other than those by range, where a plan does
            enough and there are no doubts about it. Then it isn't cut below its lowest shuffles:
            their files hold the same rows.
    """

    least_saved: int = 64 * MIB
    least_left: float = 0.1
    most_cost: float = 0.15
    most_cost_beside_shuffles: float = 0.08
    cost_of_byte: float = 8
    cost_of_cut: int = 16 * MIB
    most_cuts: int = 8
    least_retained: int = 256 * MIB
    keeps_shuffles: bool = False


def choose_cuts(
    root: CanonicalNode, facts: Facts, limits: CutLimits | None = None
) -> tuple[CanonicalNode, ...]:
    """The nodes whose rows are to be kept, lower ones before those above them.

    A plan can be cut where rows are shuffled: at the shuffle's inputs, and at its result with what
    makes that narrower. Nodes of equal digest are one cut.

    Args:
        root: a canonical plan, as the engine is about to run it.
        facts: sizes and efforts.
        limits: when a cut is worth it.

    >>> def node(operator, *children):
    ...     return CanonicalNode(
    ...         operator, f"{operator}({[c.digest for c in children]})", children, (), 0, (0,),
    ...         False, 0, False
    ...     )
    >>> plan = node("Sort", node("Join", node("Aggregate", node("Files")), node("More")))
    >>> known = {
    ...     "Files": NodeFacts(500 * MIB, work=500 * MIB),
    ...     "More": NodeFacts(500 * MIB, work=500 * MIB),
    ...     "Aggregate": NodeFacts(3 * MIB, work=500 * MIB, shuffles=True),
    ...     "Join": NodeFacts(60 * MIB, work=500 * MIB, shuffles=True),
    ...     "Sort": NodeFacts(60 * MIB, work=60 * MIB),
    ... }
    >>> [cut.operator for cut in choose_cuts(plan, lambda node: known[node.operator])]
    ['Aggregate']
    """
    return _Choice(root, facts, limits or CutLimits()).run()


def is_worth_retaining(root: CanonicalNode, facts: Facts, limits: CutLimits | None = None) -> bool:
    """Whether a plan has so much to do before its last shuffle that what its shuffles write is
    worth keeping, which costs nothing but that its job is on record.

    Args:
        root: a canonical plan, as the engine is about to run it.
        facts: sizes and efforts.
        limits: when it is worth it.
    """
    limits = limits or CutLimits()
    work = _Choice(root, facts, limits).whole
    return work >= limits.least_retained and any(facts(node).shuffles for node in root.walk())


class _Choice:
    """One choice on its way: in each round the best candidate that is left is taken."""

    def __init__(self, root: CanonicalNode, facts: Facts, limits: CutLimits) -> None:
        self._root = root
        self._facts = facts
        self._limits = limits
        self._chosen: dict[str, CanonicalNode] = {}
        self._counted: dict[str, Counter[str]] = {}
        self._below: dict[str, dict[str, CanonicalNode]] = {}
        self.whole = self._work(root)
        self._keeps_shuffles = (
            limits.keeps_shuffles and self.whole >= limits.least_retained and not root.all_doubts()
        )

    def run(self) -> tuple[CanonicalNode, ...]:
        limits = self._limits
        if self.whole < limits.least_saved:
            return ()
        candidates = {each.digest: each for each in self._candidates()}
        affordable = self.whole * (
            limits.most_cost_beside_shuffles if self._keeps_shuffles else limits.most_cost
        )
        while len(self._chosen) < limits.most_cuts:
            gains = {
                digest: self._gain(node)
                for digest, node in candidates.items()
                if digest not in self._chosen and self._cost(node) <= affordable
            }
            best = max(gains, key=lambda digest: gains[digest], default=None)
            if best is None or gains[best] < 0:
                break
            self._chosen[best] = candidates[best]
            affordable -= self._cost(candidates[best])
        # The candidates stand in an order in which they can be computed.
        return tuple(node for digest, node in candidates.items() if digest in self._chosen)

    def _candidates(self) -> Iterator[CanonicalNode]:
        cuttable = _cuttable_digests(self._root)
        above: dict[int, CanonicalNode] = {}
        order = _post_order(self._root)
        for node in order:
            if len(node.children) == 1:
                above[id(node.children[0])] = node
        shuffled: set[int] = set()
        for node in order:
            if self._facts(node).shuffles:
                shuffled.add(id(self._narrowest(node, above)))
                shuffled.update(id(each) for each in node.children if self._is_input(each, node))
        for node in order:
            if id(node) in shuffled and node.digest in cuttable:
                yield node

    def _is_input(self, node: CanonicalNode, shuffling: CanonicalNode) -> bool:
        """Whether a shuffle's input may be a cut."""
        return (
            not self._keeps_shuffles
            or shuffling.operator in _BY_RANGE
            or any(self._facts(each).shuffles for each in node.walk())
        )

    def _narrowest(self, node: CanonicalNode, above: dict[int, CanonicalNode]) -> CanonicalNode:
        """The node or what follows it without a shuffle, whichever has the fewest bytes."""
        best = node
        while (following := above.get(id(node))) is not None:
            if self._facts(following).shuffles:
                break
            node = following
            if self._facts(node).size < self._facts(best).size:
                best = node
        return best

    def _gain(self, node: CanonicalNode) -> float:
        """The work that the cut saves a job that stops at any time, less what it costs.

        Below 0 for what isn't worth it.
        """
        saved = self._saved(node)
        until = min(
            (self._work(each) for each in self._chosen.values() if self._is_below(node, each)),
            default=self.whole,
        )
        left = until - self._work(node)
        if saved < self._limits.least_saved or left < self.whole * self._limits.least_left:
            return -1
        # A plan over nothing is no work.
        return saved * left / max(self.whole, 1) - self._cost(node)

    def _cost(self, node: CanonicalNode) -> float:
        return self._facts(node).size * self._limits.cost_of_byte + self._limits.cost_of_cut

    def _saved(self, root: CanonicalNode) -> int:
        """The work below a node that no chosen cut saves already."""
        saved, seen, waiting = 0, set(), [root]
        while waiting:
            node = waiting.pop()
            if node.digest in seen or node.digest in self._chosen:
                continue
            seen.add(node.digest)
            saved += self._facts(node).work
            waiting += [*node.children, *node.subqueries]
        return saved

    def _work(self, root: CanonicalNode) -> int:
        """The work of a node and of all below it; what stands there twice is done once."""
        return sum(self._facts(node).work for node in self._nodes(root).values())

    def _is_below(self, node: CanonicalNode, other: CanonicalNode) -> bool:
        """Whether nobody but `other` needs the node."""
        return self._times(other)[node.digest] == self._times(self._root)[node.digest]

    def _times(self, root: CanonicalNode) -> Counter[str]:
        """How often a digest stands below a node."""
        if root.digest not in self._counted:
            self._counted[root.digest] = Counter(node.digest for node in root.walk())
        return self._counted[root.digest]

    def _nodes(self, root: CanonicalNode) -> dict[str, CanonicalNode]:
        found = self._below.get(root.digest)
        if found is None:
            found = self._below[root.digest] = {node.digest: node for node in root.walk()}
        return found


def _cuttable_digests(root: CanonicalNode) -> frozenset[str]:
    """The digests of nodes that may be kept, wherever they stand in the plan."""
    cuttable: set[str] = set()
    never = {root.digest}
    for node in root.walk():
        (cuttable if _may_be_kept(node) else never).add(node.digest)
    return frozenset(cuttable - never)


def _may_be_kept(node: CanonicalNode) -> bool:
    if node.reach or not node.replaceable or node.ordered:
        return False
    if node.layout_sensitive or node.layout is not None:
        return False
    # What a reader is asked for stands above it.
    if node.scan_sensitive and node.operator in _ABOVE_READERS:
        return False
    return node.validity() is Validity.ANYWHERE


def _post_order(root: CanonicalNode) -> list[CanonicalNode]:
    """Every node after those that it reads, subqueries included."""
    turned, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        turned.append(node)
        waiting.extend(node.subqueries)
        waiting.extend(node.children)
    return turned[::-1]

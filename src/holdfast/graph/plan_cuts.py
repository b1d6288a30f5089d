"""Where a plan is cut: what of it is kept while it runs, so that it need not run again.

A job that starts again reads what lies below its cuts. A cut costs the writing and reading of its
rows, and pays when the work below it is large beside that and enough is left to be done above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from holdfast.plan.canonical_plan import CanonicalNode

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of a node before it runs.

    Attributes:
        size: estimated bytes of its rows, as they would be kept.
        scanned: bytes that it reads itself from sources.
        shuffles: its inputs are dealt anew to tasks.
    """

    size: int
    scanned: int = 0
    shuffles: bool = False


Facts = Callable[[CanonicalNode], NodeFacts]
"""For a node of a plan, what is known of it."""


@dataclass(frozen=True, slots=True)
class CutLimits:
    """When a cut is worth it.

    Attributes:
        least_saved: bytes of work that a cut must save, beside what cuts below it save.
        greatest_part: of the saved work, which part the kept rows may be.
        least_left: which part of the plan's whole work must be left above a cut.
        most_cuts: how many cuts a plan gets.
    """

    least_saved: int = 64 * MIB
    greatest_part: float = 0.5
    least_left: float = 0.1
    most_cuts: int = 8


def choose_cuts(
    root: CanonicalNode, facts: Facts, limits: CutLimits | None = None
) -> tuple[CanonicalNode, ...]:
    """The nodes whose rows are to be kept, lower ones before those above them.

    Work is counted in bytes: those that sources read, and those that go through shuffles. Nodes of
    equal digest are one cut, found at the first of them.

    Args:
        root: a canonical plan, as the engine is about to run it.
        facts: sizes, and which nodes shuffle.
        limits: when a cut is worth it.

    >>> def node(operator, *children):
    ...     return CanonicalNode(
    ...         operator, f"{operator}({[c.digest for c in children]})", children, (), 0, (0,),
    ...         False, 0, False
    ...     )
    >>> plan = node("Sort", node("Join", node("Aggregate", node("Files")), node("More")))
    >>> sizes = {
    ...     "Files": NodeFacts(500 * MIB, scanned=500 * MIB),
    ...     "More": NodeFacts(500 * MIB, scanned=500 * MIB),
    ...     "Aggregate": NodeFacts(30 * MIB, shuffles=True),
    ...     "Join": NodeFacts(60 * MIB, shuffles=True),
    ...     "Sort": NodeFacts(60 * MIB),
    ... }
    >>> [cut.operator for cut in choose_cuts(plan, lambda node: sizes[node.operator])]
    ['Aggregate']
    """
    return _Choice(facts, limits or CutLimits(), root).run()


class _Choice:
    def __init__(self, facts: Facts, limits: CutLimits, root: CanonicalNode) -> None:
        self._facts = facts
        self._limits = limits
        self._root = root
        self._work: dict[str, int] = {}
        self._chosen: dict[str, CanonicalNode] = {}
        self._cuttable = _cuttable_digests(root)

    def run(self) -> tuple[CanonicalNode, ...]:
        whole = self._work_below(self._root, {})
        if whole < self._limits.least_saved:
            return ()
        # Lower nodes come first, so that a cut is asked what it saves beside those below it.
        for node in _post_order(self._root):
            for candidate in self._candidates(node):
                if self._pays(candidate, whole):
                    self._chosen[candidate.digest] = candidate
        return self._best()

    def _candidates(self, node: CanonicalNode) -> Iterator[CanonicalNode]:
        """At a shuffle its result, or where that is larger each of its inputs."""
        if not self._facts(node).shuffles:
            return
        inputs = [each for each in node.children if self._has_shuffle_below(each)]
        if self._facts(node).size <= sum(self._facts(each).size for each in node.children):
            yield node
        else:
            yield from inputs

    def _has_shuffle_below(self, node: CanonicalNode) -> bool:
        return any(self._facts(each).shuffles for each in node.walk())

    def _pays(self, node: CanonicalNode, whole: int) -> bool:
        if node.digest in self._chosen or node.digest not in self._cuttable:
            return False
        limits = self._limits
        saved = self._work_below(node, self._chosen)
        left = whole - self._work_below(node, {})
        return (
            saved >= limits.least_saved
            and self._facts(node).size <= saved * limits.greatest_part
            and left >= whole * limits.least_left
        )

    def _work_below(self, root: CanonicalNode, kept: Mapping[str, CanonicalNode]) -> int:
        """The bytes that are read and shuffled for a node, where some below it are kept."""
        work, seen, waiting = 0, set(), [root]
        while waiting:
            node = waiting.pop()
            if node.digest in seen:
                continue
            seen.add(node.digest)
            facts = self._facts(node)
            if node is not root and node.digest in kept:
                work += facts.size
                continue
            work += facts.scanned
            if facts.shuffles:
                work += sum(self._facts(each).size for each in node.children)
            waiting.extend(node.children)
            waiting.extend(node.subqueries)
        return work

    def _best(self) -> tuple[CanonicalNode, ...]:
        """Those that save most, in the order in which they can be computed."""
        saved = {
            digest: self._work_below(
                node, {other: each for other, each in self._chosen.items() if other != digest}
            )
            for digest, node in self._chosen.items()
        }
        most = sorted(saved, key=lambda digest: -saved[digest])[: self._limits.most_cuts]
        return tuple(node for digest, node in self._chosen.items() if digest in most)


def _cuttable_digests(root: CanonicalNode) -> frozenset[str]:
    """The digests of nodes that may be kept, wherever they stand in the plan."""
    cuttable: set[str] = set()
    never = {root.digest}
    for node in root.walk():
        (cuttable if _may_be_kept(node) else never).add(node.digest)
    return frozenset(cuttable - never)


def _may_be_kept(node: CanonicalNode) -> bool:
    runnable = node.reach == 0 and node.replaceable
    return runnable and not (node.layout_sensitive or node.ordered or node.all_doubts())


def _post_order(root: CanonicalNode) -> list[CanonicalNode]:
    """Every node after those that it reads, subqueries included."""
    turned, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        turned.append(node)
        waiting.extend(node.subqueries)
        waiting.extend(node.children)
    return turned[::-1]

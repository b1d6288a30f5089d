"""Finds in a plan what is to be read instead of computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.traits import KEEPS_PARTITIONS, Trait

# Each of their partitions comes from one partition of their input.
_ONE_TO_ONE = KEEPS_PARTITIONS - {"Generate", "Union"}


class Obstacle(Enum):
    """Why a node is computed although its rows are kept."""

    SCAN_OBSERVED = "input_file_name() or a similar function above it exposes the files it reads"
    BARRIER = "a barrier stage above it depends on its partitioning or ordering"


@dataclass(frozen=True, slots=True)
class Match:
    """A node whose rows are, or are going to be, kept.

    Attributes:
        node: the node.
        in_barrier: each of its partitions is the input of one task of a barrier stage.
        obstacle: why it is computed all the same; None where it is read.
        partitions_seen: the rows of the whole plan, or their order, depend on its partitions.
    """

    node: CanonicalNode
    in_barrier: bool
    obstacle: Obstacle | None
    partitions_seen: bool


@dataclass(frozen=True, slots=True)
class _Above:
    """What the operators above a node are."""

    scan_observed: bool = False
    in_barrier: bool = False
    one_to_one: bool = True
    """Whether a partition of the node's is one of the barrier's."""
    partitions_seen: bool = False
    is_whole: bool = False
    """Whether a partition of the node's is one of the whole plan's."""

    def over(self, node: CanonicalNode) -> _Above:
        """The same for the node's children."""
        seen = self.partitions_seen or Trait.SEES_PARTITIONS in node.traits
        if Trait.SHUFFLES in node.traits:
            return _Above(partitions_seen=seen)
        is_barrier = Trait.BARRIER in node.traits
        return _Above(
            self.scan_observed or Trait.OBSERVES_SCAN in node.traits,
            self.in_barrier or is_barrier,
            not self.in_barrier or (self.one_to_one and node.operator in _ONE_TO_ONE),
            seen,
            self.is_whole and node.operator in KEEPS_PARTITIONS,
        )

    def obstacle(self, node: CanonicalNode) -> Obstacle | None:
        if self.scan_observed:
            return Obstacle.SCAN_OBSERVED
        if self.in_barrier and (node.ordered or not self.one_to_one):
            return Obstacle.BARRIER
        return None


def find_matches(
    root: CanonicalNode, wanted: Callable[[CanonicalNode], bool], *, below_root: bool = False
) -> Iterator[CanonicalNode]:
    """The topmost nodes that `wanted` accepts, in pre-order, subqueries included.

    What is below a match is not looked at: reading the match makes it unnecessary.

    Args:
        root: a canonical plan.
        wanted: whether a node's rows are, or are going to be, kept.
        below_root: leave out the root itself, for a plan that is about to be computed.
    """
    for match in examine(root, wanted, below_root=below_root):
        if match.obstacle is None:
            yield match.node


def examine(
    root: CanonicalNode, wanted: Callable[[CanonicalNode], bool], *, below_root: bool = False
) -> Iterator[Match]:
    """Like `find_matches`, with what else there is to say of each, and with those that are computed
    all the same, whose inputs are looked at as well.

    Args:
        root: a canonical plan.
        wanted: whether a node's rows are, or are going to be, kept.
        below_root: leave out the root itself, for a plan that is about to be computed.
    """

    def is_wanted(node: CanonicalNode) -> bool:
        runnable = node.reach == 0 and node.replaceable
        return runnable and wanted(node) and not (below_root and node.digest == root.digest)

    matches = list(_walk(root, is_wanted, {}, frozenset()))
    obstacles = {each.node.digest: each.obstacle for each in matches if each.obstacle is not None}
    in_barrier = frozenset(each.node.digest for each in matches if each.in_barrier)
    if obstacles or in_barrier:
        # The engine can't tell a plan's equal nodes apart, so what holds for one holds for all.
        matches = list(_walk(root, is_wanted, obstacles, in_barrier))
    seen = frozenset(each.node.digest for each in matches if each.partitions_seen)
    return (replace(each, partitions_seen=each.node.digest in seen) for each in matches)


def _walk(
    root: CanonicalNode,
    is_wanted: Callable[[CanonicalNode], bool],
    obstacles: Mapping[str, Obstacle],
    in_barrier: frozenset[str],
) -> Iterator[Match]:
    waiting = [(root, _Above(is_whole=True))]
    above_definitions: _Above | None = None
    while waiting:
        node, above = waiting.pop()
        if not node.replaceable:
            # What is defined is used anywhere in the plan.
            above = above_definitions = above_definitions or _all_above(root)
        if is_wanted(node):
            obstacle = obstacles.get(node.digest) or above.obstacle(node)
            is_in_barrier = above.in_barrier or node.digest in in_barrier
            seen = above.partitions_seen or above.is_whole or is_in_barrier
            yield Match(node, is_in_barrier, obstacle, seen)
            if obstacle is None:
                continue
        below = above.over(node)
        # Spark may make joins of subqueries.
        in_subqueries = replace(below, one_to_one=False, is_whole=False)
        waiting.extend((each, in_subqueries) for each in reversed(node.subqueries))
        waiting.extend((each, below) for each in reversed(node.children))


def _all_above(root: CanonicalNode) -> _Above:
    traits = {trait for node in root.walk() for trait in node.traits}
    return _Above(
        Trait.OBSERVES_SCAN in traits,
        Trait.BARRIER in traits,
        one_to_one=False,
        partitions_seen=Trait.SEES_PARTITIONS in traits,
    )

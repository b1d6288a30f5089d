"""How many rows parts of a query had, where all of them were computed by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.advice.asked_parts import GATHERS
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import LOGICAL, OperatorDocument
from holdfast.plan.file_sources import all_operators

_JOIN = LOGICAL + "Join"
# Nothing that is below them has fewer rows because of them.
_TAKES_ALL = frozenset(
    LOGICAL + name
    for name in (
        "GlobalLimit",
        "LocalLimit",
        "Project",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sort",
        "SubqueryAlias",
        "View",
    )
)


@dataclass(frozen=True, slots=True)
class RanStep:
    """An operator that has gathered or joined all rows of what is below.

    Attributes:
        joins: how many joins there are from it on; 0 where it is none.
        rows: how many came out; None where that isn't known.
        columns: the ids of their columns.
    """

    joins: int
    rows: int | None
    columns: frozenset[int]

    @staticmethod
    def read(line: str) -> RanStep:
        """What the JVM says of it, see `java/RanSteps.java`.

        >>> RanStep.read("0 25 4 7").rows
        25
        """
        joins, rows, *columns = map(int, line.split(" "))
        return RanStep(joins, None if rows < 0 else rows, frozenset(columns))


def counted_rows(
    root: CanonicalNode, operators: Sequence[OperatorDocument], steps: Iterable[RanStep]
) -> Mapping[int, int]:
    """How many rows nodes of a query had, by their handles, as far as what has run tells.

    Spark moves conditions and leaves out what isn't needed. So nodes and steps are compared from
    the top, where nothing above has left out rows, until they aren't the same.

    Args:
        root: the query's canonical plan.
        operators: the plan it was made of.
        steps: of what has run, upper ones first.
    """
    classes = {each["i"]: each["c"] for each in all_operators([*operators])}
    known = {column for node in root.walk() for column in node.output}
    waiting = list(steps)
    # Actions such as `count()` gather what the query gives.
    while waiting and waiting[0].columns and not waiting[0].columns & known:
        waiting.pop(0)
    counted: dict[int, int] = {}
    node, columns = root, set[int]()
    while waiting:
        kind = classes[node.handle]
        columns.update(node.output)
        if kind in GATHERS or kind == _JOIN:
            step = waiting.pop(0)
            joins = _joins(node, classes) if kind == _JOIN else 0
            if step.joins != joins or not step.columns <= columns:
                break
            if step.rows is not None:
                counted[node.handle] = step.rows
            columns.clear()
        elif kind not in _TAKES_ALL:
            break
        if len(node.children) != 1:
            break
        node = node.children[0]
    return counted


def _joins(root: CanonicalNode, classes: Mapping[int, str]) -> int:
    found, waiting = 0, [root]
    while waiting:
        node = waiting.pop()
        found += classes[node.handle] == _JOIN
        waiting += node.children
    return found

"""What a plan is made of, for a drawing: its operators without their arguments."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.summary import source_name

_MOST = 150
_SILENT = frozenset({"SubqueryAlias", "View"})
_IN_MEMORY = frozenset({"LocalRelation", "LogicalRDD", "OneRowRelation"})


@dataclass(frozen=True, slots=True)
class PlanStep:
    """An operator of a plan.

    Attributes:
        operator: what it is called.
        inputs: the numbers of the steps that it reads, which come before it.
        sources: the names of the tables, files or directories that it reads itself.
    """

    operator: str
    inputs: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()


def outline(root: CanonicalNode) -> tuple[PlanStep, ...]:
    """The operators of a plan, inputs first, equal ones once; none where they are too many.

    Args:
        root: a canonical plan.
    """
    numbers: dict[int, int] = {}
    by_digest: dict[str, int] = {}
    steps: list[PlanStep] = []
    # Plans can be deeper than Python's stack.
    for node in reversed(list(root.walk())):
        inputs = tuple(
            dict.fromkeys(numbers[id(each)] for each in (*node.children, *node.subqueries))
        )
        if node.operator in _SILENT and len(inputs) == 1:
            numbers[id(node)] = inputs[0]
        elif node.digest in by_digest and steps[by_digest[node.digest]].operator == node.operator:
            numbers[id(node)] = by_digest[node.digest]
        elif len(steps) == _MOST:
            return ()
        else:
            sources = dict.fromkeys(source_name(file[0]) for file in node.files)
            operator = "Rows in memory" if node.operator in _IN_MEMORY else node.operator
            numbers[id(node)] = by_digest[node.digest] = len(steps)
            steps.append(PlanStep(operator, inputs, tuple(sources)))
    return tuple(steps)

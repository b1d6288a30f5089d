"""The plan of a result as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.graph.diagram.diagram import Arrow, Box, Diagram, Part, PartKind
from holdfast.graph.diagram.diagram_mermaid import diagram_mermaid
from holdfast.plan.outline import PlanStep

_SHOWN_SOURCES = 4


def plan_drawing(steps: Sequence[PlanStep]) -> str:
    """A plan as Mermaid's text, its sources above.

    Args:
        steps: of the plan, inputs first.

    >>> drawn = plan_drawing([PlanStep("Relation", (), ("sales",)), PlanStep("Filter", (0,))])
    >>> "sales" in drawn and "Filter" in drawn
    True
    """
    boxes = tuple(
        Box(number, (Part(_name(step), _kind(step)),), _facts(step))
        for number, step in enumerate(steps, 1)
    )
    arrows = tuple(
        Arrow(each + 1, number) for number, step in enumerate(steps, 1) for each in step.inputs
    )
    return diagram_mermaid(Diagram("Plan", boxes, arrows))


def _name(step: PlanStep) -> str:
    if len(step.sources) == 1:
        return step.sources[0]
    return step.operator


def _kind(step: PlanStep) -> PartKind:
    return PartKind.OPERATOR if step.inputs else PartKind.SOURCE


def _facts(step: PlanStep) -> tuple[str, ...]:
    if len(step.sources) < 2:
        return ()
    more = len(step.sources) - _SHOWN_SOURCES
    return (*step.sources[:_SHOWN_SOURCES], *((f"and {more:,} more",) if more > 0 else ()))

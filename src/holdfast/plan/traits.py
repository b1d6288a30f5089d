"""What an operator does with how its input is computed, beside the input's rows."""

from __future__ import annotations

from enum import Enum

from holdfast.plan.document import EXPRESSIONS, LOGICAL, OperatorDocument

_BARRIER_OPERATORS = frozenset({LOGICAL + "MapInArrow", LOGICAL + "MapInPandas"})
_IS_BARRIER = 3
_REPARTITION = LOGICAL + "Repartition"
_SHUFFLES = 1
# Rows with equal keys stay in the order in which they come.
_WINDOW = LOGICAL + "Window"
_REPARTITION_BY_EXPRESSION = LOGICAL + "RepartitionByExpression"

KEEPS_PARTITIONS = frozenset(
    {
        "ArrowEvalPython",
        "BatchEvalPython",
        "Filter",
        "Generate",
        "MapInArrow",
        "MapInPandas",
        "Project",
        "Union",
    }
)
"""The rows of each of their partitions come in the order of those of one partition of an input."""

OBSERVES_SCAN = frozenset(
    EXPRESSIONS + name for name in ("InputFileBlockLength", "InputFileBlockStart", "InputFileName")
)
"""Expressions that tell which file the scan below them is reading."""


class Trait(Enum):
    """What two plans of the same rows can be told apart by, or what hides it."""

    BARRIER = "its tasks run all at once, one for each partition of the input"
    OBSERVES_SCAN = "its expressions tell which file a row was read from"
    SEES_PARTITIONS = "its rows depend on the number, the order and the rows of input partitions"
    SHUFFLES = "its output's partitions are those of a shuffle, whatever the input's are"


def traits_of(
    operator: OperatorDocument, *, observes_scan: bool, sees_partitions: bool
) -> frozenset[Trait]:
    """The traits of an operator.

    Args:
        operator: as the plan's document describes it.
        observes_scan: one of its expressions is in `OBSERVES_SCAN`.
        sees_partitions: its rows depend on how those of its input are partitioned.
    """
    name, arguments = operator["c"], operator["f"]
    traits = set()
    if name in _BARRIER_OPERATORS and arguments[_IS_BARRIER] is not False:
        traits.add(Trait.BARRIER)
    if name == _REPARTITION_BY_EXPRESSION or (
        name == _REPARTITION and arguments[_SHUFFLES] is True
    ):
        traits.add(Trait.SHUFFLES)
    if sees_partitions or name == _WINDOW:
        traits.add(Trait.SEES_PARTITIONS)
    if observes_scan:
        traits.add(Trait.OBSERVES_SCAN)
    return frozenset(traits)

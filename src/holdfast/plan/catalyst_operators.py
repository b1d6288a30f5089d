"""What Holdfast knows of Catalyst's operators. An operator that is not here is in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from holdfast.plan.document import CATALYST, EXECUTION, EXPRESSIONS, LOGICAL
from holdfast.plan.observed import Observed


class OutputKind(Enum):
    """Where an operator's output attributes come from."""

    FIRST_CHILD = auto()
    NAMED_EXPRESSIONS = auto()  # those of the argument `OperatorRule.named`
    JOIN = auto()  # of both inputs, or the left one's, by the type of join
    CHILD_AND_NAMED = auto()  # the child's, then those of the argument `OperatorRule.named`
    DESCRIBED = auto()  # the engine says


@dataclass(frozen=True, slots=True)
class OperatorRule:
    """How an operator is made canonical.

    Attributes:
        output: where the output attributes come from.
        named: the position of the argument that holds named expressions.
        ignored: positions of arguments that no row depends on.
        defines: positions of arguments that introduce attributes rather than refer to them; what
            counts of these is in the described schema.
        transparent: the rows are the first child's, unchanged.
        keeps_order: an order that the first child's plan fixes is still there.
        layout_sensitive: which rows come out depends on how rows are partitioned among tasks.
        distributes: the rows are the first child's, in other partitions.
        seed: the position of the argument without which every run gives other rows.
        names_unseen: what the output's columns are called is nobody's concern.
        observes: what it sees of the process around it, beside what its expressions see.
    """

    output: OutputKind = OutputKind.FIRST_CHILD
    named: int = 0
    ignored: frozenset[int] = frozenset()
    defines: frozenset[int] = frozenset()
    transparent: bool = False
    keeps_order: bool = False
    layout_sensitive: bool = False
    distributes: bool = False
    seed: int | None = None
    names_unseen: bool = False
    observes: frozenset[Observed] = frozenset()


_TRANSPARENT = OperatorRule(transparent=True, keeps_order=True)
_LIMIT = OperatorRule(keeps_order=True, layout_sensitive=True)
_LEAF = OperatorRule(output=OutputKind.DESCRIBED)
# The optimizer takes Python functions out of expressions, and gives what they return other names.
_FUNCTIONS = OperatorRule(
    OutputKind.DESCRIBED, defines=frozenset({1}), keeps_order=True, names_unseen=True
)

OPERATOR_RULES: dict[str, OperatorRule] = {
    LOGICAL + name: rule
    for name, rule in {
        "Aggregate": OperatorRule(OutputKind.NAMED_EXPRESSIONS, named=1, ignored=frozenset({3})),
        "ArrowEvalPython": _FUNCTIONS,
        # As pandas-on-Spark has its rows numbered.
        "AttachDistributedSequence": OperatorRule(
            OutputKind.DESCRIBED, defines=frozenset({0}), keeps_order=True, layout_sensitive=True
        ),
        "BatchEvalPython": _FUNCTIONS,
        "Deduplicate": OperatorRule(layout_sensitive=True),
        "Distinct": OperatorRule(),
        "Except": OperatorRule(),
        "Expand": OperatorRule(OutputKind.DESCRIBED, defines=frozenset({1}), names_unseen=True),
        "Filter": OperatorRule(keeps_order=True),
        "FlatMapCoGroupsInArrow": OperatorRule(OutputKind.DESCRIBED, defines=frozenset({3})),
        "FlatMapCoGroupsInPandas": OperatorRule(OutputKind.DESCRIBED, defines=frozenset({3})),
        "FlatMapGroupsInArrow": OperatorRule(OutputKind.DESCRIBED, defines=frozenset({2})),
        "FlatMapGroupsInPandas": OperatorRule(OutputKind.DESCRIBED, defines=frozenset({2})),
        "Generate": OperatorRule(
            OutputKind.DESCRIBED,
            ignored=frozenset({3}),
            defines=frozenset({4}),
            keeps_order=True,
            names_unseen=True,
        ),
        "GlobalLimit": _LIMIT,
        "Intersect": OperatorRule(),
        "Join": OperatorRule(OutputKind.JOIN, ignored=frozenset({4})),
        "LateralJoin": OperatorRule(OutputKind.JOIN),
        "LocalLimit": _LIMIT,
        "LocalRelation": _LEAF,
        "MapInArrow": OperatorRule(OutputKind.DESCRIBED, defines=frozenset({1}), keeps_order=True),
        "MapInPandas": OperatorRule(OutputKind.DESCRIBED, defines=frozenset({1}), keeps_order=True),
        "Offset": _LIMIT,
        "OneRowRelation": _LEAF,
        "Project": OperatorRule(OutputKind.NAMED_EXPRESSIONS, named=0, keeps_order=True),
        "Range": OperatorRule(OutputKind.DESCRIBED, defines=frozenset({4})),
        "RebalancePartitions": OperatorRule(distributes=True),
        "Repartition": OperatorRule(distributes=True),
        "RepartitionByExpression": OperatorRule(distributes=True),
        "ResolvedHint": _TRANSPARENT,
        "Sample": OperatorRule(keeps_order=True, layout_sensitive=True, seed=3),
        "Sort": OperatorRule(keeps_order=True, ignored=frozenset({3})),
        "SubqueryAlias": _TRANSPARENT,
        "Tail": _LIMIT,
        "Union": OperatorRule(),
        "UnionLoop": OperatorRule(
            OutputKind.DESCRIBED,
            ignored=frozenset({0}),
            defines=frozenset({3}),
            names_unseen=True,
        ),
        "View": _TRANSPARENT,
        # A frame of months or days is one in the session's time zone.
        "Window": OperatorRule(
            OutputKind.CHILD_AND_NAMED,
            named=0,
            ignored=frozenset({4}),
            observes=frozenset({Observed.ZONE}),
        ),
    }.items()
} | {
    CATALYST + "analysis.SQLFunctionNode": _TRANSPARENT,
    EXPRESSIONS + "PipeOperator": _TRANSPARENT,
    EXECUTION + "LogicalRDD": _LEAF,
    EXECUTION + "datasources.LogicalRelation": _LEAF,
}

CTE_DEFINITION = LOGICAL + "CTERelationDef"
CTE_REFERENCE = LOGICAL + "CTERelationRef"
WITH_CTE = LOGICAL + "WithCTE"
UNION_LOOP = LOGICAL + "UnionLoop"
UNION_LOOP_REFERENCE = LOGICAL + "UnionLoopRef"

LEFT_ONLY_JOINS = frozenset({"LeftSemi$", "LeftAnti$"})
"""Types of join that put out the left input's columns alone."""

BOTH_SIDES_JOINS = frozenset(
    {"Inner$", "Cross$", "LeftOuter$", "RightOuter$", "FullOuter$", "LeftSingle$"}
)
"""Types of join that put out the columns of both inputs, the left one's first."""

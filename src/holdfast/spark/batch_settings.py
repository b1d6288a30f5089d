"""The settings that plans run under whose rows are the batches of streams."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.plan.canonical_plan import CanonicalNode

# By default Spark gathers 64 MiB of them before Python sees the first.
_OF_ALL = {"spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20)}
# Some hundred rows are not worth compiling code for, and nothing about them has to be found out.
_OF_BATCHES_ALONE = _OF_ALL | {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}
_OPERATORS = frozenset({"MapInArrow", "Project", "Range", "RepartitionByExpression", "Union"})


def settings_of_batches(root: CanonicalNode) -> Mapping[str, str]:
    """What is set in the session that runs a plan of passes.

    Args:
        root: the canonical plan, before anything kept is read in place of a part of it.
    """
    alone = all(node.operator in _OPERATORS for node in root.walk())
    return _OF_BATCHES_ALONE if alone else _OF_ALL

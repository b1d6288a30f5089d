"""The last step of a plan, as Spark shows it."""

from __future__ import annotations

from typing import Any

# Of many columns the first ones tell enough.
_MOST_FIELDS = 8
_NAMES_ALONE = frozenset({"SubqueryAlias", "View"})


def last_step(plan: Any) -> str:
    """The topmost operator that does more than give a name.

    Args:
        plan: an analyzed plan of the JVM.

    Returns:
        one line, with Spark's numbers of columns.

    Raises:
        py4j.protocol.Py4JError: where Spark can't show it.

    Example:
        >>> last_step(spark.range(3)._jdf.queryExecution().analyzed())
        'Range (0, 3, step=1, splits=Some(2))'
    """
    while str(plan.nodeName()) in _NAMES_ALONE:
        plan = plan.children().head()
    return str(plan.simpleString(_MOST_FIELDS)).strip()

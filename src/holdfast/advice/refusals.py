"""Why a part of a query is never kept unasked, whatever it costs."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.plan.canonical_plan import CanonicalNode


def refusal(node: CanonicalNode, runs_others_code: Callable[[int], bool]) -> str | None:
    """Why a part of a query is never kept unasked; None where it may be.

    Args:
        node: a join, or what gathers rows.
        runs_others_code: whether the operator with a handle runs functions that aren't Spark's.
    """
    if node.reach:
        return "it is in a subquery for each row of what is around it"
    if not node.replaceable:
        return "the plan defines it for other parts of its own"
    doubts = node.all_doubts()
    if doubts:
        return f"in doubt: there is {'; '.join(doubts)}"
    ambiguity = node.ambiguity()
    if ambiguity is not None:
        return f"in doubt: {ambiguity}"
    if node.ordered:
        return "its rows have an order"
    for each in node.walk():
        if each.of_session:
            return f"in doubt: {each.operator} is known in this session alone"
    for each in node.walk():
        if runs_others_code(each.handle):
            return f"in doubt: {each.operator} runs functions that aren't Spark's"
    return None

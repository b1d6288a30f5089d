"""Which sources of a plan can be divided, so that its rows are those of the parts, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import CATALYST, LOGICAL, OperatorDocument

_JOIN = LOGICAL + "Join"
_ROW_BY_ROW = frozenset(LOGICAL + name for name in ("Filter", "Project", "SubqueryAlias", "View"))
_KIND = CATALYST + "plans."
# Which inputs of a join may be divided, given all of the other: an outer row that finds none is
# only known when all of the other input has been looked at.
_INPUTS = {
    _KIND + "Inner$": (0, 1),
    _KIND + "Cross$": (0, 1),
    _KIND + "LeftOuter$": (0,),
    _KIND + "LeftSemi$": (0,),
    _KIND + "LeftAnti$": (0,),
    _KIND + "RightOuter$": (1,),
}


def divisible_sources(
    node: CanonicalNode, operators: Mapping[int, OperatorDocument]
) -> frozenset[int]:
    """The handles of the sources whose files can be read in parts.

    The rows over all files of such a source are those over some of them, and those over the others.
    That goes for several sources one after the other as well.

    Args:
        node: of a canonical plan, all of which is deterministic.
        operators: those of the plan that it was made of, by their handles.

    Source: Gupta, Mumick, Subrahmanian, "Maintaining Views Incrementally", SIGMOD 1993.
    """
    return frozenset(_divisible(node, operators))


def _divisible(node: CanonicalNode, operators: Mapping[int, OperatorDocument]) -> Iterator[int]:
    waiting = [node]
    while waiting:
        each = waiting.pop()
        operator = operators[each.handle]
        if not each.children:
            yield each.handle
        elif operator["c"] in _ROW_BY_ROW:
            waiting += each.children
        elif operator["c"] == _JOIN:
            kind = operator["f"][2]["c"]
            waiting += [each.children[place] for place in _INPUTS.get(kind, ())]

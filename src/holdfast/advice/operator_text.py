"""What an operator of a physical plan does to rows, in a text that is the same for the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# How a plan is run, not what it computes.
_HOW = re.compile(
    r"(WholeStageCodegen|InputAdapter|AdaptiveSparkPlan|AQEShuffleRead|CustomShuffleReader|Sort"
    r"|ColumnarToRow"
    r"|(Shuffle|Broadcast|TableCache|Result)QueryStage)( |$)"
)
_FAMILIES = {
    **dict.fromkeys(("HashAggregate", "ObjectHashAggregate", "SortAggregate"), "Aggregate"),
    **dict.fromkeys(("SortMergeJoin", "BroadcastHashJoin", "ShuffledHashJoin"), "Join"),
    **dict.fromkeys(("BroadcastNestedLoopJoin", "CartesianProduct"), "Join"),
}
_BUILD_SIDE = re.compile(r", Build(Left|Right)(, (true|false))?|\(skew=true\)")
_RUN_IDS = re.compile(r",? ?\[(plan_id=\d+|id=#\d+)\]|,? ?\[codegen id : \d+\]")
_COLUMN = re.compile(r"[^()+*/<>=]*#\d+L?")
# Of a scan, what is left when the columns that it reads are left out.
_OF_SCANS = ("Format", "Location", "PartitionFilters", "DataFilters", "SelectedBucketsCount")


def family(name: str) -> str:
    """What kind of operator it is, whichever way it is run."""
    return _FAMILIES.get(name, name)


def row_text(node: Mapping[str, Any]) -> str:
    """What an operator does to rows, whatever columns it hands on; empty where it does nothing.

    Args:
        node: a `SparkPlanInfo`, as an event log has it.

    >>> row_text({"nodeName": "Project", "simpleString": "Project [a#1, b#2L]"})
    ''
    >>> row_text({"nodeName": "Project", "simpleString": "Project [a#1, (b#2 + 1) AS c#3]"})
    'Project (b#2 + 1) AS c#3'
    >>> text = "BroadcastHashJoin [a#1], [b#2], Inner, BuildRight, false"
    >>> row_text({"nodeName": "BroadcastHashJoin", "simpleString": text})
    'Join [a#1], [b#2], Inner'
    """
    name = str(node.get("nodeName", ""))
    if _HOW.match(name):
        return ""
    text = shown_text(node)
    told = node.get("metadata") or {}
    if "Location" in told:
        return "\n".join([name, *(f"{key}: {told[key]}" for key in _OF_SCANS if key in told)])
    if name == "Project":
        computed = [each for each in _listed(text) if not _COLUMN.fullmatch(each)]
        return " ".join([name, *computed]) if computed else ""
    if family(name) != name:
        text = family(name) + text.removeprefix(name)
    return _BUILD_SIDE.sub("", text)


def shown_text(node: Mapping[str, Any]) -> str:
    """An operator's text, as Spark shows it, without the numbers of this one run."""
    return _RUN_IDS.sub("", str(node.get("simpleString", "")))


def _listed(text: str) -> Iterator[str]:
    """What stands between the outer brackets, one by one."""
    depth, begun = 0, 0
    start, end = text.find("[") + 1, text.rfind("]")
    inner = text[start:end]
    for place, letter in enumerate(inner):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and depth == 0:
            yield inner[begun:place].strip()
            begun = place + 1
    if inner[begun:].strip():
        yield inner[begun:].strip()

"""A physical plan as Spark's event log has it, taken apart where its rows could be cached.

What a log says of an operator is text, which leaves out the rows of local relations and RDDs, and
the code of functions. So parts of equal keys compute the same as far as the log tells, which is
enough for advice and would not be for reading one in the place of another. Columns don't count: a
query that needs others of the same rows could read them from the same cached table.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from holdfast.advice.operator_text import family, row_text, shown_text
from holdfast.advice.past_query import PlanPart
from holdfast.plan.result_label import result_label

_SHUFFLES = frozenset({"Exchange", "BroadcastExchange"})
_REUSED = "ReusedExchange"
# Rows that a program would call a DataFrame of their own, and that are dear to compute.
_CACHEABLE = frozenset({"Join", "Window", "Generate", "Union", "Expand"})
_PYTHON = re.compile(r".*(InPandas|InArrow|EvalPython)")
# A program never sees what these make.
_PARTIAL = re.compile(r"functions=\[.*\b(partial|merge)_")
# Of their rows a log says nothing.
_UNTOLD = re.compile(r"LocalTableScan|Scan ExistingRDD|LocalRelation|InMemoryTableScan")
_WRITES = re.compile(
    r"Execute |WriteFiles|AppendData|Overwrite|Replace|CreateTable|AtomicCreate|MergeRows|"
    r"CommandResult"
)
_CUT = re.compile(r"\.\.\. \d+ more fields")
_ID = re.compile(r"#(\d+)L?")
_PLAN_ID = re.compile(r"plan_id=(\d+)")
# Spark says what a scan has read when it has listed the files.
_LISTED = ("number of files read", "size of files read")
_ROWS = ("number of output rows", "shuffle records written", "records read")
_SIZE = "data size"
# In bytes, of a row of which nothing is known.
_USUAL_WIDTH = 64.0
_SCAN = re.compile(r"(?:Scan|BatchScan|FileScan) ?(?:parquet|orc|csv|json|text|avro|hive)? ?(.*)")
_PATH = re.compile(r"\[([^,\]]+)")
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Measured:
    """What a log says of how a plan was run.

    Attributes:
        values: of metrics, by the numbers of their accumulators.
        stages: for the number of an accumulator the stages that have added to it.
        seconds: of a stage's tasks.
        result_bytes: of what the tasks of a stage have given the driver.
    """

    values: Mapping[int, int]
    stages: Mapping[int, frozenset[int]]
    seconds: Mapping[int, float]
    result_bytes: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class ExecutedPlan:
    """A plan's parts.

    Attributes:
        root: the whole plan.
        cut_short: how many operators the log has cut short, so that they are like no others.
    """

    root: PlanPart
    cut_short: int


def executed_plan(plan: Mapping[str, Any], measured: Measured) -> ExecutedPlan:
    """A plan's parts, and what they cost.

    Args:
        plan: a `SparkPlanInfo`, as the log has it.
        measured: how it was run.
    """
    parts = _Parts(measured)
    root = parts.whole(plan)
    return ExecutedPlan(root, parts.cut_short)


@dataclass(eq=False)
class _Segment:
    """What a stage runs: the operators between its shuffle and those that it reads.

    Attributes:
        accumulators: of their metrics.
        effort: how many rows go into and come out of them.
        rate: the seconds of tasks that a row has taken.
    """

    accumulators: set[int] = field(default_factory=set)
    effort: int = 0
    rate: float = 0.0


@dataclass(eq=False)
class _Draft:
    """A part whose cost isn't known yet.

    Attributes:
        key: as for `PlanPart`.
        what: as for `PlanPart`.
        size: its bytes.
        spent: in which segments, and how many rows of their efforts.
        inputs: the parts below.
    """

    key: str | None
    what: str
    size: int
    spent: list[tuple[_Segment, int]] = field(default_factory=list)
    inputs: list[_Draft] = field(default_factory=list)

    def part(self) -> PlanPart:
        """The same, when segments have their rates."""
        seconds = sum(segment.rate * effort for segment, effort in self.spent)
        below = tuple(each.part() for each in self.inputs)
        return PlanPart(self.key, self.what, seconds, self.size, below)

    def again(self) -> _Draft:
        """The same where a query reuses it: there it costs nothing."""
        return _Draft(self.key, self.what, self.size)


@dataclass
class _Rows:
    """The rows that come out of an operator.

    Attributes:
        operators: the texts of all operators that have made them.
        number: how many there are.
        width: the bytes of one; 0 where nothing is known of it.
        spent: as for `_Draft`, since the parts below.
        inputs: the parts that they are made of.
        names: what has made them, for people.
        sources: what they are made from, for people.
        step: the last operator, for people.
        is_known: whether the log tells all that they depend on.
        is_partial: they are of an aggregate that isn't done.
    """

    operators: list[str] = field(default_factory=list)
    number: int = 0
    width: float = 0.0
    spent: list[tuple[_Segment, int]] = field(default_factory=list)
    inputs: list[_Draft] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    step: str | None = None
    is_known: bool = True
    is_partial: bool = False

    def close(self, size: int | None = None) -> None:
        """Makes them a part, whose size may be known."""
        if size is None:
            size = round(self.number * (self.width or _USUAL_WIDTH))
        key = _digest(self.operators) if self.is_known else None
        if len(self.inputs) == 1 and key is not None and self.inputs[0].key == key:
            # Nothing has been done to them since.
            self.inputs[0].size = size
            self.inputs[0].spent += self.spent
        else:
            self.inputs = [_Draft(key, self._shown(), size, self.spent, self.inputs)]
        self.spent = []

    def again(self) -> _Rows:
        """The same where a query reuses them."""
        return replace(self, spent=[], inputs=[each.again() for each in self.inputs])

    def _shown(self) -> str:
        names, sources = (list(dict.fromkeys(each)) for each in (self.names, self.sources))
        summary = ", ".join(names[:_MOST_NAMED]) or "Scan"
        if sources:
            summary += f" over {', '.join(sources[:_MOST_NAMED])}"
        return result_label(summary, self.step)


class _Parts:
    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._reusable: dict[str, _Rows] = {}
        self._spent: set[int] = set()
        self.cut_short = 0

    def whole(self, plan: Mapping[str, Any]) -> PlanPart:
        segment = _Segment()
        rows = self._rows(plan, segment)
        stages = self._ended(segment)
        rows.close(sum(self._measured.result_bytes.get(stage, 0) for stage in stages))
        return rows.inputs[0].part()

    def _ended(self, segment: _Segment) -> set[int]:
        """All of a segment is known, and all that is below it: which stages have run it."""
        stages = {
            stage
            for accumulator in segment.accumulators
            for stage in self._measured.stages.get(accumulator, ())
        } - self._spent
        self._spent |= stages
        seconds = sum(self._measured.seconds.get(stage, 0.0) for stage in stages)
        segment.rate = seconds / max(segment.effort, 1)
        return stages

    def _rows(self, node: Mapping[str, Any], segment: _Segment) -> _Rows:
        name = str(node.get("nodeName", ""))
        if name in _SHUFFLES and node.get("children"):
            return self._exchanged(node)
        if name == _REUSED:
            return self._reused(node)
        segment.accumulators.update(metric["accumulatorId"] for metric in node.get("metrics", ()))
        inputs = [self._rows(child, segment) for child in node.get("children", ())]
        return self._made(node, name, inputs, segment)

    def _made(
        self, node: Mapping[str, Any], name: str, inputs: Sequence[_Rows], segment: _Segment
    ) -> _Rows:
        """What an operator makes of its inputs."""
        read = sum(each.number for each in inputs)
        rows = _Rows(number=self._number(node, inputs[0].number if inputs else 0))
        text, kind = row_text(node), family(name)
        if text:
            rows.operators += [self._listed(node, text), "("]
            rows.step = shown_text(node) if _SCAN.match(name) else text
        for each in inputs:
            rows.operators += each.operators
            rows.spent += each.spent
            rows.inputs += each.inputs
            rows.names += each.names
            rows.sources += each.sources
            rows.step = rows.step or each.step
            rows.is_known = rows.is_known and each.is_known
        widths = [each.width for each in inputs] or [0.0]
        rows.width = sum(widths) if kind == "Join" else max(widths)
        was_partial = any(each.is_partial for each in inputs)
        rows.is_partial = was_partial
        # An operator that has no metric of its own costs little, and still is one.
        effort = 1 + read + rows.number if text else 1
        rows.spent.append((segment, effort))
        segment.effort += effort
        if not text:
            return rows
        rows.operators.append(")")
        source = _source(name, node.get("metadata") or {})
        if source is not None:
            rows.sources.insert(0, source)
        elif kind != "Project":
            rows.names.insert(0, kind)
        if _CUT.search(text):
            self.cut_short += 1
            rows.is_known = False
        if _UNTOLD.match(name) or _WRITES.match(name):
            rows.is_known = False
        if kind == "Aggregate":
            rows.is_partial = _is_partial(text, was_partial)
        is_done = kind == "Aggregate" and not rows.is_partial
        if is_done or kind in _CACHEABLE or _PYTHON.match(name):
            rows.close()
        return rows

    def _exchanged(self, node: Mapping[str, Any]) -> _Rows:
        """What comes out of a shuffle or a broadcast."""
        segment = _Segment(
            {
                metric["accumulatorId"]
                for metric in node.get("metrics", ())
                if "writ" in metric["name"] or metric["name"] == _SIZE
            }
        )
        rows = self._rows(node["children"][0], segment)
        self._ended(segment)
        rows.number = self._number(node, rows.number)
        size = self._value(node, _SIZE)
        rows.width = size / rows.number if rows.number else 0.0
        if not rows.is_partial:
            rows.close(size)
        plan_id = _PLAN_ID.search(str(node.get("simpleString", "")))
        if plan_id is not None:
            self._reusable[plan_id[1]] = rows
        return rows

    def _reused(self, node: Mapping[str, Any]) -> _Rows:
        plan_id = _PLAN_ID.search(str(node.get("simpleString", "")))
        found = None if plan_id is None else self._reusable.get(plan_id[1])
        return _Rows(is_known=False) if found is None else found.again()

    def _listed(self, node: Mapping[str, Any], text: str) -> str:
        listed = [f"{each}: {self._value(node, each)}" for each in _LISTED]
        return "\n".join([text, *listed]) if _SCAN.match(str(node["nodeName"])) else text

    def _number(self, node: Mapping[str, Any], otherwise: int) -> int:
        """How many rows come out of an operator, by its metrics, if it has any."""
        known = {metric["name"] for metric in node.get("metrics", ())}
        return next((self._value(node, each) for each in _ROWS if each in known), otherwise)

    def _value(self, node: Mapping[str, Any], name: str) -> int:
        return sum(
            self._measured.values.get(metric["accumulatorId"], 0)
            for metric in node.get("metrics", ())
            if metric["name"] == name
        )


def _is_partial(text: str, was_partial: bool) -> bool:
    """Whether an aggregate is to be gone on with; one without functions doesn't say."""
    return bool(_PARTIAL.search(text)) or ("functions=[]" in text and not was_partial)


def _digest(operators: Iterable[str]) -> str:
    """Of the operators' texts, with the columns numbered in the order in which they come."""
    known: dict[str, int] = {}

    def renumbered(found: re.Match[str]) -> str:
        return f"#{known.setdefault(found[1], len(known))}"

    text = _ID.sub(renumbered, "\n".join(operators))
    return hashlib.sha256(text.encode()).hexdigest()


def _source(name: str, told: Mapping[str, Any]) -> str | None:
    """What a scan reads, for people; None for other operators."""
    scan = _SCAN.match(name)
    if scan is None:
        return None
    path = _PATH.search(str(told.get("Location", "")))
    return scan[1].strip() or (PurePosixPath(path[1]).name if path is not None else name)

"""What the parts of a query have cost that has been run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from holdfast.advice.asked_parts import AskedPart
from holdfast.advice.past_query import PlanPart
from holdfast.advice.storage_use import StorageUse
from holdfast.plan.needed_columns import NeededColumns
from holdfast.plan.summary import summarize
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.plans.effort import Effort
from holdfast.spark.plans.size_estimates import SizeEstimates


@dataclass(frozen=True, slots=True)
class QueryCost:
    """What a query has taken.

    Attributes:
        seconds: of its tasks.
        known: of what was read instead of being computed, or was kept on the way: how many seconds
            of tasks it takes to compute, by keys of parts.
        kept: keys of those that were kept on the way.
    """

    seconds: float
    known: Mapping[str, float]
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """A query that has been run.

    Attributes:
        root: the whole of it, made of the parts that could be kept.
        uses: what reading took, or writing.
    """

    root: PlanPart
    uses: tuple[StorageUse, ...]


def measured_parts(
    spark: SparkSession,
    query: Query,
    parts: Iterable[AskedPart],
    cost: QueryCost,
    counted: Mapping[int, int],
) -> MeasuredQuery:
    """The whole of a query, made of the parts that could be kept.

    What the query has taken is dealt out as its operators have worked by what is estimated.

    Args:
        spark: the session that has run it.
        query: over its analyzed plan.
        parts: the topmost ones that could be kept.
        cost: what it has taken.
        counted: how many rows nodes of it have, by their handles, as far as that is known.
    """
    estimates = SizeEstimates(spark, query)
    needed = NeededColumns(query.reading.operators)
    effort = Effort(estimates, lambda node: needed.of(node.handle, node.output))
    rate = cost.seconds / max(1, effort.of(query.root))

    def size_of(part: AskedPart) -> int:
        share = estimates.share_of(part.node, {*part.places})
        return int(estimates.facts(part.node).size * share)

    def measured(part: AskedPart) -> PlanPart:
        what = summarize(part.node)
        if part.key in cost.known:
            seconds = cost.known[part.key]
            own = (1 - _share_below(part, effort)) * seconds
            inputs: tuple[PlanPart, ...] = ()
        else:
            inputs = tuple(measured(each) for each in part.inputs)
            below = sum(each.seconds for each in inputs)
            seconds = rate * effort.of(part.node)
            own = seconds - below
        extra = max(0.0, own) * part.extra
        own = max(0.0, seconds - sum(each.seconds for each in inputs))
        return PlanPart(
            part.key,
            what,
            own,
            size_of(part),
            inputs,
            part.columns,
            extra,
            part.template,
            rows=counted.get(part.node.handle),
        )

    inputs = tuple(measured(each) for each in parts)
    # Parts that were neither read nor kept are a part of the rest.
    used = [each for top in parts for each in top.walk() if each.key in cost.known]
    efforts = {each.key: effort.of(each.node) for each in used}
    uses = storage_uses(
        [Used(each.key, size_of(each), efforts[each.key]) for each in used],
        effort.of(query.root),
        cost,
    )
    own = cost.seconds - sum(each.seconds for each in inputs)
    root = PlanPart(None, summarize(query.root), max(0.0, own), 0, inputs)
    return MeasuredQuery(root, uses)


@dataclass(frozen=True, slots=True)
class Used:
    """A part that a query has read, or written.

    Attributes:
        key: of the part.
        bytes: of the columns that the query uses.
        effort: how much work it is to compute.
    """

    key: str
    bytes: int
    effort: float


def storage_uses(used: Sequence[Used], effort: float, cost: QueryCost) -> tuple[StorageUse, ...]:
    """What reading or writing parts took, beside the rest of their query; none if unknown.

    The rest is taken to be worth as much as its work is beside that of the parts, whose seconds are
    known from when they were computed.

    Args:
        used: parts that were read, or written.
        effort: how much work the whole query is, with the parts.
        cost: what it has taken.

    >>> cost = QueryCost(5.0, {"join": 8.0})
    >>> storage_uses([Used("join", 100, 4.0)], 5.0, cost)
    (StorageUse(key='join', is_write=False, bytes=100, seconds=3.0, computing=8.0),)
    """
    keys = {each.key for each in used}
    written = keys & cost.kept
    computing = sum(cost.known[key] for key in keys)
    of_parts = sum({each.key: each.effort for each in used}.values())
    size = sum(each.bytes for each in used)
    # Of one that reads and writes, nothing tells what took how long.
    if not size or not of_parts or (written and written != keys):
        return ()
    if not all(cost.known[key] for key in keys):
        return ()
    rest = max(0.0, effort - of_parts) * computing / of_parts
    seconds = max(0.0, cost.seconds - rest - (computing if written else 0.0))
    return tuple(
        StorageUse(
            each.key, bool(written), each.bytes, seconds * each.bytes / size, cost.known[each.key]
        )
        for each in used
    )


def _share_below(part: AskedPart, effort: Effort) -> float:
    inputs = sum(effort.of(each.node) for each in part.inputs)
    return inputs / max(1, effort.of(part.node))

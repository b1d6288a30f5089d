"""What is known of an optimized plan's nodes before they run: sizes, and which ones shuffle."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from holdfast.advice.asked_parts import GATHERS
from holdfast.graph.plan_cuts import NodeFacts
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import LOGICAL, OperatorDocument
from holdfast.plan.file_sources import all_operators, file_listing
from holdfast.plan.size_guess import RowGuess, guess_rows
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.java_classes import new_object
from holdfast.spark.per_context import PerContext

_JOIN = LOGICAL + "Join"
_SHUFFLING = frozenset(
    LOGICAL + name
    for name in (
        "Aggregate",
        "Deduplicate",
        "Distinct",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "Sort",
        "Window",
    )
)
# To read a byte of a file is 1.
_WEIGHT_OF_SHUFFLE = 4
_WEIGHTS = {
    LOGICAL + "Aggregate": 1,
    LOGICAL + "ArrowEvalPython": 20,
    LOGICAL + "BatchEvalPython": 20,
    LOGICAL + "Generate": 2,
    LOGICAL + "Join": 1,
    LOGICAL + "MapInArrow": 20,
    LOGICAL + "MapInPandas": 20,
}
# Where `_SHUFFLING` says what an operator deals its rows by, and needn't if there is nothing.
_KEYS = {LOGICAL + "Aggregate": 0, LOGICAL + "Window": 1}
_GLOBAL = {LOGICAL + "Sort": 1}


@dataclass(frozen=True, slots=True)
class _Measured:
    """What Spark says of a node: the widths of its columns and the size of all, in bytes."""

    widths: tuple[int, ...]
    size: int

    @property
    def width(self) -> int:
        """That of a row."""
        return sum(self.widths)


class SizeEstimates:
    """Facts of a query's nodes, gathered in one call to the JVM.

    Sizes are in bytes as files hold them: the files that are scanned say how many rows fit, and
    the rows' widths say what is left of them above.

    Args:
        spark: the session that is to run the query.
        query: an optimized one; or an analyzed one, of which it is not known yet what is filtered
            early, and which columns are read.
    """

    def __init__(self, spark: SparkSession, query: Query) -> None:
        self._measured = _measures_of(spark, query)
        self._operators = {each["i"]: each for each in all_operators(query.reading.operators)}
        settings = spark._jsparkSession.sessionState().conf()
        self._broadcast = int(settings.autoBroadcastJoinThreshold())
        self._guesses: dict[int, RowGuess] = {}
        self._facts: dict[int, NodeFacts] = {}

    def facts(self, node: CanonicalNode) -> NodeFacts:
        """What is known of a node of the query."""
        found = self._facts.get(node.handle)
        if found is None:
            operator = self._operators[node.handle]
            shuffles = self._shuffles(operator, node)
            found = self._facts[node.handle] = NodeFacts(
                size=int(self._guess(node).rows * self._measured[node.handle].width),
                work=int(self._work(operator, node, shuffles)),
                shuffles=shuffles,
                partial_aggregation=shuffles and operator["c"] in GATHERS,
            )
        return found

    def rows(self, node: CanonicalNode) -> float:
        """How many rows a node of the query has, by a guess."""
        return self._guess(node).rows

    def share_of(self, node: CanonicalNode, places: Collection[int]) -> float:
        """Which part of a node's bytes some of its columns have.

        Args:
            node: of the query.
            places: of the columns.
        """
        widths = self._measured[node.handle].widths
        return sum(widths[place] for place in places) / max(1, sum(widths))

    def _work(self, operator: OperatorDocument, node: CanonicalNode, shuffles: bool) -> float:
        listing = file_listing(operator)
        if listing is not None:
            return float(sum(file[1] for file in listing["files"]))
        weight = _WEIGHT_OF_SHUFFLE if shuffles else _WEIGHTS.get(operator["c"], 0)
        return weight * sum(self.facts(each).size for each in node.children)

    def _guess(self, root: CanonicalNode) -> RowGuess:
        waiting = [root]
        while waiting:
            node = waiting[-1]
            missing = [each for each in node.children if each.handle not in self._guesses]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if node.handle not in self._guesses:
                self._guesses[node.handle] = self._guess_of(node)
        return self._guesses[root.handle]

    def _guess_of(self, node: CanonicalNode) -> RowGuess:
        if not node.children:
            measured = self._measured[node.handle]
            rows = measured.size / max(1, measured.width)
            return RowGuess(rows, rows)
        inputs = [self._guesses[each.handle] for each in node.children]
        return guess_rows(self._operators[node.handle], inputs)

    def _shuffles(self, operator: OperatorDocument, node: CanonicalNode) -> bool:
        kind, arguments = operator["c"], operator["f"]
        if kind == _JOIN:
            return not any(self._is_broadcast(each) for each in node.children)
        if kind in _KEYS:
            return bool(arguments[_KEYS[kind]])
        if kind in _GLOBAL:
            return arguments[_GLOBAL[kind]] is True
        return kind in _SHUFFLING

    def _is_broadcast(self, node: CanonicalNode) -> bool:
        return self._measured[node.handle].size <= self._broadcast


def _measures_of(spark: SparkSession, query: Query) -> dict[int, _Measured]:
    """The measures of a query's nodes by their handles."""
    texts = query.reading.each(_measure.of(spark))
    measured = {}
    for handle, text in enumerate(texts.split(",")):
        widths, size = text.split(" ")
        # The first one is nothing, so that there is one.
        columns = tuple(map(int, widths.split("+")[1:]))
        measured[handle] = _Measured(columns, int(size))
    return measured


_measure: PerContext[Any] = PerContext(lambda spark: new_object(spark, "NodeMeasure"))

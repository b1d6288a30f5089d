"""Aggregates that are made of finer groups of the same join."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from holdfast.advice.asked_groups import AskedGroups
from holdfast.advice.rollups import Groups
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.file_sources import all_operators
from holdfast.plan.group_counts import guess_values
from holdfast.plan.grouped_join import GroupedJoin
from holdfast.plan.terms import digests
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.java_classes import new_object
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.plans.column_values import column_values
from holdfast.spark.plans.shapes import shape

_NUMBER = "count(1)"
_BETWEEN, _BETWEEN_LINES = "\1", "\2"
# Of columns that are called the same.
_DIGITS = 12
_MOST_NAMES = 256
# What is told of an expression: as SQL, its kind, its number, and its columns.
_OF_EXPRESSION = 4


class RollupPlans:
    """Writes aggregates of joins as aggregates of finer ones.

    Sums are added up, the least of minima is the minimum, an average is a sum and a number: what
    Spark itself does with what its tasks have computed of their rows.

    Args:
        spark: the session that runs the queries.
        bridge: reads and rewrites its plans.

    Raises:
        UnsupportedSparkError: when the JVM doesn't compile what does it.
    """

    def __init__(self, spark: SparkSession, bridge: CatalystBridge) -> None:
        self._bridge = bridge
        self._jvm = JvmMembers.of(spark)
        self._in_jvm = new_object(spark, "Rollups", spark._jsparkSession)
        self._names: dict[tuple[str, tuple[int, ...]], Sequence[str]] = {}

    def asked(self, query: Query, grouped: GroupedJoin) -> Groups | None:
        """What an aggregate asks for; None where finer groups can't make the same of it.

        Args:
            query: over the analyzed plan.
            grouped: of its canonical plan.
        """
        written = self._written(query, grouped)
        told = str(self._in_jvm.asked(*written))
        if not told:
            return None
        operators = all_operators([*query.reading.operators])
        asked = AskedGroups()
        for kind, *texts in (line.split(_BETWEEN) for line in told.split(_BETWEEN_LINES)):
            if kind == "function":
                asked.add_measures(texts)
                continue
            first, *pieces = _pairs(texts, lambda column: column_values(column, operators))
            if kind == "key":
                asked.add_key(*first)
            else:
                asked.add_condition(first[0], pieces)
        if not asked.by or not asked.measures:
            return None
        # It costs next to nothing, and is asked for often.
        asked.add_measures([_NUMBER])
        plan = self._grouped(query, grouped, asked.expressions, asked.measures)
        if plan is None or not self._in_jvm.isAsked(*written, plan):
            return None
        columns = (*asked.expressions, *asked.measures)
        found = digests(self._bridge.read(plan).root.columns)
        if len({*found}) != len(columns):
            return None
        return asked.groups(dict(zip(columns, found, strict=True)))

    def groups(self, query: Query, grouped: GroupedJoin, fine: Groups) -> Query | None:
        """Finer groups that an aggregate can be made of; None where that would be another one.

        Args:
            query: over the analyzed plan.
            grouped: of its canonical plan.
            fine: the groups, whose texts may mean something else where columns are called
                otherwise; its columns stand in their order.
        """
        groups = self._grouped(query, grouped, fine.by.values(), fine.measures.values())
        if groups is None or not self._in_jvm.isAsked(*self._written(query, grouped), groups):
            return None
        return self._bridge.read(groups)

    def merged(
        self, query: Query, grouped: GroupedJoin, pieces: Sequence[Query], *, are_read: bool
    ) -> Any | None:
        """An aggregate made of finer groups; None where its columns would have other types.

        Args:
            query: over the analyzed plan.
            grouped: of its canonical plan.
            pieces: what `groups` has given; or the same over parts of the files.
            are_read: whether all of them are kept: so few rows are one task's.

        Returns:
            the JVM's analyzed plan.
        """
        plans = self._jvm.to_seq([each.plan for each in pieces])
        return self._in_jvm.merged(*self._written(query, grouped), plans, are_read)

    def together(self, groups: Query, pieces: Sequence[Query]) -> Query | None:
        """Groups that are made of the same ones over parts of the files, in the same columns.

        Args:
            groups: what they would be computed by, as `groups` has given it.
            pieces: the same over parts of the files.

        Returns:
            None where their columns would have other types.
        """
        plan = self._in_jvm.together(groups.plan, self._jvm.to_seq([each.plan for each in pieces]))
        return None if plan is None else self._bridge.read(plan)

    def _grouped(
        self, query: Query, grouped: GroupedJoin, by: Iterable[str], measures: Iterable[str]
    ) -> Any | None:
        return self._in_jvm.grouped(
            query.reading.node(grouped.join.handle),
            self._told(query, grouped.join),
            _BETWEEN.join(by),
            _BETWEEN.join(measures),
        )

    def _written(self, query: Query, grouped: GroupedJoin) -> tuple[Any, Any, str]:
        """An aggregate as it is written: with the filters below it, and names of columns."""
        node = query.reading.node
        filters = self._jvm.to_seq([*map(node, grouped.filters)])
        return node(grouped.aggregate.handle), filters, self._told(query, grouped.join)

    def _told(self, query: Query, join: CanonicalNode) -> str:
        """The names of a join's columns, each after its id."""
        pairs = zip(map(str, join.output), self.names(query, join), strict=True)
        return _BETWEEN.join(each for pair in pairs for each in pair)

    def names(self, query: Query, join: CanonicalNode) -> Sequence[str]:
        """What the columns of a join are called in the same way in other plans.

        Args:
            query: over the analyzed plan.
            join: of its canonical plan.
        """
        key = join.digest, join.output
        names = self._names.get(key)
        if names is None:
            names = self._named(query, join)
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            self._names[key] = names
        return names

    def _named(self, query: Query, join: CanonicalNode) -> Sequence[str]:
        fields = json.loads(query.reading.node(join.handle).schema().json())["fields"]
        names = [field["name"] for field in fields]
        times = Counter(name.casefold() for name in names)
        if len(times) == len(names):
            return names
        # What they are of the join's rows, over whatever files.
        nodes = {node.handle: node for node in shape(self._bridge, query).walk()}
        return [
            name if times[name.casefold()] == 1 else f"{name} {what[:_DIGITS]}"
            for name, what in zip(names, digests(nodes[join.handle].columns), strict=True)
        ]


def _pairs(
    texts: Sequence[str], values: Callable[[str], float | None]
) -> Iterator[tuple[str, float | None]]:
    """Expressions, each with how many values it may have."""
    for place in range(0, len(texts), _OF_EXPRESSION):
        text, kind, number, columns = texts[place : place + _OF_EXPRESSION]
        counts = [values(column) for column in columns.split()]
        yield text, guess_values(kind, float(number) if number else None, counts)

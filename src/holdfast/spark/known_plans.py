"""What is known of the plans of tables that jobs have been run of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyspark.sql.classic.dataframe import DataFrame

from holdfast.plan.session_inputs import SessionInputs
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.last_run import LastRun
from holdfast.spark.last_used import LastUsed

# Of each the plan is held, and what Spark has made of it.
_MOST_TABLES = 64


class KnownPlans:
    """The plans of tables, read once each. Safe for use by several threads.

    A table is forgotten with its object, and where many others have been used since.

    Args:
        bridge: reads plans.
    """

    def __init__(self, bridge: CatalystBridge) -> None:
        self._bridge = bridge
        self._queries: LastUsed[DataFrame, Query] = LastUsed(_MOST_TABLES)
        self._runs: LastUsed[DataFrame, _Runs] = LastUsed(_MOST_TABLES)

    def query(self, table: DataFrame) -> Query:
        """A table's plan: the same object, as long as it would be read the same again.

        Args:
            table: the table. Listings of files in its plan may be refreshed at any time.
        """
        known = self._queries.get(table)
        # A table that was interrupted goes on with another Dataset.
        if known is not None and known.dataframe is not None:
            same = known.dataframe._jdf is table._jdf
            if same and self._bridge.is_still(known):
                return known
        query = self._bridge.query(table)
        if query.reading.says_all:
            self._queries.set(table, query)
        return query

    def repeatable(self, table: DataFrame, query: Query, inputs: SessionInputs) -> Query:
        """A query that is run as it was the last time, if it reads the same results again.

        Args:
            table: the table that it is of.
            query: what `query` has given for it, or has been made of that.
            inputs: the settings of this moment.
        """
        if query is not self._queries.get(table) or not _is_steady(query):
            return query
        runs = self._runs.get(table)
        if runs is None or runs.query is not query or runs.inputs != inputs:
            runs = _Runs(query, inputs)
            self._runs.set(table, runs)
        return replace(query, last_run=runs.last)

    def has_run(self, table: DataFrame) -> bool:
        """Whether a table's plan has been run, and has read kept results."""
        runs = self._runs.get(table)
        return runs is not None and runs.last.is_there

    def forget_run(self, table: DataFrame) -> None:
        """Lets go of what Spark has made of a table's plan that read kept results."""
        self._runs.forget(table)

    def forget_runs(self) -> None:
        """Lets go of all that Spark has made of plans that read kept results."""
        self._runs.clear()


@dataclass(frozen=True, slots=True)
class _Runs:
    query: Query
    inputs: SessionInputs
    last: LastRun = field(default_factory=LastRun)


def _is_steady(query: Query) -> bool:
    """Whether nothing in a plan means something else each time that Spark plans it."""
    nodes = list(query.root.walk())
    return not any(node.own_doubts() or node.operator == "CollectMetrics" for node in nodes)

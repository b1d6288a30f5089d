"""Plans over some of the files that they list."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from holdfast.plan.file_sources import file_sources
from holdfast.plan.file_version import FileVersion
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.plans.file_indexes import FileIndexes


class NarrowedSources:
    """Has plans read fewer files than they list. Runs nothing.

    Args:
        spark: the session of the plans.
        bridge: reads and rewrites them.
    """

    def __init__(self, spark: SparkSession, bridge: CatalystBridge) -> None:
        self._bridge = bridge
        self._indexes = FileIndexes(spark)

    def over(self, query: Query, files: Mapping[int, frozenset[FileVersion]]) -> Query | None:
        """A query over some files of its sources; None where Spark makes something else of it.

        Args:
            query: over the analyzed plan.
            files: for the handles of sources those that are read of what they list; the others are
                to stay as they are.
        """
        before = _listed(query)
        wanted = {handle: files.get(handle, listed) for handle, listed in before.items()}
        replacements = {
            handle: self._narrowed(query, handle, wanted[handle])
            for handle, listed in before.items()
            if wanted[handle] != listed
        }
        if not replacements:
            return query
        narrowed = self._bridge.read(self._bridge.substitute(query, replacements))
        # The same source may be read in several places, of which one alone was meant.
        return narrowed if [*_listed(narrowed).values()] == [*wanted.values()] else None

    def _narrowed(self, query: Query, handle: int, files: frozenset[FileVersion]) -> object:
        leaf = query.reading.node(handle)
        paths = sorted(file.path for file in files)
        directories = {path.rpartition("/")[0] for path in paths}
        partitions = [each for each in self._indexes.partitions(leaf) if each in directories]
        return self._indexes.narrowed(leaf, paths, partitions)


def _listed(query: Query) -> dict[int, frozenset[FileVersion]]:
    """The files of a query's sources, by handles in pre-order."""
    files = {node.handle: node.files for node in query.root.walk()}
    found = (operator["i"] for operator in file_sources(query.reading.operators))
    return {handle: frozenset(files.get(handle, ())) for handle in found}

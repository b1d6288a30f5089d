"""Spark's listings of files, narrowed to some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from holdfast.spark.java_classes import new_object
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.per_context import PerContext

# No path has it.
_BETWEEN = "\x00"

# The files are known: to look at each is no work for Spark's tasks.
_LIST_IN_PARALLEL = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_NEVER = str(2**31 - 1)


class FileIndexes:
    """Makes leaves that read some of the files that were listed for them.

    Args:
        spark: the session of the plans.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm = JvmMembers.of(spark)

    def partitions(self, leaf: Any) -> tuple[str, ...]:
        """The directories that have values for partitioning columns, in the listing's order.

        Args:
            leaf: the JVM's `LogicalRelation` over listed files.
        """
        return self._directories(leaf.relation().location().partitionSpec())

    def narrowed(self, leaf: Any, files: Sequence[str], partitions: Sequence[str]) -> Any:
        """A leaf that puts out the same attributes and reads some of the files only.

        Args:
            leaf: the JVM's `LogicalRelation` over listed files.
            files: which ones, as Hadoop writes their paths.
            partitions: of the directories that `partitions` tells those that have one of `files`,
                in the order that they are to be in.
        """
        relation = leaf.relation()
        index = self._index(relation, files, partitions)
        narrowed = self._datasources().HadoopFsRelation(
            index,
            relation.partitionSchema(),
            relation.dataSchema(),
            relation.bucketSpec(),
            relation.fileFormat(),
            relation.options(),
            relation.sparkSession(),
        )
        return self._jvm.logical_relation(
            narrowed, leaf.output(), leaf.catalogTable(), leaf.isStreaming(), leaf.stream()
        )

    def _index(self, relation: Any, files: Sequence[str], partitions: Sequence[str]) -> Any:
        location = relation.location()
        # Two listings of the same roots are one to Spark, whatever they list.
        roots = self._listings.paths(location.allFiles(), _BETWEEN.join(files))
        old = location.partitionSpec()
        spec = self._datasources().PartitionSpec(
            old.partitionColumns(), self._partitions(old, partitions)
        )
        session = self._spark._jsparkSession.cloneSession()
        session.conf().set(_LIST_IN_PARALLEL, _NEVER)
        return self._datasources().InMemoryFileIndex(
            session,
            roots,
            relation.options(),
            self._jvm.none,
            self._datasources().FileStatusCache.getOrCreate(session),
            self._jvm.none if old.partitionColumns().isEmpty() else self._jvm.some(spec),
            self._jvm.none,
        )

    def _partitions(self, spec: Any, wanted: Sequence[str]) -> Any:
        # A catalog's table may have one directory under several values.
        numbers: dict[str, list[int]] = {}
        for number, place in enumerate(self._directories(spec)):
            numbers.setdefault(place, []).append(number)
        found = (each for place in dict.fromkeys(wanted) for each in numbers.get(place, ()))
        return self._jvm.to_seq([spec.partitions().apply(number) for number in found])

    def _directories(self, spec: Any) -> tuple[str, ...]:
        joined: str = self._listings.directories(spec.partitions())
        return tuple(joined.split(_BETWEEN)) if joined else ()

    @property
    def _listings(self) -> Any:
        return _listings.of(self._spark)

    def _datasources(self) -> Any:
        jvm: Any = self._spark.sparkContext._jvm
        return jvm.org.apache.spark.sql.execution.datasources


_listings: PerContext[Any] = PerContext(lambda spark: new_object(spark, "FileListings", _BETWEEN))

"""Spark's listings of files, narrowed to some of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.method_handles import OBJECT, STRING, MethodHandles
from holdfast.spark.per_context import PerContext

_SOURCES = "org.apache.spark.sql.execution.datasources"
_FILE_STATUS = "org.apache.hadoop.fs.FileStatus"
_PATH = "org.apache.hadoop.fs.Path"
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
        self._functions = _functions.of(spark)

    def partitions(self, leaf: Any) -> tuple[str, ...]:
        """The directories that have values for partitioning columns, in the listing's order.

        Args:
            leaf: the JVM's `LogicalRelation` over listed files.
        """
        partitions = leaf.relation().location().partitionSpec().partitions()
        return self._texts(partitions.map(self._functions.path_of_partition))

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
        roots = location.allFiles().filter(self._functions.is_one_of(files))
        old = location.partitionSpec()
        spec = self._datasources().PartitionSpec(
            old.partitionColumns(), self._partitions(old, partitions)
        )
        session = self._spark._jsparkSession.cloneSession()
        session.conf().set(_LIST_IN_PARALLEL, _NEVER)
        return self._datasources().InMemoryFileIndex(
            session,
            roots.map(self._functions.path_of_status),
            relation.options(),
            self._jvm.none,
            self._datasources().FileStatusCache.getOrCreate(session),
            self._jvm.some(spec) if partitions else self._jvm.none,
            self._jvm.none,
        )

    def _partitions(self, spec: Any, wanted: Sequence[str]) -> Any:
        places = self._texts(spec.partitions().map(self._functions.path_of_partition))
        position = {place: number for number, place in enumerate(places)}
        return self._jvm.to_seq(
            [spec.partitions().apply(position[place]) for place in wanted if place in position]
        )

    def _texts(self, sequence: Any) -> tuple[str, ...]:
        joined: str = sequence.mkString(_BETWEEN)
        return tuple(joined.split(_BETWEEN)) if joined else ()

    def _datasources(self) -> Any:
        jvm: Any = self._spark.sparkContext._jvm
        return jvm.org.apache.spark.sql.execution.datasources


class _Functions:
    """Functions of the JVM over elements of listings.

    Args:
        spark: a classic session in the JVM.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._java = java = MethodHandles(spark)
        text = java.method(_PATH, "toString", STRING)
        of_partition = java.method(f"{_SOURCES}.PartitionPath", "path", _PATH)
        of_status = java.method(_FILE_STATUS, "getPath", _PATH)
        self.path_of_partition = java.scala_function(java.to_string(java.then(of_partition, text)))
        self.path_of_status = java.scala_function(of_status)
        self._text_of_status = java.to_string(java.then(of_status, text))

    def is_one_of(self, paths: Sequence[str]) -> Any:
        """The test whether a file status is of one of these paths."""
        java = self._java
        text = java.jvm.java.lang.String(_BETWEEN.join(paths))
        wanted = java.jvm.java.util.HashSet()
        splitter = java.jvm.java.util.regex.Pattern.compile(_BETWEEN)
        wanted.addAll(splitter.splitAsStream(text).toList())
        contains = java.bind(
            java.method("java.util.HashSet", "contains", "boolean", OBJECT), 0, wanted
        )
        test = java.then(self._text_of_status, java.cast(contains, "boolean", STRING))
        return java.scala_function(test)


_functions = PerContext(_Functions)

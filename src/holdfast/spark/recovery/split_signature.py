"""How a plan's rows are dealt to tasks, where that is fixed before it runs.

Partitions that an earlier start has left can be completed by those that are missing, if both come
of the very same split.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from holdfast.plan.canonical_plan import hash_parts
from holdfast.runtime.recovery.file_split import FileSplit
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.method_handles import OBJECT, STRING, MethodHandles
from holdfast.spark.partition_reader import hadoop_path
from holdfast.spark.per_context import PerContext
from holdfast.spark.recovery.streamed_scans import streamed_scans
from holdfast.storage.kept_dataset import KeptDataSet

_EXECUTION = "org.apache.spark.sql.execution."
_FILE_PARTITION = _EXECUTION + "datasources.FilePartition"
_PARTITIONED_FILE = _EXECUTION + "datasources.PartitionedFile"
_FILES = f"[L{_PARTITIONED_FILE};"
_ARRAY_SEQ = "scala.collection.immutable.ArraySeq"
_ITERATOR = "scala.collection.Iterator"
_SEQ = "scala.collection.immutable.Seq"
_TREE_NODE = "org.apache.spark.sql.catalyst.trees.TreeNode"

# No path has any of them.
_AFTER_FIELD, _AFTER_FILE, _AFTER_PARTITION = "\x00", "\x01", "\x02"


@dataclass(frozen=True, slots=True)
class Split:
    """How rows are dealt to tasks.

    Attributes:
        text: the same for the same parts of the same files in the same tasks: 64 hexadecimal
            digits.
        parallelism: the number of tasks.
        assignment: by task what it reads, in the order in which it does.
        broadcasts: each task reads something else as well, all of it. Its tasks are those of
            `execution` then, but not of a plan that Spark adapts at run time.
        execution: the JVM's query execution, with these very tasks.
    """

    text: str
    parallelism: int
    assignment: tuple[tuple[FileSplit, ...], ...] = field(repr=False)
    broadcasts: bool
    execution: Any = field(repr=False, compare=False)


def split_of(spark: SparkSession, plan: Any, kept: Iterable[KeptDataSet] = ()) -> Split | None:
    """The split of a plan that Spark runs in one stage over files. Runs nothing.

    Args:
        spark: the session that is to run it.
        plan: the JVM's analyzed plan.
        kept: datasets that it reads; they count by what they are and by their files' names, as
            their directories are others in each start.

    Returns:
        None where a shuffle, a source other than files, or what Spark finds out while it runs
        decides. What is joined by broadcast doesn't: all tasks are given the same.
    """
    if not plan.subqueriesAll().isEmpty():
        return None
    session = spark._jsparkSession.cloneSession()
    # What is adapted at run time has other tasks than are planned.
    session.conf().set("spark.sql.adaptive.enabled", "false")
    execution = JvmMembers.of(spark).of_rows(session, plan).queryExecution()
    executed = execution.executedPlan()
    # Partitions that are pruned by what a subquery gives are known only when that has run.
    if not executed.subqueriesAll().isEmpty():
        return None
    functions = _functions.of(spark)
    scans = streamed_scans(functions.operators(executed))
    if scans is None:
        return None
    leaves = executed.collectLeaves()
    texts = [
        leaves.apply(leaf).inputRDD().filePartitions().map(functions.partition_text)
        for leaf in scans.leaves
    ]
    parallelism = sum(text.size() for text in texts)
    if parallelism == 0:
        return None
    # To ask a plan with broadcasts would be to run them.
    if not scans.broadcasts and execution.toRdd().getNumPartitions() != parallelism:
        return None
    places = _places(kept)
    dealt = [_named(text.mkString(_AFTER_PARTITION), places) for text in texts]
    assignment = tuple(partition for scan in dealt for partition in scan)
    told = tuple(tuple(tuple(map(astuple, partition)) for partition in scan) for scan in dealt)
    return Split(
        hash_parts(parallelism, told), parallelism, assignment, scans.broadcasts, execution
    )


def _places(kept: Iterable[KeptDataSet]) -> dict[str, str]:
    """For each kept file what it is called in a split."""
    return {
        hadoop_path(place): f"{each.manifest.dataset.dataset_id}/{partition.file}"
        for each in kept
        for place, partition in zip(each.locations, each.manifest.partitions, strict=True)
    }


def _named(scan: str, places: dict[str, str]) -> tuple[tuple[FileSplit, ...], ...]:
    """A scan's partitions, in their order."""
    partitions = []
    for partition in scan.split(_AFTER_PARTITION) if scan else []:
        files = partition.split(_AFTER_FILE) if partition else []
        partitions.append(
            tuple(
                FileSplit(places.get(path, path), int(start), int(length), int(modified))
                for path, start, length, modified in (file.split(_AFTER_FIELD) for file in files)
            )
        )
    return tuple(partitions)


class _Functions:
    """Functions of the JVM over physical plans and the partitions of scans.

    Args:
        spark: a classic session in the JVM.
    """

    def __init__(self, spark: SparkSession) -> None:
        java = MethodHandles(spark)
        name = java.to_string(
            java.then(
                java.method(OBJECT, "getClass", "java.lang.Class"),
                java.method("java.lang.Class", "getName", STRING),
            )
        )
        inputs = java.then(
            java.method(_TREE_NODE, "children", _SEQ),
            java.cast(java.method("scala.collection.SeqOps", "size", "int"), "int", _SEQ),
            java.static(STRING, "valueOf", STRING, "int"),
        )
        self._operator: Any = java.scala_function(
            java.concat(name, _AFTER_FIELD, java.to_string(java.cast(inputs, STRING, OBJECT)))
        )
        self.partition_text: Any = java.scala_function(_partition_text(java))

    def operators(self, plan: Any) -> list[tuple[str, int]]:
        """A physical plan's operators in pre-order: their classes' names and how many inputs."""
        text = plan.map(self._operator).mkString(_AFTER_FILE)
        fields = (operator.split(_AFTER_FIELD) for operator in text.split(_AFTER_FILE))
        return [(name, int(inputs)) for name, inputs in fields]


def _partition_text(java: MethodHandles) -> Any:
    number = java.static(STRING, "valueOf", STRING, "long")
    text = java.static(STRING, "valueOf", STRING, OBJECT)
    path = "org.apache.hadoop.fs.Path"
    place = java.then(java.method(_PARTITIONED_FILE, "toPath", path), java.cast(text, STRING, path))
    fields = [java.to_string(place)]
    for name in ("start", "length", "modificationTime"):
        value = java.then(java.method(_PARTITIONED_FILE, name, "long"), number)
        fields += [_AFTER_FIELD, java.to_string(value)]
    mapped = java.bind(
        java.method(_ITERATOR, "map", _ITERATOR, "scala.Function1"),
        1,
        java.scala_function(java.concat(*fields)),
    )
    joined = java.bind(
        java.method("scala.collection.IterableOnceOps", "mkString", STRING, STRING), 1, _AFTER_FILE
    )
    return java.to_string(
        java.then(
            java.method(_FILE_PARTITION, "files", _FILES),
            java.cast(
                java.static(_ARRAY_SEQ, "unsafeWrapArray", _ARRAY_SEQ, OBJECT), _ARRAY_SEQ, _FILES
            ),
            java.cast(
                java.method("scala.collection.IterableOnce", "iterator", _ITERATOR),
                _ITERATOR,
                _ARRAY_SEQ,
            ),
            mapped,
            java.cast(joined, STRING, _ITERATOR),
        )
    )


_functions = PerContext(_Functions)

"""How a plan's rows are dealt to tasks, where that is fixed before it runs.

Partitions that an earlier start has left can be completed by those that are missing, if both come
of the very same split.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from holdfast.errors import UnsupportedSparkError
from holdfast.plan.hashing import hash_parts
from holdfast.runtime.recovery.file_split import FileSplit
from holdfast.spark.java_classes import new_object
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.partition_reader import hadoop_path
from holdfast.spark.per_context import PerContext
from holdfast.spark.recovery.streamed_scans import StreamedScans, streamed_scans
from holdfast.storage.kept_dataset import KeptDataSet

_FILES = "spark.sql.files."
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
        settings: those of Spark that decide how files are dealt to tasks, as they were.
        broadcasts: each task reads something else as well, all of it. Its tasks are those of
            `execution` then, but not of a plan that Spark adapts at run time.
        execution: the JVM's query execution, with these very tasks.
    """

    text: str
    parallelism: int
    assignment: tuple[tuple[FileSplit, ...], ...] = field(repr=False)
    settings: Mapping[str, str] = field(repr=False, compare=False)
    broadcasts: bool
    execution: Any = field(repr=False, compare=False)


def split_of(
    spark: SparkSession,
    plan: Any,
    kept: Iterable[KeptDataSet] = (),
    *,
    ambiguous: bool = False,
    session: Any = None,
) -> Split | None:
    """The split of a plan that Spark runs in one stage over files. Runs nothing.

    Args:
        spark: the session that is to run it.
        plan: the JVM's analyzed plan.
        kept: datasets that it reads; they count by what they are and by their files' names, as
            their directories are others in each start.
        ambiguous: several answers are right.
        session: the JVM's session under whose settings it runs, where that isn't `spark`'s.

    Returns:
        None where a shuffle, a source other than files, or what Spark finds out while it runs
        decides. What is joined by broadcast doesn't: all tasks are given the same, unless which
        rows those are depends on how they were dealt to tasks.
    """
    if not plan.subqueriesAll().isEmpty():
        return None
    session = (session or spark._jsparkSession).cloneSession()
    # What is adapted at run time has other tasks than are planned.
    session.conf().set("spark.sql.adaptive.enabled", "false")
    execution = JvmMembers.of(spark).of_rows(session, plan).queryExecution()
    executed = execution.executedPlan()
    # Partitions that are pruned by what a subquery gives are known only when that has run.
    if not executed.subqueriesAll().isEmpty():
        return None
    try:
        splits = _splits.of(spark)
    except UnsupportedSparkError:
        return None
    scans = streamed_scans(_operators(splits.operators(executed)))
    # A start on other cores may broadcast other rows of a limit, or of a tie.
    if scans is None or (scans.broadcasts and ambiguous):
        return None
    partitions = _file_partitions(executed, scans)
    parallelism = sum(each.size() for each in partitions)
    if parallelism == 0:
        return None
    # To ask a plan with broadcasts would be to run them.
    if not scans.broadcasts and execution.toRdd().getNumPartitions() != parallelism:
        return None
    text, assignment = _dealt(splits, partitions, kept)
    return Split(
        text, parallelism, assignment, dealing(spark, session), scans.broadcasts, execution
    )


def executed_split(
    spark: SparkSession, executed: Any, kept: Iterable[KeptDataSet] = ()
) -> tuple[str, int] | None:
    """The text and the number of tasks that `split_of` gives for a plan, once it has run.

    Args:
        spark: the session that has run it.
        executed: the JVM's physical plan, as it was adapted at run time.
        kept: datasets that it has read.

    Returns:
        None where something else than files has decided.
    """
    try:
        splits = _splits.of(spark)
    except UnsupportedSparkError:
        return None
    scans = streamed_scans(_operators(splits.operators(executed)))
    if scans is None:
        return None
    partitions = _file_partitions(executed, scans)
    parallelism = sum(each.size() for each in partitions)
    return (_dealt(splits, partitions, kept)[0], parallelism) if parallelism else None


def _file_partitions(executed: Any, scans: StreamedScans) -> list[Any]:
    leaves = executed.collectLeaves()
    return [leaves.apply(leaf).inputRDD().filePartitions() for leaf in scans.leaves]


def _dealt(
    splits: Any, partitions: Sequence[Any], kept: Iterable[KeptDataSet]
) -> tuple[str, tuple[tuple[FileSplit, ...], ...]]:
    """What tells a split from others, and by task what it reads."""
    places = _places(kept)
    dealt = [_named(splits.partitions(each), places) for each in partitions]
    assignment = tuple(partition for scan in dealt for partition in scan)
    told = tuple(tuple(tuple(map(astuple, partition)) for partition in scan) for scan in dealt)
    return hash_parts(len(assignment), told), assignment


def dealing(spark: SparkSession, session: Any) -> dict[str, str]:
    """The settings of Spark that decide how files are dealt to tasks.

    Args:
        spark: the session whose cores run them.
        session: the JVM's session under whose settings they run.
    """
    settings = session.conf()
    cores = settings.get(
        "spark.sql.leafNodeDefaultParallelism", str(spark.sparkContext.defaultParallelism)
    )
    return {
        _FILES + "maxPartitionBytes": settings.get(_FILES + "maxPartitionBytes"),
        _FILES + "openCostInBytes": settings.get(_FILES + "openCostInBytes"),
        # What Spark goes by where these aren't set.
        _FILES + "minPartitionNum": settings.get(_FILES + "minPartitionNum", cores),
        _FILES + "maxPartitionNum": settings.get(_FILES + "maxPartitionNum", str(2**31 - 1)),
    }


def _operators(plan: str) -> list[tuple[str, int]]:
    """A physical plan's operators in pre-order: their classes' names and how many inputs."""
    fields = (operator.split(_AFTER_FIELD) for operator in plan.split(_AFTER_FILE))
    return [(name, int(inputs)) for name, inputs in fields]


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


_splits: PerContext[Any] = PerContext(
    lambda spark: new_object(spark, "ScanSplits", _AFTER_FIELD, _AFTER_FILE, _AFTER_PARTITION)
)

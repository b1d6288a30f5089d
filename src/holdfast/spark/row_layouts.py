"""Which rows are in which partition of a plan that has run, and a plan of some of these rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import SparkSession

from holdfast.errors import UnsupportedSparkError
from holdfast.spark.java_classes import new_object
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.per_context import PerContext
from holdfast.spark.recovery.split_signature import dealing, executed_split
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.storage.row_layout import HashedRows, RowLayout, Share, SplitFiles


def executed_layout(
    spark: SparkSession, command: Any, session: Any, kept: Iterable[KeptDataSet] = ()
) -> RowLayout | None:
    """Which rows of a computation its partitions hold, once they are written. Runs nothing.

    Args:
        spark: the session that has written them.
        command: the JVM's physical plan that has run.
        session: the JVM's session under whose settings it has.
        kept: the datasets that it has read.

    Returns:
        None where another run may distribute the same rows in another way, or where other rows may
        come of it, as where equal ones are numbered.
    """
    try:
        layouts = _layouts.of(spark)
    except UnsupportedSparkError:
        return None
    written = layouts.written(command)
    if not layouts.isRepeatable(written):
        return None
    hashed = str(layouts.hashed(written))
    if hashed:
        # What was summed up for these may be rounded another way when it is computed again.
        has_floats = any(map(_has_floats, kept))
        return None if has_floats else _hashed_layout(hashed)
    if not written.subqueriesAll().isEmpty():
        return None
    split = executed_split(spark, written, kept)
    if split is None:
        return None
    text, number = split
    shares = tuple(Share(partitions=(task,), slots=((task, task + 1),)) for task in range(number))
    by = SplitFiles(split=text, slots=number, settings=dealing(spark, session))
    return RowLayout(by=by, shares=shares)


def number_of_partitions(spark: SparkSession, command: Any) -> int:
    """How many partitions were written, those without rows included. Runs nothing.

    Args:
        spark: the session that has written them.
        command: the JVM's physical plan that has run.

    Raises:
        UnsupportedSparkError: when the JVM's Spark doesn't say.
        py4j.protocol.Py4JError: likewise.
    """
    return int(_layouts.of(spark).written(command).execute().getNumPartitions())


def rows_of_slots(spark: SparkSession, plan: Any, by: HashedRows, slots: Sequence[int]) -> Any:
    """A plan of those rows of another one that are in some slots.

    Args:
        spark: the session.
        plan: the JVM's analyzed plan.
        by: what a row's slot is.
        slots: which ones.
    """
    jvm: Any = spark.sparkContext._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    members = JvmMembers.of(spark)
    output = plan.output()
    keys = members.to_seq([output.apply(place) for place in by.columns])
    slot = catalyst.plans.physical.HashPartitioning(keys, by.slots).partitionIdExpression()
    wanted = catalyst.expressions.InSet(slot, members.to_seq(list(slots)).toSet())
    return catalyst.plans.logical.Filter(wanted, plan)


def _hashed_layout(hashed: str) -> RowLayout:
    slots, columns, partitions = hashed.split(";")
    ranges = [tuple(map(int, each.split("-"))) for each in partitions.split(",") if each]
    shares = tuple(
        Share(partitions=(index,), slots=((start, end),))
        for index, (start, end) in enumerate(ranges)
    )
    by = HashedRows(columns=tuple(map(int, columns.split(","))), slots=int(slots))
    return RowLayout(by=by, shares=shares)


def _has_floats(kept: KeptDataSet) -> bool:
    types = str([column.type for column in kept.manifest.dataset.columns])
    return "double" in types or "float" in types


_layouts: PerContext[Any] = PerContext(lambda spark: new_object(spark, "ExecutedLayouts"))

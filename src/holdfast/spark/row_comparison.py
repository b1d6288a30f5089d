"""Compares a kept result with what its plan gives, by hashes of rows that Spark groups.

A difference of one row is overlooked where its hash is that of the row that stands for it: once in
2^64 times. Rows that are equal never have other hashes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.types import _parse_datatype_json_string
from pyspark.sql.window import Window

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.terms import digests
from holdfast.runtime.verification import Comparison, VerificationError
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.failures import is_cancelled, reason
from holdfast.spark.java_classes import new_object
from holdfast.spark.job_description import described
from holdfast.spark.partition_reader import PartitionReader
from holdfast.spark.per_context import PerContext
from holdfast.spark.row_hash import has_floats, positional_type, row_hash
from holdfast.spark.source_versions import SourceVersions
from holdfast.storage.kept_dataset import KeptDataSet

# Numbers that are nearly equal lie on both sides of a bound now and then, but not of all of these.
_ROUNDINGS = (0.0, 1 / 3, 2 / 3)


class SparkResultVerifier:
    """The engine behind `holdfast.runtime.verification.ResultVerifier`.

    Args:
        spark: the session that computes.
        bridge: reads its plans.
    """

    def __init__(self, spark: SparkSession, bridge: CatalystBridge) -> None:
        self._spark = spark
        self._bridge = bridge
        self._reader = PartitionReader(spark)
        self._sources = SourceVersions(spark)

    def compare(
        self, query: Query, nodes: Sequence[CanonicalNode], kept: KeptDataSet, *, rounding: bool
    ) -> Comparison | None:
        """Computes parts of a query anew and compares them with what is kept, see `ResultVerifier`.

        Neither Spark's own cache nor anything that is kept is read for what is computed.

        Raises:
            VerificationError: when it can't be done, or a source has changed since it was listed.
        """
        try:
            dataset = kept.manifest.dataset
            with described(self._spark, f"verifies {dataset.dataset_id}: {dataset.computes}"):
                return self._compare(query, nodes, kept, rounding=rounding)
        except VerificationError:
            raise
        except Exception as error:
            if is_cancelled(error):
                raise
            raise VerificationError(reason(error)) from error

    def _compare(
        self, query: Query, nodes: Sequence[CanonicalNode], kept: KeptDataSet, *, rounding: bool
    ) -> Comparison | None:
        found = None
        for node, plan in self._different(query, nodes):
            self._check_sources(node)
            found = self._compared(node, plan, kept, rounding=rounding)
            if found.differs:
                self._check_sources(node)
                return found
        return found

    def _different(
        self, query: Query, nodes: Sequence[CanonicalNode]
    ) -> list[tuple[CanonicalNode, Any]]:
        """The nodes that can be run by themselves, without those that are one to Spark as well."""
        different: list[tuple[CanonicalNode, Any]] = []
        for node in nodes:
            plan = query.reading.node(node.handle)
            known = any(plan.sameResult(other) for _, other in different)
            if not known and _uncached.of(self._spark).standsAlone(plan):
                different.append((node, plan))
        return different

    def _check_sources(self, node: CanonicalNode) -> None:
        changed = self._sources.changed(node.source_files())
        if changed is not None:
            raise VerificationError(f"{changed} changed after it was listed")

    def _compared(
        self, node: CanonicalNode, plan: Any, kept: KeptDataSet, *, rounding: bool
    ) -> Comparison:
        read = self._reader.plan(kept, plan, node.output, digests(node.columns))
        types = [field["type"] for field in json.loads(plan.schema().json())["fields"]]
        exactly = self._difference(read, plan, types, ())
        if not exactly.differs or not rounding or not any(map(has_floats, types)):
            return exactly
        rounded = self._difference(read, plan, types, _ROUNDINGS)
        return rounded if rounded.differs else Comparison(rounded=True)

    def _difference(
        self, read: Any, computed: Any, types: list[Any], roundings: Sequence[float]
    ) -> Comparison:
        hashes = [row_hash(_columns(types), each) for each in (None, *roundings)]
        rows: Any = self._hashed(read, types, hashes, 1)
        rows = rows.union(self._hashed(computed, types, hashes, -1))
        for index in range(len(roundings)):
            of_equal = Window.partitionBy(f"h{index}")
            rows = rows.withColumn("d", F.sum("n").over(of_equal)).where("d <> 0").drop("d")
        balance = rows.groupBy(f"h{len(roundings)}").agg(F.sum("n").alias("n"))
        counts = balance.agg(
            F.expr("sum(if(n > 0, n, 0L)) AS k"), F.expr("sum(if(n < 0, -n, 0L)) AS c")
        )
        [(only_kept, only_computed)] = self._uncached(counts).collect()
        return Comparison(only_kept or 0, only_computed or 0)

    def _hashed(self, plan: Any, types: list[Any], hashes: list[str], side: int) -> DataFrame:
        """The hashes of a plan's rows as h0, h1 and so on, and which side they are of."""
        rows: Any = self._bridge.dataframe(plan).toDF(*[name for name, _ in _columns(types)])
        columns = []
        for (name, positional), data_type in zip(_columns(types), types, strict=True):
            column = F.col(name)
            if positional != data_type:
                column = column.cast(_parse_datatype_json_string(json.dumps(positional)))
            columns.append(column.alias(name))
        named = [F.expr(text).alias(f"h{index}") for index, text in enumerate(hashes)]
        hashed: DataFrame = rows.select(*columns).select(
            *named, F.lit(side).cast("long").alias("n")
        )
        return hashed

    def _uncached(self, frame: Any) -> DataFrame:
        plan = frame._jdf.queryExecution().analyzed()
        dataset = _uncached.of(self._spark).dataset(self._spark._jsparkSession, plan)
        return DataFrame(dataset, self._spark)


def _columns(types: list[Any]) -> list[tuple[str, Any]]:
    return [(f"c{index}", positional_type(each)) for index, each in enumerate(types)]


_uncached: PerContext[Any] = PerContext(lambda spark: new_object(spark, "UncachedQueries"))

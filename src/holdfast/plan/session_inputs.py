"""The settings of a session that are inputs of its queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.hashing import hash_parts

# Bumped whenever the same plan gets another digest.
_DIGEST_VERSION = 4

_SQL = "spark.sql."

# Settings that no row depends on, however rows are dealt to tasks: what is shown, and a directory
# that is another one wherever a program is started.
_OF_NO_ROW = (
    *(
        _SQL + name
        for name in (
            "catalogImplementation",
            "debug.",
            "event.truncate.length",
            "maxMetadataStringLength",
            "maxPlanStringLength",
            "maxToStringFields",
            "pyspark.plotting.",
            "pyspark.jvmStacktrace.",
            "repl.",
            "ui.",
            "warehouse.dir",
        )
    ),
    # Where Spark says that directory to Hadoop.
    "hadoop: hive.metastore.warehouse.dir",
)
# Settings by which rows come out in other files, tasks or time, but as the same rows.
_NEUTRAL = tuple(
    _SQL + name
    for name in (
        "adaptive.",
        "autoBroadcastJoinThreshold",
        "broadcastTimeout",
        "cbo.",
        "codegen.",
        "execution.arrow.pyspark.",
        "files.maxPartitionBytes",
        "files.maxPartitionNum",
        "files.minPartitionNum",
        "files.openCostInBytes",
        "inMemoryColumnarStorage.",
        "join.preferSortMergeJoin",
        "parquet.compression.codec",
        # Spark sets it, like those of streaming, in the session that processes micro-batches.
        "requireAllClusterKeysForDistribution",
        "shuffle.partitions",
        "sources.parallelPartitionDiscovery.",
        "statistics.",
        "streaming.internal.",
        "streaming.offsetLog.",
        "streaming.stateStore.",
    )
)


@dataclass(frozen=True, slots=True)
class SessionInputs:
    """What a session's settings add to the identity of a result.

    Attributes:
        spark_version: version of Spark, whose rules the results follow.
        settings: everything that is set under `spark.sql.` or outside of `spark.`, and the
            settings in effect that matter most (ANSI mode, time zone, case sensitivity) whether
            set or not.
    """

    spark_version: str
    settings: Mapping[str, str]
    _counted: dict[bool, tuple[tuple[str, str], ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def dataset_digest(self, node: CanonicalNode) -> str:
        """The identity of `node`'s rows in a session like this one.

        Where the rows depend on how they are dealt to tasks, every setting counts that any row can
        depend on; elsewhere those that change results.

        Returns:
            64 hexadecimal digits.
        """
        return hash_parts(_DIGEST_VERSION, self.spark_version, node.digest, self._counted_for(node))

    def counted(self, node: CanonicalNode) -> dict[str, str]:
        """The settings that count for `node`'s rows."""
        return dict(self._counted_for(node))

    def _counted_for(self, node: CanonicalNode) -> tuple[tuple[str, str], ...]:
        # A job asks for each node of its plan.
        counted = self._counted.get(node.layout_sensitive)
        if counted is None:
            counted = self._counted[node.layout_sensitive] = tuple(
                sorted(
                    (key, value)
                    for key, value in self.settings.items()
                    if not key.startswith(_OF_NO_ROW)
                    and (node.layout_sensitive or not key.startswith(_NEUTRAL))
                )
            )
        return counted

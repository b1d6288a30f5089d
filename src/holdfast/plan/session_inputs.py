"""The settings of a session that are inputs of its queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.hashing import hash_parts
from holdfast.plan.observed import Observed

# Bumped whenever the same plan gets another digest.
_DIGEST_VERSION = 4

_SQL = "spark.sql."
_OF_ZONE = frozenset({"time zone", _SQL + "session.timeZone"})
_OF_JAVA = "Java's "
_CORES = "default parallelism"
_SEEN_BY = {"locale": Observed.LOCALE, "zone": Observed.ZONE, "classes": Observed.CLASSES}

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
        process: what Java has by default, "locale" and "zone", and which "classes" were added to
            Spark's own.
        classes: gives a digest of these, of that text; it may take long.
        cores: how many tasks Spark runs at once, by which it splits files among them.
    """

    spark_version: str
    settings: Mapping[str, str]
    process: Mapping[str, str] = field(default_factory=dict)
    classes: Callable[[str], str] = field(default=str, repr=False, compare=False)
    cores: int = 0
    _counted: dict[object, tuple[tuple[str, str], ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def dataset_digest(self, node: CanonicalNode) -> str:
        """The identity of `node`'s rows in a session like this one.

        Where the rows depend on how they are dealt to tasks, every setting counts that any row can
        depend on, and the number of cores where several answers are right: what is read of one and
        what is computed beside it are parts of the same one. Elsewhere those settings count that
        change results. What else is around them counts where they may depend on it.

        Returns:
            64 hexadecimal digits.
        """
        return hash_parts(_DIGEST_VERSION, self.spark_version, node.digest, self._counted_for(node))

    def counted(self, node: CanonicalNode) -> dict[str, str]:
        """The settings that count for `node`'s rows."""
        return dict(self._counted_for(node))

    def _counted_for(self, node: CanonicalNode) -> tuple[tuple[str, str], ...]:
        # A job asks for each node of its plan.
        ambiguous = node.ambiguous
        key = node.layout_sensitive or ambiguous, ambiguous, node.observes
        counted = self._counted.get(key)
        if counted is None:
            counted = self._counted[key] = tuple(sorted(self._of(*key)))
        return counted

    def _of(
        self, layout_sensitive: bool, ambiguous: bool, observed: frozenset[Observed]
    ) -> Iterator[tuple[str, str]]:
        if ambiguous:
            yield _CORES, str(self.cores)
        for key, value in self.settings.items():
            if key.startswith(_OF_NO_ROW) or (not layout_sensitive and key.startswith(_NEUTRAL)):
                continue
            if key not in _OF_ZONE or Observed.ZONE in observed:
                yield key, value
        for key, value in self.process.items():
            if _SEEN_BY[key] in observed:
                yield _OF_JAVA + key, self.classes(value) if key == "classes" else value

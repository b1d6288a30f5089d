"""How Spark's versions differ: our Java classes are written for the newest, and adapted to others.

What a class touches is compiled against the Spark that runs. A class that isn't compiled by it
costs the features that need the class, and no others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import SparkSession

OLDEST, NEWEST = (4, 0), (4, 3)
"""The versions of Spark that the test suite runs on, with those in between."""

Version = tuple[int, int]

NAMES_WRITE_COMMANDS: Version = (4, 1)
"""From here on, Spark's writers say by which command they would write."""

REPARTITIONS_BY_ID: Version = (4, 1)
"""From here on, DataFrames can be repartitioned by the numbers of partitions."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a Java class of ours writes another way where Spark is older.

    Attributes:
        java_class: the class's name.
        since: the first version of Spark that has it as the class is written.
        ours: what stands in the class's source, wherever it does.
        older: what older versions have in its place.
    """

    java_class: str
    since: Version
    ours: str
    older: str


_DEFAULT = ",\n                    QueryExecution.$lessinit$greater$default${}()"

# Those of newer versions come first.
DIFFERENCES = (
    # Shuffles whose rows are read while they are written.
    Difference("RetainedShuffles", (4, 3), "if (plain.pipelined())", "if (false)"),
    Difference("RetainedShuffles", (4, 3), "(), plain.pipelined(), query", "(), query"),
    Difference("RetainedShuffles", (4, 3), "(), pipelined(), query", "(), query"),
    Difference("RetainedShuffles", (4, 3), "(), pipelined())", "())"),
    Difference("RetainedShuffles", (4, 3), "boolean pipelined, Query query", "Query query"),
    Difference("RetainedShuffles", (4, 3), "origin, size, pipelined)", "origin, size)"),
    # A query's id, and its own analyzer.
    Difference("UncachedQueries", (4, 2), _DEFAULT.format(7) + _DEFAULT.format(8), ""),
    Difference("UncachedQueries", (4, 1), _DEFAULT.format(6), ""),
    # Checksums by which a map task that runs again is known to have written the same rows.
    Difference(
        "RetainedShuffles",
        (4, 1),
        "output.sizes, FIRST_ADOPTED + output.map, output.checksum)",
        "output.sizes, FIRST_ADOPTED + output.map)",
    ),
    Difference("RetainedShuffles", (4, 1), "status.checksumValue()", "0L"),
)

NEEDED_FOR: Mapping[str, str] = {
    "PlanReader": "caching and finding results",
    "KnownContent": "caching and finding results",
    "FreshPlans": "keeping results",
    "KeptFormat": "reading results",
    "KeptFiles": "reading results",
    "KeptColumns": "reading results",
    "GroupedFiles": "merging small partitions",
    "FileVersions": "caching and finding results",
    "WrittenTables": "caching and finding results",
    "ReachedPartitions": "finding results over partitioned tables of a catalog",
    "HiveFiles": "finding results over tables that Spark reads by a SerDe",
    "CacheEntries": "caching and keeping results",
    "CollectedObjects": "removing results that only to_dataframe(), rdd and the like still read",
    "NodeMeasure": "estimating sizes for recovery",
    "LabelledJobs": "measuring CPU times for the catalog",
    "InterruptedLog": "leaving out of the log what Spark says of an interrupted job",
    "QueryRule": "reading results in SQL commands and libraries (attached sessions)",
    "PossibleParts": "passing over plans that nothing kept can be a part of",
    "StoredBySpark": "leaving to Spark what it has persisted itself",
    "UncachedQueries": "verifying results",
    "ExecutedLayouts": "producing lost partitions alone",
    "ScanSplits": "recovering jobs over files",
    "FileListings": "recovering jobs over files that have changed",
    "RetainedBroadcasts": "recovering shuffles",
    "RetainedShuffles": "recovering shuffles",
    "LocalExecutor": "recovering and reusing shuffles",
    "StageInputs": "reusing shuffles of earlier queries",
    "WrittenOrder": "reusing shuffles of earlier queries",
    "LiveShuffles": "reusing shuffles of earlier queries",
    "RanSteps": "reusing shuffles of earlier queries",
    "Rollups": "answering aggregates from finer ones that are kept unasked",
    "RowTee": "keeping results in the Spark job that answers",
    "PlannedWrites": "retrying and recovering writes (Spark 4.0)",
}
"""What doesn't work without each of our Java classes."""

# Without these, nothing does.
_ALL = frozenset({"PlanReader", "KnownContent", "FileVersions", "WrittenTables"})


def version_of(text: str) -> Version | None:
    """The major and minor version in a version's text; None where there is none.

    Args:
        text: as Spark says it.

    >>> version_of("4.1.4-vendor"), version_of("unknown")
    ((4, 1), None)
    """
    found = re.match(r"(\d+)\.(\d+)", text)
    return None if found is None else (int(found[1]), int(found[2]))


def is_at_least(spark: str, version: Version) -> bool:
    """Whether Spark is of a version or of a later one; what says no version counts as the newest.

    Args:
        spark: as Spark says it.
        version: the earliest one.

    >>> is_at_least("4.0.3", (4, 1))
    False
    """
    return (version_of(spark) or NEWEST) >= version


def adapted(java_class: str, source: str, spark: str) -> str:
    """The source of a Java class as a version of Spark has it.

    Args:
        java_class: the class's name.
        source: as it is written, for the newest version.
        spark: the version that compiles it.

    >>> adapted("RetainedShuffles", "return status.checksumValue();", "4.0.1")
    'return 0L;'
    """
    for each in DIFFERENCES:
        if each.java_class == java_class and not is_at_least(spark, each.since):
            source = source.replace(each.ours, each.older)
    return source


def what_differs(spark: str, failed: Mapping[str, str]) -> str | None:
    """What to warn of where a Spark isn't as our classes need it; None if it is.

    Args:
        spark: its version.
        failed: why each class that can't be used can't be.

    >>> print(what_differs("4.0.1", {}))
    None
    """
    if not failed:
        return None
    lines = [
        f"Spark {spark} differs from the versions that Holdfast supports "
        f"({_text(OLDEST)} to {_text(NEWEST)}).",
        f"  not available: {_features(failed)}",
    ]
    left = _features(NEEDED_FOR.keys() - failed.keys()) if failed.keys().isdisjoint(_ALL) else ""
    lines.append(f"  available: {left}" if left else "  jobs run as if there were no Holdfast")
    lines += [f"  {name}: {why}" for name, why in failed.items()]
    return "\n".join(lines)


def _features(java_classes: Collection[str]) -> str:
    # Some classes are needed for the same.
    found = dict.fromkeys(NEEDED_FOR[name] for name in NEEDED_FOR if name in java_classes)
    return "; ".join(found)


def _text(version: Version) -> str:
    return ".".join(map(str, version))


def returns_json_as_dataframe(spark: SparkSession) -> bool:
    """Whether `DataFrame.toJSON` gives a DataFrame, which Spark 4.1 never does.

    Args:
        spark: the session of the DataFrame.
    """
    asked = cast(Any, spark)._jconf
    return is_at_least(spark.version, (4, 2)) and bool(asked.pysparkToJSONReturnDataFrame())

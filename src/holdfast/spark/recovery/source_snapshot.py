"""Lets a job that starts again read the very files that it read before.

A directory may have gained files since; the plan is rewritten to read those that it had.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pyspark.sql import SparkSession

from holdfast.plan.canonical_plan import FileVersion, hash_parts
from holdfast.plan.document import OperatorDocument
from holdfast.plan.file_sources import file_listing, file_sources, with_listings
from holdfast.plan.sources import SourceContext, canonical_source
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.recovery.file_index import FileIndexes

_NOTHING_LISTED = {"files": [], "partitions": ""}


class SourceListing(BaseModel):
    """What one leaf of a plan reads.

    Attributes:
        source: the digest of the leaf without the listing.
        content: the digest of it with them.
        files: the versions that were listed.
        partitions: the directories that have values for partitioning columns, in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    content: str
    files: tuple[FileVersion, ...]
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourcesChanged:
    """A plan can't read any more what it did.

    Attributes:
        reason: why, for people.
    """

    reason: str


class SourceSnapshots:
    """Takes and restores what plans read. Runs nothing.

    Args:
        spark: the session of the plans.
        bridge: reads and rewrites them.
    """

    def __init__(self, spark: SparkSession, bridge: CatalystBridge) -> None:
        self._bridge = bridge
        self._indexes = FileIndexes(spark)

    def snapshot(self, query: Query) -> list[dict[str, Any]]:
        """What the leaves of a query read, as JSON takes it.

        Args:
            query: over the analyzed plan.
        """
        return [json.loads(each.model_dump_json()) for each in self._listings(query)]

    def restore(self, query: Query, snapshot: object) -> Query | SourcesChanged:
        """The query over the files that a snapshot tells of.

        Args:
            query: over the analyzed plan, as it has been listed now.
            snapshot: what `snapshot` gave for the same query before.

        Returns:
            the query itself where nothing has changed; why not, where the files aren't there any
            more in the version that was read, or the snapshot isn't one of this query.
        """
        try:
            before = [SourceListing.model_validate(each) for each in _listed(snapshot)]
        except ValidationError:
            return SourcesChanged("what was recorded of the sources can't be read")
        now = self._listings(query)
        if [each.source for each in before] != [each.source for each in now]:
            return SourcesChanged("the sources are others than before")
        replacements = {}
        for leaf, old, new in zip(file_sources(query.reading.operators), before, now, strict=True):
            if old.content == new.content:
                continue
            changed = _changed(old, new)
            if changed is not None:
                return SourcesChanged(changed)
            replacements[leaf["i"]] = self._indexes.narrowed(
                query.reading.node(leaf["i"]), [path for path, _, _ in old.files], old.partitions
            )
        if not replacements:
            return query
        restored = self._bridge.read(self._bridge.substitute(query, replacements))
        # What Spark makes of the files is compared, not what was meant.
        if [each.content for each in self._listings(restored)] != [each.content for each in before]:
            return SourcesChanged("the files are read in another way than before")
        return restored

    def _listings(self, query: Query) -> list[SourceListing]:
        reading = query.reading
        unlisted = with_listings(reading.operators, lambda _, found: {**found, **_NOTHING_LISTED})
        context = SourceContext("", reading.inline_name)
        return [
            SourceListing(
                source=_content(same, context),
                content=_content(leaf, context),
                files=_files(leaf),
                partitions=self._indexes.partitions(reading.node(leaf["i"])),
            )
            for leaf, same in zip(
                file_sources(reading.operators), file_sources(unlisted), strict=True
            )
        ]


def _listed(snapshot: object) -> list[object]:
    # Anything else is no listing, and told by the first thing that is missing.
    return snapshot if isinstance(snapshot, list) else [snapshot]


def _content(leaf: OperatorDocument, context: SourceContext) -> str:
    return hash_parts(canonical_source(leaf, context).content)


def _files(leaf: OperatorDocument) -> tuple[FileVersion, ...]:
    listing = file_listing(leaf)
    assert listing is not None
    return tuple(sorted((path, length, time) for path, length, time in listing["files"]))


def _changed(old: SourceListing, new: SourceListing) -> str | None:
    """A file that isn't there any more as it was."""
    there = {path: (length, modified) for path, length, modified in new.files}
    for path, length, modified in old.files:
        if path not in there:
            return f"{path} is gone"
        if there[path] != (length, modified):
            return f"{path} has changed"
    return None

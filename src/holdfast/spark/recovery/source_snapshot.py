"""Lets a job that starts again read the very files that it read before.

A directory may have gained files since; the plan is rewritten to read those that it had.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pyspark.sql import SparkSession

from holdfast.plan.document import OperatorDocument
from holdfast.plan.file_sources import file_listing, file_sources, with_listings
from holdfast.plan.file_version import FileVersion
from holdfast.plan.hashing import hash_parts
from holdfast.plan.sources import SourceContext, canonical_source, listed_files
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.plans.file_indexes import FileIndexes

_NOTHING_LISTED = {"files": [], "partitions": ""}


class SourceListing(BaseModel):
    """What one leaf of a plan reads.

    Attributes:
        source: the digest of the leaf without the listing.
        content: the digest of it with them.
        roots: the paths that were asked for, with what wildcards stand for, sorted.
        files: the versions that were listed.
        partitions: the directories that have values for partitioning columns, in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    content: str
    roots: tuple[str, ...]
    files: tuple[FileVersion, ...]
    partitions: tuple[str, ...]

    def is_of(self, other: SourceListing) -> bool:
        """Whether both are listings of one source, which may have got other files between them."""
        return self.source == other.source and not {*self.roots}.isdisjoint(other.roots)


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

    @staticmethod
    def listings(snapshot: object) -> tuple[SourceListing, ...]:
        """What a snapshot tells of; nothing where it can't be read."""
        try:
            return tuple(SourceListing.model_validate(each) for each in _listed(snapshot))
        except ValidationError:
            return ()

    def change(
        self, query: Query, snapshot: object, is_own: Callable[[str], bool] = lambda _: False
    ) -> str | None:
        """What is other than a snapshot tells; None where nothing is.

        Args:
            query: over the analyzed plan, as it has been listed now.
            snapshot: what `snapshot` gave for the same query before.
            is_own: whether a file, by its path, doesn't count.
        """
        before, now = self.listings(snapshot), self._listings(query)
        if [each.source for each in before] != [each.source for each in now]:
            return "the sources differ from those of the earlier start"
        for old, new in zip(before, now, strict=True):
            if old.content == new.content:
                continue
            differing = {each[0] for each in {*old.files} ^ {*new.files}}
            if differing and all(map(is_own, differing)):
                continue
            come = sorted({path for path, *_ in new.files} - {path for path, *_ in old.files})
            return _changed(old, new) or (
                f"{len(come)} files were added since, such as {come[0]}"
                if come
                else "the files are read differently than before"
            )
        return None

    def over(self, query: Query, listings: Sequence[SourceListing]) -> Query | SourcesChanged:
        """The query over the files of some of its leaves that were listed before.

        Args:
            query: over the analyzed plan, as it has been listed now.
            listings: of what may be among its leaves; of several of one leaf the last one with its
                very roots, or else the last one.
        """
        now = [_listed_before(each, listings) for each in self._listings(query)]
        return self.restore(query, [json.loads(each.model_dump_json()) for each in now])

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
            return SourcesChanged("the recorded sources can't be read")
        now = self._listings(query)
        if [each.source for each in before] != [each.source for each in now]:
            return SourcesChanged("the sources differ from those of the earlier start")
        replacements = {}
        for leaf, old, new in zip(file_sources(query.reading.operators), before, now, strict=True):
            if old.content == new.content:
                continue
            changed = _changed(old, new)
            if changed is not None:
                return SourcesChanged(changed)
            replacements[leaf["i"]] = self._indexes.narrowed(
                query.reading.node(leaf["i"]), [file.path for file in old.files], old.partitions
            )
        if not replacements:
            return query
        restored = self._bridge.read(self._bridge.substitute(query, replacements))
        # What Spark makes of the files is compared, not what was meant.
        if [each.content for each in self._listings(restored)] != [each.content for each in before]:
            return SourcesChanged("the files are read differently than before")
        return restored

    def _listings(self, query: Query) -> list[SourceListing]:
        reading = query.reading
        unlisted = with_listings(reading.operators, lambda _, found: {**found, **_NOTHING_LISTED})
        context = SourceContext("", portable=True)
        return [
            SourceListing(
                source=_content(same, context),
                content=_content(leaf, context),
                roots=_roots(leaf),
                files=_files(leaf, context),
                partitions=self._indexes.partitions(reading.node(leaf["i"])),
            )
            for leaf, same in zip(
                file_sources(reading.operators), file_sources(unlisted), strict=True
            )
        ]


def _listed_before(now: SourceListing, listings: Sequence[SourceListing]) -> SourceListing:
    before = [each for each in reversed(listings) if each.is_of(now)]
    return max(before, key=lambda each: each.roots == now.roots, default=now)


def _listed(snapshot: object) -> list[object]:
    # Anything else is no listing, and told by the first thing that is missing.
    return snapshot if isinstance(snapshot, list) else [snapshot]


def _content(leaf: OperatorDocument, context: SourceContext) -> str:
    return hash_parts(canonical_source(leaf, context).content)


def _files(leaf: OperatorDocument, context: SourceContext) -> tuple[FileVersion, ...]:
    listing = file_listing(leaf)
    assert listing is not None
    return listed_files(listing["files"], context)


def _changed(old: SourceListing, new: SourceListing) -> str | None:
    """A file that isn't there any more as it was."""
    there = {file.path: file for file in new.files}
    for file in old.files:
        if file.path not in there:
            return f"{file.path} was removed"
        if there[file.path] != file:
            return f"{file.path} has changed"
    return None


def _roots(leaf: OperatorDocument) -> tuple[str, ...]:
    listing = file_listing(leaf)
    return tuple(sorted(listing["roots"])) if listing else ()

"""What is cached follows what Spark's commands do to its sources."""

from __future__ import annotations

import logging
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.errors import UnsupportedSparkError
from holdfast.runtime.wanted import CachedComputation
from holdfast.spark.cache_entries import cache_entries
from holdfast.spark.catalyst_bridge import CatalystBridge, Query

Computation = CachedComputation[Query]

# What Spark caches again is gone for a moment, in which another thread may look.
_MOST_GONE = 16

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Followed:
    computation: Computation
    table: weakref.ref[object]
    bridge: CatalystBridge
    is_gone: bool = False


class FollowedCaches:
    """An entry in Spark's cache for each computation that is cached, which no query matches.

    Spark caches again what reads a path or a table that it writes, with listings of files that it
    refreshes for that, and uncaches what reads a table or a view that is dropped or replaced.

    Safe for use by several threads.

    Args:
        spark: PySpark's own session.
        moved: given a digest, and the computation that is cached in its place.
        gone: given the digest of a computation that is cached no longer.
    """

    def __init__(
        self,
        spark: SparkSession,
        moved: Callable[[str, Computation], object],
        gone: Callable[[str], object],
    ) -> None:
        self._spark = spark
        self._moved = moved
        self._gone = gone
        self._in_jvm: Any = None
        # What the keys of its entries begin with, as other environments have some, too.
        self._owner = uuid.uuid4().hex
        self._followed: dict[str, _Followed] = {}

    @contextmanager
    def caching(self, plan: Any) -> Iterator[None]:
        """While it lasts, a plan that is going to be cached is read as it is when it is.

        Args:
            plan: the JVM's analyzed plan.
        """
        if self._in_jvm is None:
            try:
                self._in_jvm = cache_entries(self._spark)
            except UnsupportedSparkError as error:
                logger.debug("what Spark's commands do is not followed: %s", error)
                yield
                return
        key = self._key()
        self._in_jvm.watch(key, plan)
        try:
            yield
        finally:
            self._in_jvm.unwatch(key)

    def add(
        self, computation: Computation, table: object, bridge: CatalystBridge, session: Any
    ) -> None:
        """Follows a computation, unless it is followed for this table.

        Args:
            computation: read while it is `caching`.
            table: whose listings of files are to be refreshed; others have their own.
            bridge: reads plans of its session.
            session: the JVM's, which it is of.
        """
        if self._in_jvm is None:
            return
        known = self._of(computation.digest)
        if any(each.table() is table and not each.is_gone for each in known.values()):
            return
        key = self._key()
        self._followed[key] = _Followed(computation, weakref.ref(table), bridge)
        try:
            self._in_jvm.add(session, key, computation.query.written)
        except BaseException:
            self._followed.pop(key, None)
            raise
        self._remove([key for key, each in known.items() if each.is_gone or each.table() is None])

    def remove(self, digest: str) -> None:
        """Follows a computation no longer."""
        self._remove(self._of(digest))

    def close(self) -> None:
        """Follows nothing any more."""
        self._remove(dict(self._followed))

    def look(self) -> None:
        """Says what Spark's commands have done since the last time."""
        if not self._followed:
            return
        for line in str(self._in_jvm.changed(self._owner)).splitlines():
            key = line[1:]
            followed = self._followed.get(key)
            if followed is None:
                continue
            before = followed.computation
            if line[0] == "-":
                followed.is_gone = True
                self._gone(before.digest)
                continue
            query = followed.bridge.read(self._in_jvm.plan(key))
            followed.is_gone = False
            followed.computation = CachedComputation(
                query.root.digest, query, before.name, before.lifetime
            )
            self._moved(before.digest, followed.computation)
        gone = [key for key, each in dict(self._followed).items() if each.is_gone]
        self._remove(gone[:-_MOST_GONE])

    def _key(self) -> str:
        return f"{self._owner} {uuid.uuid4().hex}"

    def _of(self, digest: str) -> dict[str, _Followed]:
        followed = dict(self._followed).items()
        return {key: each for key, each in followed if each.computation.digest == digest}

    def _remove(self, keys: Iterable[str]) -> None:
        for key in keys:
            if self._followed.pop(key, None) is not None:
                with suppress(Py4JError, OSError):
                    self._in_jvm.remove(self._spark._jsparkSession, key)

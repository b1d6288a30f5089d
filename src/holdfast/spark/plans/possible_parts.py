"""Which plans need not be read, as nothing that is looked for can be a part of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.advice.asked_sources import AskedSources
from holdfast.errors import UnsupportedSparkError
from holdfast.spark.java_classes import new_object

# They are compared two and two.
_MOST_SOURCES = 50


class PossibleParts:
    """Computations that are looked for in plans. Safe for use by several threads.

    To tell that a plan has not all of the leaves of any of them takes one call of the JVM. To read
    it takes some hundred times as long.

    Args:
        spark: a classic session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lock = threading.RLock()
        self._known: set[str] = set()
        self._in_jvm: Any = None
        self._is_supported = True

    def look_for(self, plans: Mapping[str, Any]) -> None:
        """From now on these are looked for, and no others.

        Args:
            plans: the JVM's analyzed plans by a text that tells them apart.
        """
        if self._in_jvm is None and plans and self._is_supported:
            self._make()
        with self._lock:
            if self._in_jvm is None:
                return
            for name in self._known - plans.keys():
                self._in_jvm.remove(name)
            for name in plans.keys() - self._known:
                self._in_jvm.add(name, plans[name])
            self._known = set(plans)

    def _make(self) -> None:
        try:
            made = new_object(self._spark, "PossibleParts")
        except UnsupportedSparkError:
            self._is_supported = False
            return
        with self._lock:
            # Another thread may have made it meanwhile.
            self._in_jvm = self._in_jvm or made

    def may_be_in(self, query: DataFrame | Any) -> bool:
        """Whether any of them may be a part of a query.

        Args:
            query: a DataFrame, or an analyzed plan of the JVM.
        """
        if not self._is_supported:
            return True
        if self._in_jvm is None:
            return False
        if isinstance(query, DataFrame):
            return bool(self._in_jvm.mayBeInDataset(query._jdf))
        return bool(self._in_jvm.mayBeIn(query))

    def sources_of(self, query: DataFrame) -> AskedSources | None:
        """Roughly what a query reads, without reading its plan; None where that isn't known.

        Args:
            query: a DataFrame.
        """
        if self._in_jvm is None and self._is_supported:
            self._make()
        if self._in_jvm is None:
            return None
        text = str(self._in_jvm.sources(query._jdf))
        return AskedSources(text) if text.count(" ") <= _MOST_SOURCES else None

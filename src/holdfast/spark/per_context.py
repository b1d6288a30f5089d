"""One object for each Spark context, shared by all who ask."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import SparkSession

T = TypeVar("T")


class PerContext(Generic[T]):
    """Makes an object once for each Spark context. Safe for use by several threads.

    Args:
        make: makes it for any session of the context.
    """

    def __init__(self, make: Callable[[SparkSession], T]) -> None:
        self._make = make
        self._made: WeakKeyDictionary[SparkContext, T] = WeakKeyDictionary()
        self._lock = threading.RLock()

    def of(self, spark: SparkSession) -> T:
        """The object of `spark`'s context; others that ask meanwhile wait until it is made."""
        context = spark.sparkContext
        made = self._made.get(context)
        if made is not None:
            return made
        with self._lock:
            made = self._made.get(context)
            # While it is made, a finalizer of the user's may need it, too: the first one counts.
            return made if made is not None else self._made.setdefault(context, self._make(spark))

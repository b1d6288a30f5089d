"""The DataFrame that a query was last run as, with what Spark has made of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

from pyspark.sql.classic.dataframe import DataFrame


class LastRun:
    """Lends the DataFrame of a query's last job to the next one. Safe for use by several threads.

    Spark has planned it, and still has what its shuffles have written. One job has it at a time,
    and a job that fails doesn't give it back: Spark remembers of a DataFrame what has failed.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._free: tuple[Hashable, DataFrame] | None = None
        self._lent: WeakKeyDictionary[DataFrame, Hashable] = WeakKeyDictionary()

    @property
    def is_there(self) -> bool:
        """Whether there is one that nobody has at the moment."""
        return self._free is not None

    def lend(self, reads: Hashable, make: Callable[[], DataFrame]) -> DataFrame:
        """The last job's DataFrame, if that has read the same; otherwise a new one.

        Args:
            reads: what it reads, and in place of what.
            make: makes a new one.
        """
        with self._lock:
            free, self._free = self._free, None
        dataframe = free[1] if free is not None and free[0] == reads else make()
        with self._lock:
            self._lent[dataframe] = reads
        return dataframe

    def give_back(self, dataframe: DataFrame) -> None:
        """The job that it was lent to has succeeded. Does nothing with what wasn't lent.

        Args:
            dataframe: what the job has run.
        """
        with self._lock:
            reads = self._lent.pop(dataframe, None)
            if reads is not None:
                self._free = reads, dataframe

"""What the tasks of a tee say of their partitions, from those attempts alone that succeed."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition

from pyspark.accumulators import Accumulator, AccumulatorParam, _accumulatorRegistry
from pyspark.sql import SparkSession

from holdfast.streaming.tee import TeeReceipt

__all__ = ["TeeReceipts", "TeeReport"]

_POLL_S = 0.02


class _Listed(AccumulatorParam[list[TeeReceipt]]):
    """Receipts are added up to a list; this is the tasks' side of it."""

    def zero(self, value: list[TeeReceipt]) -> list[TeeReceipt]:
        return []

    def addInPlace(self, value1: list[TeeReceipt], value2: list[TeeReceipt]) -> list[TeeReceipt]:
        return value1 + value2


class _Heard(_Listed):
    """The driver's side: whoever waits for receipts is told of them."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.receipts: list[TeeReceipt] = []

    def addInPlace(self, value1: list[TeeReceipt], value2: list[TeeReceipt]) -> list[TeeReceipt]:
        with self.changed:
            self.receipts.extend(value2)
            self.changed.notify_all()
        return value1

    def __reduce__(self) -> tuple[type[_Listed], tuple[()]]:
        return _Listed, ()


class TeeReport:
    """The tasks' end.

    Args:
        accumulator: what Spark brings to the driver when an attempt has succeeded.
    """

    def __init__(self, accumulator: Accumulator[list[TeeReceipt]]) -> None:
        self._accumulator = accumulator

    def __call__(self, receipt: TeeReceipt) -> None:
        """Says how it went.

        Args:
            receipt: of this attempt.
        """
        self._accumulator.add([receipt])


class TeeReceipts:
    """The driver's end.

    Args:
        spark: the session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._heard = _Heard()
        self._accumulator: Accumulator[list[TeeReceipt]] = spark.sparkContext.accumulator(
            [], self._heard
        )
        self.report = TeeReport(self._accumulator)

    def wait(self, partitions: int, is_over: Callable[[], bool]) -> list[TeeReceipt]:
        """What has been said, once each partition has been spoken of, or nothing more will come.

        Args:
            partitions: how many there are.
            is_over: whether all tasks have ended; Spark brings what a task says before that is so.
        """
        while True:
            over = is_over()
            with self._heard.changed:
                if over or len(self._heard.receipts) >= partitions:
                    return list(self._heard.receipts)
                self._heard.changed.wait(_POLL_S)

    def count(self) -> int:
        """How many there are until now."""
        with self._heard.changed:
            return len(self._heard.receipts)

    def close(self) -> None:
        """Nobody wants to hear more. Does nothing the second time."""
        _accumulatorRegistry.pop(self._accumulator.aid, None)

"""What a user sees who interrupts an action."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from types import TracebackType
from typing import Any

from pyspark.sql import SparkSession

from holdfast.spark.interruptible import Interruptible

_END = object()


class InterruptibleAction(Interruptible):
    """A block that an interrupt leaves with a traceback that ends at the user's call.

    What it would show beyond is where in Spark, or in here, the program has waited.

    Source: Python's KeyboardInterrupt, which says where the user's program was.
    """

    __slots__ = ()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(exc_type, error, traceback)
        except KeyboardInterrupt as again:
            error = again
        if isinstance(error, KeyboardInterrupt):
            raise error.with_traceback(None) from None
        if error is not None and self.is_interrupted:
            # What PySpark has met while it cleared up after the interrupt.
            raise KeyboardInterrupt from None


def interruptible_rows(spark: SparkSession, rows: Any) -> Generator[Any, None, None]:
    """Rows whose jobs are cancelled where the user interrupts the wait for one.

    Args:
        spark: any session of the context that runs the jobs.
        rows: an iterator of them that can be closed, as generators can.
    """
    block = InterruptibleAction(spark, lasting=True)
    try:
        with closing(rows):
            while True:
                with block:
                    row = next(rows, _END)
                if row is _END:
                    return
                yield row
    finally:
        block.close()

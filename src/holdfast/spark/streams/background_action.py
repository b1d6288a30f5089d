"""An action of Spark's that runs while this thread takes what its tasks send."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from holdfast.spark.interruptible import current_block
from holdfast.spark.session_settings import tags_of_jobs

__all__ = ["BackgroundAction"]

_PATIENCE_S = 0.5
_JOIN_S = 30


class BackgroundAction:
    """Runs an action in a thread of its own; it can be cancelled.

    Args:
        spark: the session.
        action: starts Spark jobs.
        on_end: told in that thread that the action has ended, whatever has come of it.
    """

    def __init__(
        self, spark: SparkSession, action: Callable[[], object], on_end: Callable[[], object]
    ) -> None:
        self._context = spark.sparkContext
        self._tag = f"holdfast-{uuid.uuid4().hex}"
        self._tags = [self._tag, *tags_of_jobs(spark)]
        self._action = action
        self._on_end = on_end
        self._block = current_block()
        self._error: BaseException | None = None
        self._over = False
        self._thread = InheritableThread(target=self._run, name="holdfast-stream", daemon=True)
        self._thread.start()

    def is_over(self) -> bool:
        """Whether the action has ended.

        Raises:
            Exception: what it has failed with.
        """
        if self._error is not None:
            raise self._error
        return self._over

    def running_tasks(self) -> int:
        """The number of tasks that run of what this thread's block has started; 0 if unknown."""
        return 0 if self._block is None else self._block.running_tasks()

    def end(self) -> None:
        """Cancels the Spark jobs of the action if it has not ended, and waits for its end."""
        # Tasks that have been told so end by themselves, sooner than Spark would kill them.
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            self._context.cancelJobsWithTag(self._tag)
        self._thread.join(_JOIN_S)

    def _run(self) -> None:
        try:
            for tag in self._tags:
                self._context.addJobTag(tag)
            self._action()
            self._over = True
        except BaseException as error:
            self._error = error
        finally:
            self._on_end()

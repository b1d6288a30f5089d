"""How far the Spark jobs of a notebook's cell are, shown below the cell."""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_EVERY_S = 0.3

logger = logging.getLogger(__name__)


class CellProgress:
    """Shows the active stages of Spark while a cell runs, if that takes longer than a moment.

    Args:
        spark: The session whose jobs are shown.
        display: IPython's function of that name.
    """

    def __init__(self, spark: SparkSession, display: Callable[..., Any]) -> None:
        self._display = display
        self._tracker = spark.sparkContext.statusTracker()
        self._over = threading.Event()

    def begin(self, info: object = None) -> None:
        """Begins to look for jobs, in a thread of its own.

        Args:
            info: The cell, which doesn't matter.
        """
        self._over.set()
        self._over = threading.Event()
        # What is shown belongs to the cell that the context names.
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run, args=(self._watch, self._over), name="holdfast-cell", daemon=True
        )
        thread.start()

    def end(self, result: object = None) -> None:
        """The cell is over: nothing more is shown.

        Args:
            result: Of the cell, which doesn't matter.
        """
        self._over.set()

    def _watch(self, over: threading.Event) -> None:
        shown: Any = None
        since = time.monotonic()
        while not over.wait(_EVERY_S):
            try:
                text = self._text()
            except (Py4JError, OSError, AttributeError) as error:
                logger.debug("Spark doesn't tell of its jobs: %s", error)
                return
            if not text:
                continue
            bundle = {"text/plain": f"{text} ({time.monotonic() - since:.0f} s)"}
            if shown is None:
                shown = self._display(bundle, raw=True, display_id=True)
            else:
                shown.update(bundle, raw=True)
        if shown is not None:
            shown.update({"text/plain": f"Spark: {time.monotonic() - since:.1f} s"}, raw=True)

    def _text(self) -> str:
        stages = []
        for stage in sorted(self._tracker.getActiveStageIds()):
            info = self._tracker.getStageInfo(stage)
            if info is not None:
                stages.append(f"stage {stage}: {info.numCompletedTasks} of {info.numTasks} tasks")
        return "; ".join(stages)

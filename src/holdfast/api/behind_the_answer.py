"""What is produced while the user waits for nothing, and stops when the user asks for something."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.clientserver import ClientServer
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.spark.failures import is_cancelled
from holdfast.spark.interruptible import Interruptible

# A program that asks one query after the other is not idle in between.
_PAUSE_SECONDS = 0.5
_MOST_WAITING = 16
_MOST_TRIES = 3
# Where Spark shares its cores fairly, jobs of one pool wait for those that came before.
_POOL = "holdfast"

logger = logging.getLogger(__name__)


class _BusyError(Exception):
    """Spark runs something already."""


class BehindTheAnswer:
    """Productions that nobody waits for. Safe for use by several threads.

    One runs at a time, when no action has run for a moment, and it is cancelled by the next one.
    What is cancelled is tried again later, a few times. What fails is given up.

    Args:
        spark: the session whose Spark runs them.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._changed = threading.Condition()
        self._waiting: OrderedDict[str, Callable[[], None]] = OrderedDict()
        self._tries: dict[str, int] = {}
        self._answering = 0
        self._idle_since = time.monotonic()
        self._is_producing = False
        self._running: Interruptible | None = None
        self._is_cancelled = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    @contextmanager
    def answering(self) -> Iterator[None]:
        """An action runs inside, which has all cores for itself."""
        with self._changed:
            self._answering += 1
        self.give_way()
        try:
            yield
        finally:
            with self._changed:
                self._answering -= 1
                self._idle_since = time.monotonic()
                self._changed.notify_all()

    def give_way(self) -> None:
        """Something else is about to have Spark run."""
        with self._changed:
            self._idle_since = time.monotonic()
            running = self._running
            self._is_cancelled |= running is not None
        if running is not None:
            running.cancel()

    def offer(self, name: str, produce: Callable[[], None]) -> None:
        """Something is to be produced when there is time for it.

        Args:
            name: tells it from others.
            produce: does it; whatever it raises is logged.
        """
        with self._changed:
            if self._is_closed or name in self._waiting:
                return
            if self._tries.get(name, 0) >= _MOST_TRIES:
                return
            self._waiting[name] = produce
            while len(self._waiting) > _MOST_WAITING:
                self._waiting.popitem(last=False)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="holdfast-behind-the-answer", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def settle(self, patience_seconds: float) -> bool:
        """Waits until nothing is left to be produced; whether that is so."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._waiting and not self._is_producing, patience_seconds
            )

    def close(self) -> None:
        """What isn't produced by now is given up. Does nothing the second time."""
        with self._changed:
            self._is_closed = True
            self._waiting.clear()
            thread, running = self._thread, self._running
            self._is_cancelled = running is not None
            self._changed.notify_all()
        if running is not None:
            running.cancel()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        self._enter_pool()
        while True:
            found = self._next()
            if found is None:
                return
            name, produce = found
            try:
                with Interruptible(self._spark) as block:
                    self._begin(block)
                    if block.is_busy():
                        raise _BusyError
                    produce()
            except Exception as error:
                self._failed(name, produce, error)
            finally:
                with self._changed:
                    self._is_producing = False
                    self._running = None
                    self._changed.notify_all()

    def _enter_pool(self) -> None:
        """This thread's jobs hold up none of the program's, until they are stopped."""
        context = self._spark.sparkContext
        # Otherwise other threads' jobs are submitted by the JVM's same thread.
        if isinstance(context._gateway, ClientServer):
            try:
                context.setLocalProperty("spark.scheduler.pool", _POOL)
            except Py4JError as error:
                logger.debug("what is produced shares the program's pool: %s", error)

    def _next(self) -> tuple[str, Callable[[], None]] | None:
        """What is produced now, once the program has been idle for a while; None at the end."""
        with self._changed:
            while not self._is_closed:
                idle = time.monotonic() - self._idle_since
                if self._answering or not self._waiting:
                    self._changed.wait()
                elif idle < _PAUSE_SECONDS:
                    self._changed.wait(_PAUSE_SECONDS - idle)
                else:
                    # Whoever waits for it is not to take it for done before it has begun.
                    self._is_producing = True
                    return self._waiting.popitem(last=False)
        return None

    def _begin(self, block: Interruptible) -> None:
        with self._changed:
            self._running = block
            self._is_cancelled = self._answering > 0 or self._is_closed
            is_over = self._is_cancelled
        # A job of a session that isn't looked at wants the cores as well.
        block.give_way()
        if is_over:
            block.cancel()

    def _failed(self, name: str, produce: Callable[[], None], error: Exception) -> None:
        is_busy = isinstance(error, _BusyError)
        with self._changed:
            gives_way = self._is_cancelled or is_busy or is_cancelled(error)
            self._tries[name] = self._tries.get(name, 0) + (not is_busy)
            if gives_way and not self._is_closed and self._tries[name] < _MOST_TRIES:
                self._waiting[name] = produce
                self._idle_since = time.monotonic()
                logger.debug("%s gives way to what the program runs", name)
                return
            self._tries[name] = _MOST_TRIES
        logger.debug("%s is not produced behind the answer", name, exc_info=error)

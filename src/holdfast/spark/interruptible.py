"""Spark jobs that end with the Python call that has started them, also where that is interrupted.

An interrupt (Ctrl-C, a notebook's stop button, a signal handler that raises) ends Python's wait for
the JVM, and nothing there: the job would run on, write where its caller has cleared up already, and
have the next one wait for its cores. So what a block starts carries a label of its own, and a block
that is left by an interrupt has the jobs of its label cancelled, and waits for what they still do.

That costs one call of the JVM for each block (measured: a hundredth of a `count` of ten rows), as
the label is left behind when a block ends: the next block of the thread replaces it, and nobody
stops a label whose block is over. Tags of jobs would take a second call, and show.
"""

from __future__ import annotations

import _thread
import itertools
import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType, TracebackType
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.errors import UnsupportedSparkError
from holdfast.spark.java_classes import new_object
from holdfast.spark.per_context import PerContext

# What a thread sets goes with all its jobs, and with those of the threads that Spark starts for it.
LABEL = "holdfast.label"
_STOP_MS = 10_000
_TOLD_MS = 2_000
# A Python worker has two seconds to end after its task was killed.
_TASKS_END_MS = 5_000
# A function of the user's may take long for one row, which nothing ends before.
_ZOMBIES_END_MS = 60_000
# Py4J logs an interrupt with its traceback, twice, although it raises it; and once more where a
# handler of PySpark's has asked the JVM something in the middle of a call.
_PY4J_SAYS = {
    "root": {"KeyboardInterrupt while sending command."},
    "py4j.clientserver": {"Exception occurred while shutting down connection"},
}
_PY4J_SAYS_IN_HANDLERS = {"root": {"Exception while sending command."}}

logger = logging.getLogger(__name__)


class Interruptible:
    """A block whose Spark jobs are cancelled where an interrupt leaves it.

    Jobs that this thread starts inside count, and those of the threads that Spark starts for them.
    What ends the block then is the interrupt, after at most ten seconds; another interrupt
    meanwhile is obeyed at once.

    Blocks may be nested. One that lasts is entered for each step of an iterator, which may have
    started its jobs at the first one, and is closed.

    Args:
        spark: any session of the context that runs the jobs.
        lasting: it is entered again.

    Attributes:
        label: that of its jobs; None where the JVM can't tell them by it.
        is_interrupted: a signal's handler has raised; what comes of that may be another error.

    Example:
        >>> with Interruptible(spark):
        ...     spark.range(3).count()
        3
    """

    __slots__ = (
        "_is_stopped",
        "_jobs",
        "_lasting",
        "_previous",
        "_spark",
        "_without_warnings",
        "is_interrupted",
        "label",
    )

    def __init__(self, spark: SparkSession, *, lasting: bool = False) -> None:
        self._spark = spark
        self._lasting = lasting
        self._jobs: Any = None
        self._is_stopped = False
        self._previous: Callable[[int, FrameType | None], object] | None = None
        self._without_warnings: warnings.catch_warnings[Any] | None = None
        self.is_interrupted = False
        self.label: str | None = None

    def __enter__(self) -> Interruptible:
        if self.label is None:
            self._begin()
        if self.label is not None and not _here.blocks:
            self._listen()
        _here.blocks.append(self)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if is_interrupt(error) or (error is not None and self.is_interrupted):
                self.stop()
        finally:
            self._listen_no_more()
            _here.blocks.remove(self)
            if not self._lasting:
                self.close()
            if _here.blocks:
                _here.blocks[-1]._resume()

    @property
    def jobs(self) -> Any:
        """What knows in the JVM of the jobs of labels; only where there is a label."""
        return self._jobs

    def stop(self) -> None:
        """Cancels the jobs, and waits until nothing of them goes on. Does nothing a second time."""
        if self._is_stopped:
            return
        # Whoever interrupts the wait is not to wait again for what is around this block.
        for block in _here.blocks:
            block._is_stopped = True
        self._is_stopped = True
        if self.label is None:
            return
        try:
            try:
                over = self._jobs.stop(self.label, _STOP_MS)
            except Py4JNetworkError:
                # Where the interrupt has ended a call, the next connection may be ended as well.
                over = self._jobs.stop(self.label, _STOP_MS)
        except Py4JError as error:
            logger.debug("the jobs of what was interrupted can't be cancelled: %s", error)
        else:
            if not over:
                logger.warning("tasks of a job that was interrupted still run")

    def cancel(self) -> None:
        """Cancels the jobs, also those that are still to start. May be called by any thread."""
        if self.label is not None:
            _cancel([(self._jobs, self.label)])

    def give_way(self) -> None:
        """From now on the jobs are cancelled as soon as one starts that isn't the block's."""
        if self.label is not None:
            _asked(lambda: self._jobs.giveWay(self.label))

    def is_busy(self) -> bool:
        """Whether Spark runs any job, whoever has started it; not where that isn't known."""
        return self.label is not None and bool(self._jobs.isBusy())

    def running_tasks(self) -> int:
        """The number of tasks of the block's jobs that run; 0 where that isn't known."""
        if self.label is None:
            return 0
        try:
            return int(self._jobs.runningTasks(self.label, _TOLD_MS))
        except Py4JError as error:
            logger.debug("it isn't known how many tasks run: %s", error)
            return 0

    def close(self) -> None:
        """It is not entered again."""
        if self.label is not None:
            _here.over.append((self._jobs, self.label))

    def _begin(self) -> None:
        self._jobs = jobs = _jobs.of(self._spark)
        label = f"{os.getpid()}-{next(_numbers)}"
        if jobs is not None and _asked(lambda: jobs.begin(label, _here.labels_over(jobs))):
            self.label = label

    def _listen(self) -> None:
        """PySpark may hold an interrupt back until the job is over, as it does in `toPandas`."""
        if threading.current_thread() is threading.main_thread():
            previous = signal.getsignal(signal.SIGINT)
            if callable(previous):
                self._previous = previous
                signal.signal(signal.SIGINT, self._interrupted)

    def _listen_no_more(self) -> None:
        previous, self._previous = self._previous, None
        if previous is not None and signal.getsignal(signal.SIGINT) == self._interrupted:
            signal.signal(signal.SIGINT, previous)
        if self._without_warnings is not None:
            self._without_warnings.__exit__(None, None, None)
            self._without_warnings = None

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        previous = self._previous or signal.default_int_handler
        _here.in_handler = True
        try:
            previous(number, frame)
        except BaseException:
            if not self.is_interrupted:
                self.is_interrupted = True
                # PySpark warns of the error that comes of it, with a page of Java.
                self._without_warnings = warnings.catch_warnings()
                self._without_warnings.__enter__()
                warnings.simplefilter("ignore")
            labels = [(each._jobs, each.label) for each in _here.blocks if each.label is not None]
            # This thread's own connection may be in the middle of a call, and `Thread.start` takes
            # locks that it may hold.
            _thread.start_new_thread(_cancel, (labels,))
            raise
        finally:
            _here.in_handler = False

    def _resume(self) -> None:
        """A block inside is over: the jobs that follow are this one's again."""
        if self.label is not None:
            _asked(lambda: self._jobs.resume(self.label, _here.labels_over(self._jobs)))


class _Here(threading.local):
    """The blocks that a thread is in, outer ones first, and the labels of those that are over."""

    def __init__(self) -> None:
        self.blocks: list[Interruptible] = []
        self.over: list[tuple[Any, str]] = []
        self.in_handler = False

    def labels_over(self, jobs: Any) -> str:
        over, self.over = self.over, []
        return " ".join(label for known_by, label in over if known_by is jobs)


_here = _Here()
_numbers = itertools.count()


@contextmanager
def over_before_clearing() -> Iterator[None]:
    """Nothing writes any more when an error leaves this: what was written may be cleared away.

    A stage that fails ends its job while other tasks still run; an interrupt ends not even the job.
    """
    try:
        yield
    except BaseException as error:
        block = current_block()
        if block is not None and is_interrupt(error):
            block.stop()
        # After any other error nothing is written any more, be it that a job still answers.
        elif block is not None and isinstance(error, (PySparkException, Py4JError)):
            _are_over(block, _TASKS_END_MS)
        raise


def are_tasks_over() -> bool:
    """Waits until no task runs that this thread's block has started, of jobs that failed as well.

    Such a task may still put files in place where the same is about to be written once more.

    Returns:
        whether none does, after at most a minute; outside of blocks there is nothing to wait for.
    """
    block = current_block()
    return block is None or _are_over(block, _ZOMBIES_END_MS)


def current_block() -> Interruptible | None:
    """The innermost block that this thread is in."""
    return _here.blocks[-1] if _here.blocks else None


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error says nothing of what was done: it was to end.

    Args:
        error: any.

    Example:
        >>> is_interrupt(KeyboardInterrupt()), is_interrupt(ValueError()), is_interrupt(None)
        (True, False, False)
    """
    # A generator that is closed may have jobs that others wait for.
    return error is not None and not isinstance(error, (Exception, GeneratorExit))


def _cancel(labels: list[tuple[Any, str]]) -> None:
    for jobs, label in labels:
        _asked(partial(jobs.cancel, label))


def _asked(call: Callable[[], object]) -> bool:
    """Whether the JVM has done something."""
    try:
        call()
    except Py4JError as error:
        logger.debug("Spark jobs can't be told by labels: %s", error)
        return False
    return True


def _are_over(block: Interruptible, patience_ms: int) -> bool:
    if block.label is None:
        return False
    try:
        over = bool(block.jobs.awaitTasks(block.label, patience_ms))
    except Py4JError as error:
        logger.debug("it isn't known whether tasks still run: %s", error)
        return False
    if not over:
        logger.debug("tasks of a job that has failed still run")
    return over


def _is_to_be_seen(record: logging.LogRecord) -> bool:
    if not _here.blocks:
        return True
    unseen = _PY4J_SAYS.get(record.name, set())
    if _here.in_handler:
        unseen = unseen | _PY4J_SAYS_IN_HANDLERS.get(record.name, set())
    return record.msg not in unseen


def _made(spark: SparkSession) -> Any:
    """What knows of the jobs of labels; None where nothing can."""
    context: Any = spark.sparkContext
    if context._jsc is None:
        return None
    try:
        jobs = new_object(spark, "LabelledJobs", context._jsc.sc(), LABEL)
    except UnsupportedSparkError as error:
        logger.warning("interrupts don't cancel Spark jobs: %s", error)
        return None
    try:
        new_object(spark, "InterruptedLog", jobs.why())
    except UnsupportedSparkError as error:
        logger.debug("Spark logs errors of what was interrupted: %s", error)
    for name in _PY4J_SAYS:
        logging.getLogger(name).addFilter(_is_to_be_seen)
    return jobs


_jobs = PerContext(_made)

"""The Spark session that the demo starts, and stops."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.cli.demo.errors import DemoError

T = TypeVar("T")

_LOOPBACK = "127.0.0.1"
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_MIB_PER_GIB = 1024
_SHOWN_LOG_LINES = 8
_SECONDS_BETWEEN_CANCELLATIONS = 0.2


def local_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Starts a session on this machine's cores.

    Args:
        settings: further ones of Spark's.
    """
    before = os.environ.get("SPARK_LOCAL_IP")
    # The JVM takes it from the environment it is started in.
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    try:
        return (
            SparkSession.builder.appName("holdfast demo")
            .master("local[*]")
            .config("spark.driver.memory", f"{driver_memory_mib()}m")
            .config("spark.driver.bindAddress", _LOOPBACK)
            .config("spark.driver.host", _LOOPBACK)
            .config("spark.pyspark.python", sys.executable)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "ERROR")
            .config(map=dict(settings or {}))
            .getOrCreate()
        )
    finally:
        if before is None:
            del os.environ["SPARK_LOCAL_IP"]
        else:
            os.environ["SPARK_LOCAL_IP"] = before


@contextmanager
def demo_session(
    log: Path, start: Callable[[], SparkSession] = local_session
) -> Iterator[SparkSession]:
    """A session that is stopped at the end of the block.

    Args:
        log: the file that takes what Spark's JVM writes to its standard error.
        start: starts it.

    Raises:
        DemoError: when Spark doesn't start.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        spark = _started(log, start)
        try:
            spark.sparkContext.setLogLevel("ERROR")
            yield spark
        finally:
            _on_interrupt(signal.SIG_IGN)
            spark.stop()
    finally:
        _on_interrupt(before)


def run_interruptibly(spark: SparkSession, work: Callable[[threading.Event], T]) -> T:
    """Does something with Spark that Ctrl-C ends: its jobs are cancelled, and it is waited for.

    It runs on a thread of its own. Signals reach the main thread, and a call to the JVM that is
    interrupted half-way would leave its answer to the thread's next call.

    Args:
        spark: the session that it works with.
        work: what to do; it is given what is set after Ctrl-C.

    Returns:
        what it returns.

    Raises:
        KeyboardInterrupt: after Ctrl-C, when the work has ended.
    """
    interrupted = threading.Event()
    with ThreadPoolExecutor(1, "holdfast-demo") as pool:
        doing = pool.submit(work, interrupted)
        try:
            return doing.result()
        except KeyboardInterrupt:
            _on_interrupt(signal.SIG_IGN)
            interrupted.set()
            while not doing.done():
                spark.sparkContext.cancelAllJobs()
                wait([doing], timeout=_SECONDS_BETWEEN_CANCELLATIONS)
            raise


def _on_interrupt(handler: Any) -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)


def driver_memory_mib() -> int:
    """A quarter of this machine's memory, at least 1 GiB and at most 4."""
    return _some_gib(_memory_mib() // 4)


def cluster_memory_mib(executors: int) -> int:
    """What a driver and each of its executors get of half of this machine's memory, as equals.

    Args:
        executors: how many there are.
    """
    return _some_gib(_memory_mib() // 2 // (executors + 1))


def _some_gib(mib: int) -> int:
    return min(max(mib, _MIB_PER_GIB), 4 * _MIB_PER_GIB)


def _memory_mib() -> int:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no limit is written as a word
        memory = min(memory, int(_CGROUP_LIMIT.read_text()))
    return memory // 2**20


def _started(log: Path, start: Callable[[], SparkSession]) -> SparkSession:
    try:
        with _standard_error_to(log):
            return start()
    except (PySparkException, Py4JError, OSError) as error:
        raise DemoError(
            f"Spark failed to start: {error}\nIt needs Java 17 or later, at JAVA_HOME or on the "
            f"PATH. The end of {log}:\n{end_of_log(log)}"
        ) from error


@contextmanager
def _standard_error_to(path: Path) -> Iterator[None]:
    """Gives the processes that are started in the block another standard error."""
    sys.stderr.flush()
    mine = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(mine, 2)
        os.close(mine)


def end_of_log(log: Path) -> str:
    """The last lines of a log, indented; nothing where there is none."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(f"  {line}" for line in lines[-_SHOWN_LOG_LINES:])

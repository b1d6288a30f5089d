"""Whether memory grows with the number of records: a tenth of them pass, then all of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.datastream.jobs import Streams, check
from benchmarks.datastream.session import PARALLELISM
from holdfast import Environment

DRIVER, JVM, WORKER = "the driver's Python", "the JVM", "a Python worker"
_SECONDS = 0.05
_KIBIBYTE = 1024


@dataclass
class Peaks:
    """The most resident memory of a process, by what the process is.

    Attributes:
        records: how many have passed.
        bytes: of the largest process of each kind.
    """

    records: int
    bytes: dict[str, int] = field(default_factory=dict)


def measure(
    spark: SparkSession, home: Path, records: int, tell: Callable[[str], None]
) -> tuple[Peaks, Peaks]:
    """The peaks of a tenth of the records, and of all of them; each kept, then read again.

    Args:
        spark: a session whose JVM has taken its heap already.
        home: where results are kept.
        records: how many integers.
        tell: is told how far it has got.
    """
    configuration = {"intermediate-result-storage.directory": str(home / "kept")}
    with Environment(spark, config=configuration) as environment:
        environment.set_parallelism(PARALLELISM)
        way = Streams(environment)
        tenth, all_ = Peaks(records // 10), Peaks(records)
        # What is loaded and compiled but once is so before the counting begins.
        _pass(way, tenth.records)
        for peaks in (tenth, all_):
            tell(f"{peaks.records:,} records pass")
            with _sampled(peaks):
                _pass(way, peaks.records)
    return tenth, all_


def _pass(way: Streams, records: int) -> None:
    kept = way.keep(records)
    for _ in range(2):
        check(way.sum_up(kept), records)
    way.drop(kept)


@contextmanager
def _sampled(peaks: Peaks) -> Iterator[None]:
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(_SECONDS):
            for kind, resident in _processes():
                peaks.bytes[kind] = max(resident, peaks.bytes.get(kind, 0))

    thread = threading.Thread(target=sample, name="memory samples", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _processes() -> Iterator[tuple[str, int]]:
    """This process and all that descend from it, with what they hold."""
    statuses = {pid: status for pid in _pids() if (status := _status(pid)) is not None}
    family = {os.getpid()}
    # A parent may have a greater number than its child.
    while found := {
        pid
        for pid, status in statuses.items()
        if pid not in family and int(status.get("PPid", 0)) in family
    }:
        family |= found
    for pid in family & statuses.keys():
        kind = DRIVER if pid == os.getpid() else _kind(pid)
        if kind is not None:
            yield kind, int(statuses[pid].get("VmRSS", "0 kB").split()[0]) * _KIBIBYTE


def _kind(pid: int) -> str | None:
    """What a process is; None for one that the JVM is about to start something else in."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return None
    if b"pyspark.daemon" in command:
        return WORKER
    return JVM if b"org.apache.spark.deploy.SparkSubmit" in command else None


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _status(pid: int) -> dict[str, str] | None:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended meanwhile
        return None
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)

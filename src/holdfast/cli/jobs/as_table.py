"""What `holdfast jobs` shows to people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console

from holdfast.cli.jobs.progress import Progress
from holdfast.cli.terminal import UNKNOWN, age, as_text, plain_table, show
from holdfast.highavailability.job_listing import JobState, KnownJob
from holdfast.highavailability.job_record import JobRecord

_DIGITS = 8
_MEANING = {
    JobState.RECOVERABLE: "recoverable: resumes when its program is restarted",
    JobState.ENDED: "ended: not rerun until its program has ended",
    JobState.DAMAGED: "damaged: its record is unreadable, it will rerun from scratch",
}

_TASKS = "TASKS: completed shuffle map tasks that need not be rerun"


def show_jobs(console: Console, jobs: Sequence[KnownJob], now: datetime, root: Path) -> None:
    """Shows a row for each job.

    Args:
        console: where to.
        jobs: which ones.
        now: ages are counted from here.
        root: the storage directory.
    """
    digits = _digits(jobs)
    progresses = [Progress.of(job.record) for job in jobs]
    of_shuffles = any(progress.map_tasks_done is not None for progress in progresses)
    table = plain_table()
    table.add_column("ID", no_wrap=True)
    table.add_column("NAME", overflow="fold")
    table.add_column("STATE", no_wrap=True)
    shown_tasks = ("TASKS",) if of_shuffles else ()
    for name in ("VERTICES", "PARTS", *shown_tasks, "AGE", "STARTS", "EPOCH"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("DRIVER", overflow="fold")
    for job, progress in zip(jobs, progresses, strict=True):
        record = job.record
        row = [
            job.job_id.hex[:digits],
            _name(record),
            job.state.value,
            _of_all(progress.vertices_done, progress.vertices),
            _of_all(progress.partitions_done, progress.partitions),
            *([_number(progress.map_tasks_done)] if of_shuffles else []),
            age(None if record is None else record.begun, now),
            UNKNOWN if record is None else str(record.starts),
            str(job.epoch),
            UNKNOWN if record is None else f"{record.driver.pid} on {record.driver.host}",
        ]
        table.add_row(*map(as_text, row))
    show(console, table)
    for state in dict.fromkeys(job.state for job in jobs):
        if state in _MEANING:
            show(console, as_text(_MEANING[state]))
    if of_shuffles:
        show(console, as_text(_TASKS))
    show(console, as_text(f"in {root}"))


def _name(record: JobRecord | None) -> str:
    if record is None:
        return UNKNOWN
    status = record.job_status
    return record.name if status is None else f"{record.name} ({status.value.lower()})"


def _number(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _of_all(done: int, number: int | None) -> str:
    """`3/8`; `-` of nothing, and `?` for what isn't decided yet."""
    if number == 0:
        return UNKNOWN
    return f"{done}/{'?' if number is None else number}"


def _digits(jobs: Sequence[KnownJob]) -> int:
    """So many that no two jobs look the same."""
    ids = [job.job_id.hex for job in jobs]
    longest = max(map(len, ids))
    return next(
        (
            length
            for length in range(_DIGITS, longest)
            if len({i[:length] for i in ids}) == len(ids)
        ),
        longest,
    )

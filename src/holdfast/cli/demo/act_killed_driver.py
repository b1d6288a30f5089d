"""Act 3: a driver is killed, and its job goes on when it is started again."""

from __future__ import annotations

import shlex
import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.cli.amounts import count, seconds
from holdfast.cli.demo.driver_home import DriverHome
from holdfast.cli.demo.driver_process import DriverProcess
from holdfast.cli.demo.driver_report import DriverReport
from holdfast.cli.demo.job_report import show_job_result
from holdfast.cli.demo.large_orders import TITLE
from holdfast.cli.demo.stage import Stage
from holdfast.cli.jobs.as_table import show_jobs
from holdfast.cli.jobs.progress import Progress
from holdfast.highavailability.job_listing import JobState, known_jobs

_VERTICES_TO_BE_DONE = 2
_ATTEMPTS = 3
_SECONDS_BETWEEN_LOOKS = 0.01

_MEASURED = """\
The program is a separate driver: a process with Spark, on all cores of this machine. Its joins
shuffle, and execution.batch.job-recovery.min-vertex-input is a sixth of lineitem, so that it keeps
results of small data too. The program's time is that of its process, including the start of Spark;
the job's time is from building the query until the rows are written, in a new JVM.\
"""


@dataclass(frozen=True)
class _Ended:
    """A driver that has come to its end by itself."""

    report: DriverReport
    seconds: float
    rows: pa.Table


def play(stage: Stage, data: Path, output: Path) -> bool | None:
    """Starts a driver, kills it, and starts it again.

    Args:
        stage: shows what happens.
        data: the folder of TPC-H's tables.
        output: the folder for everything that the demo leaves behind.

    Returns:
        whether the rows are those of plain Spark, each once; None where each driver was done
        before it was killed.

    Raises:
        DemoError: when a driver fails.
    """
    stage.headline("Act 3: the driver is killed")
    stage.say(f"The job: {TITLE}, written as Parquet")
    stage.say(_MEASURED, style="dim")
    home = Path(tempfile.mkdtemp(prefix="driver-", dir=output))
    try:
        return _play(stage, data, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _play(stage: Stage, data: Path, folder: Path) -> bool | None:
    plain = _run(stage, "plain Spark", data, DriverHome(folder / "plain"), plain=True)
    stage.say(f"On plain Spark: {_described(plain)}")
    for attempt in range(_ATTEMPTS):
        home = DriverHome(folder / f"recovered-{attempt}")
        if not _kill_half_way(stage, data, home):
            stage.say("The job finished before it was killed, so there is nothing to recover.")
            continue
        _show_jobs(stage, home)
        again = _run(stage, "started again", data, home)
        same = _are_same(plain.rows, again.rows)
        stage.say(
            f"Started again: {'the same rows' if same else 'OTHER ROWS'}, {_described(again)}",
            style="green" if same else "bold red",
        )
        if again.report.seconds >= plain.report.seconds:
            stage.say("That is no faster than a rerun on plain Spark, because this job is short.")
        show_job_result(stage, again.report.result)
        _show_jobs(stage, home)
        return same
    return None


def _kill_half_way(stage: Stage, data: Path, home: DriverHome) -> bool:
    """Whether there was a job left to be killed when some of its vertices were done."""
    with (
        stage.progress("to be killed", _VERTICES_TO_BE_DONE) as progress,
        DriverProcess(data, home) as driver,
    ):
        progress.now("with job recovery")
        while driver.runs:
            done, began = _reached(home)
            progress.reached(done)
            if began is None or done < _VERTICES_TO_BE_DONE:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
                continue
            lived, worked = driver.seconds, datetime.now(timezone.utc) - began
            if not driver.kill():
                break
            stage.say(
                f"Killed with -9: the driver, {seconds(lived)} old and "
                f"{seconds(worked.total_seconds())} into its job, of which "
                f"{done} vertices were done"
            )
            return True
        driver.wait()
    return False


def _reached(home: DriverHome) -> tuple[int, datetime | None]:
    """How many vertices are done of a job that isn't, and when it was started."""
    if home.jobs.exists():
        for job in known_jobs(home.jobs):
            if job.record is not None and job.state is JobState.RUNNING:
                return Progress.of(job.record).vertices_done, job.record.started
    return 0, None


def _run(stage: Stage, how: str, data: Path, home: DriverHome, *, plain: bool = False) -> _Ended:
    with stage.progress(how, 1) as progress, DriverProcess(data, home, plain=plain) as driver:
        progress.now("a driver of its own")
        report = driver.wait()
        took = driver.seconds
    return _Ended(report, took, pq.read_table(home.rows))


def _described(ended: _Ended) -> str:
    return (
        f"{count(ended.rows.num_rows, 'row')}; the job took {seconds(ended.report.seconds)}, "
        f"its program {seconds(ended.seconds)}"
    )


def _are_same(one: pa.Table, other: pa.Table) -> bool:
    """Whether rows are the same, whatever their order, decimals to the last digit."""
    return one.schema.equals(other.schema) and _sorted(one) == _sorted(other)


def _sorted(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def _show_jobs(stage: Stage, home: DriverHome) -> None:
    stage.say(f"$ holdfast jobs --storage-dir {shlex.quote(str(home.jobs))}")
    jobs = known_jobs(home.jobs)
    if jobs:
        show_jobs(stage.console, jobs, datetime.now(timezone.utc), home.jobs)
    else:
        stage.say(f"No jobs are recorded in {home.jobs}.")

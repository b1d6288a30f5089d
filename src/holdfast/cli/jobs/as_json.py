"""The format of `--json`, which is stable: keys may be added, but never change their meaning.

The command prints a list of objects. Numbers are plain, times are in ISO 8601, and null means
unknown. An object has

    id                    32 digits
    name                  the name of the job
    state                 running, recoverable (its driver has died), ended (kept until its program
                          ends, so that it is not rerun); or damaged: it reruns from scratch
    status                how it ended: FINISHED, FAILED or CANCELED
    action, sink          what is done with the result, and where it is written to
    epoch                 of its newest start
    starts                how many starts it had
    begun                 when the first one was
    started               when the newest one was
    ended                 when it ended
    age_seconds           since the first start
    driver                object of host and pid
    driver_lives          whether the driver is alive
    vertices_done         how many of its vertices are finished
    vertices_all          how many vertices it has
    partitions_done       how many of their partitions are finished
    partitions_all        how many partitions they have; null until known for each vertex
    map_tasks_done        how many shuffle map tasks are finished and their output kept; null if
                          none is, or if unknown because it is on another machine
    vertices              objects of dataset (64 digits), name, partitions_done, partitions_all
    task_executors        those that may hold partitions
    directory             the directory of its record
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdfast.cli.jobs.progress import Progress
from holdfast.highavailability.job_listing import KnownJob
from holdfast.highavailability.job_record import JobRecord


def listed(job: KnownJob, now: datetime) -> dict[str, Any]:
    """An object of `jobs`."""
    record = job.record
    return {
        "id": job.job_id.hex,
        "name": None if record is None else record.name,
        "state": job.state.value,
        "status": None if record is None or record.job_status is None else record.job_status.value,
        "action": None if record is None else record.identity.action,
        "sink": None if record is None else record.identity.sink,
        "epoch": job.epoch,
        "starts": None if record is None else record.starts,
        "begun": None if record is None else record.begun.isoformat(),
        "started": None if record is None else record.started.isoformat(),
        "ended": None if record is None or record.ended is None else record.ended.isoformat(),
        "age_seconds": None if record is None else (now - record.begun).total_seconds(),
        "driver": None if record is None else record.driver.model_dump(),
        "driver_lives": job.driven,
        **_progress(record),
        "task_executors": [] if record is None else list(record.task_executors),
        "directory": str(job.directory),
    }


def _progress(record: JobRecord | None) -> dict[str, Any]:
    progress = Progress.of(record)
    vertices = () if record is None else record.vertices.items()
    return {
        "vertices_done": progress.vertices_done,
        "vertices_all": progress.vertices,
        "partitions_done": progress.partitions_done,
        "partitions_all": progress.partitions,
        "map_tasks_done": progress.map_tasks_done,
        "vertices": [
            {
                "dataset": dataset,
                "name": vertex.name,
                "partitions_done": vertex.done,
                "partitions_all": vertex.all,
            }
            for dataset, vertex in vertices
        ],
    }

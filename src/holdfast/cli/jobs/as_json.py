"""The form of `--json`, which stays as it is: keys may be added, and mean the same for ever.

The command prints a list of objects. Numbers are plain, times are in ISO 8601, and null stands
where something isn't known. An object has

    id                    32 digits
    name                  what people see
    state                 running, recoverable (its driver is gone), ended (kept until its program
                          ends, lest it is done again); or damaged: it starts anew
    status                how it ended: FINISHED, FAILED or CANCELED
    action, sink          what is done with the result, and where it is written to
    epoch                 of its newest start
    starts                how many starts it had
    begun                 when the first one was
    started               when the newest one was
    ended                 when it ended
    age_seconds           since the first start
    driver                object of host and pid
    driver_lives          whether it does
    vertices_done         how many of its vertices are there
    vertices_all          of how many
    partitions_done       how many partitions of those are there
    partitions_all        of how many; null while that isn't decided for each vertex
    map_tasks_done        how many map tasks of its shuffles are done, whose output is kept; null
                          where none is, or that can't be told, as it lies on another machine
    vertices              objects of dataset (64 digits), name, partitions_done, partitions_all
    task_executors        those that may hold partitions
    directory             where this is recorded
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

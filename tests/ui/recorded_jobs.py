"""Jobs in a storage directory, as drivers that have died and live leave them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    JobStatus,
)
from holdfast.eventstore.replay import replay
from holdfast.eventstore.store import JobEventStore
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.highavailability.job_record import VertexProgress
from holdfast.ids import IntermediateDataSetID, JobVertexID

DATASET = "1" * 64
PARTITIONS = 8


NIGHTLY = JobIdentity(digest=DATASET, action="collect", sink=None)


@contextmanager
def record_jobs(root: Path) -> Iterator[HighAvailabilityStorage]:
    """Records two: `nightly`, that was killed twice, with 3 and 2 of 8 partitions, and `hourly`."""
    storage = HighAvailabilityStorage(root)
    for number, subtasks in enumerate((range(3), range(3, 5))):
        start = storage.begin(NIGHTLY, "nightly")
        vertex = JobVertexID(f"{number:032x}")
        position = replay(start.events_directory).position
        with JobEventStore(start.events_directory, start.epoch, position) as store:
            dataset = IntermediateDataSetID(DATASET)
            store.write_event(ExecutionJobVertexInitialized(vertex, PARTITIONS, dataset))
            for subtask in subtasks:
                store.write_event(ExecutionVertexFinished(vertex, subtask, 0))
        done = VertexProgress(name="Join over orders, lineitem", done=subtasks.stop, all=PARTITIONS)
        start.update(vertices={DATASET: done})
        start.let_go()
    storage.begin(NIGHTLY.model_copy(update={"occurrence": 1}), "hourly")
    try:
        yield storage
    finally:
        storage.close()


def resume_nightly(storage: HighAvailabilityStorage) -> None:
    """Another driver begins with it."""
    storage.begin(NIGHTLY, "nightly")


def record_many(root: Path, number: int) -> None:
    """Records jobs that have ended, in a moment: all but one are copies of it."""
    storage = HighAvailabilityStorage(root)
    start = storage.begin(NIGHTLY, "job 0")
    done = VertexProgress(name="Join", done=PARTITIONS, all=PARTITIONS)
    start.update(vertices={DATASET: done})
    start.end(JobStatus.FINISHED, keep=True)
    first = start.directory
    for place in range(1, number):
        job_id = f"{place:032x}"
        copy = root / f"job-{job_id}"
        shutil.copytree(first, copy)
        for record in copy.glob("record-*"):
            text = record.read_text(encoding="utf-8")
            text = text.replace(start.job_id.hex, job_id).replace('"job 0"', f'"job {place}"')
            record.write_text(text, encoding="utf-8")
    storage.close()

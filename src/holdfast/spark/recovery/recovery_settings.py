"""How the jobs of an environment are recovered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from holdfast.graph.plan_cuts import CutLimits


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """How jobs are recovered.

    Attributes:
        name: what the person calls the program's jobs; None where they are known by their digest.
        limits: where plans are worth cutting, if what can be kept beside cuts turns out to be;
            None where they are not cut.
        write_buffer_size: in bytes; `job-event.store.write-buffer.size`.
        flush_interval: `job-event.store.write-buffer.flush-interval`.
        after_errors: `execution.batch.job-recovery.after-errors`.
        snapshot_min_pause: `execution.batch.job-recovery.operator-coordinator-snapshot.min-pause`.
        task_time: `execution.batch.job-recovery.task-time`.
    """

    name: str | None
    limits: CutLimits | None
    write_buffer_size: int
    flush_interval: timedelta
    after_errors: bool
    snapshot_min_pause: timedelta
    task_time: timedelta

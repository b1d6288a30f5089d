"""Waits for the task executors that a job's earlier start knew to come back."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from threading import Condition, Event, Thread
from time import monotonic

from holdfast.errors import StaleEpochError, StorageError, TaskExecutorError
from holdfast.runtime.recovery.recovery_connection import RecoveryConnection

POLL_SECONDS = 0.2

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Answers:
    """What executors have said so far: by name, None once they are connected."""

    changed: Condition = field(default_factory=Condition)
    failures: dict[str, Exception | None] = field(default_factory=dict)
    given_up: Event = field(default_factory=Event)

    def note(self, name: str, failure: Exception | None) -> None:
        with self.changed:
            self.failures[name] = failure
            self.changed.notify_all()

    def have_answered(self, names: Collection[str]) -> bool:
        return all(self.failures.get(name, self) is None for name in names)


def await_previous_workers(
    connections: Sequence[RecoveryConnection], wait_for: Collection[str], timeout_seconds: float
) -> dict[str, Exception]:
    """Connects to task executors, and waits for those that have been known before.

    The others are waited for until each has been asked once, and none of them beyond the timeout.

    Args:
        connections: to whom.
        wait_for: the names of those that earlier starts knew; others than these are passed over.
        timeout_seconds: how long they are waited for at most.

    Returns:
        for each that isn't there why it isn't.

    Raises:
        StaleEpochError: when one of them knows a newer start of the job.

    Source: FLIP-383, `execution.batch.job-recovery.previous-worker.recovery.timeout`.
    """
    answers = _Answers()
    for connection in connections:
        # A daemon: one that hangs must not hold up the job, nor the program's end.
        Thread(
            target=_connect,
            args=(connection, answers),
            name=f"holdfast-recovery-{connection.name}",
            daemon=True,
        ).start()
    names = {connection.name for connection in connections}
    previous = names.intersection(wait_for)
    deadline = monotonic() + timeout_seconds

    def is_enough() -> bool:
        stale = any(isinstance(each, StaleEpochError) for each in answers.failures.values())
        return stale or (names <= answers.failures.keys() and answers.have_answered(previous))

    with answers.changed:
        while not is_enough() and (left := deadline - monotonic()) > 0:
            answers.changed.wait(left)
        failures = dict(answers.failures)
    answers.given_up.set()
    for failure in failures.values():
        if isinstance(failure, StaleEpochError):
            raise failure
    silent = TimeoutError(f"no answer within {timeout_seconds:g} s")
    return {
        name: failure
        for name in sorted(names)
        if (failure := failures.get(name, silent)) is not None
    }


def _connect(connection: RecoveryConnection, answers: _Answers) -> None:
    while not answers.given_up.is_set():
        try:
            connection.connect()
        except (TaskExecutorError, StorageError) as error:
            answers.note(connection.name, error)
        except StaleEpochError as error:
            answers.note(connection.name, error)
            return
        except Exception as error:
            logger.exception("can't connect to task executor %s", connection.name)
            answers.note(connection.name, error)
        else:
            answers.note(connection.name, None)
            return
        answers.given_up.wait(POLL_SECONDS)

"""A job's start and its connection to one task executor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from threading import RLock
from typing import TypeVar

from holdfast.errors import (
    StaleEpochError,
    StorageError,
    TaskExecutorError,
    TaskExecutorUnreachableError,
    UnknownApplicationError,
)
from holdfast.runtime.task_executor_connection import TaskExecutorConnection
from holdfast.taskexecutor.calls.gateway import Registration, TaskExecutorGateway
from holdfast.taskexecutor.outputs.recovered_output import RecoveredOutput
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim

T = TypeVar("T")

logger = logging.getLogger(__name__)


class RecoveryConnection(TaskExecutorConnection):
    """Registers a start of a job, which has there what earlier starts have left.

    Once the executor says that a newer start has taken over, every call is refused.

    Args:
        name: what the executor is called.
        gateway: how it is reached.
        claim: the start.
        lease_seconds: how long the executor keeps partitions without a heartbeat.
        version: of Holdfast.
        lost: called when what lies there can't be relied on any more, but for what is named.
        may_hang: whether the executor is another process.
    """

    def __init__(
        self,
        name: str,
        gateway: TaskExecutorGateway,
        claim: RecoveryClaim,
        lease_seconds: float,
        version: str,
        lost: Callable[[TaskExecutorConnection, Collection[OutputID]], None],
        may_hang: bool,
    ) -> None:
        super().__init__(
            name, gateway, claim.application, lease_seconds, version, lost, may_hang=may_hang
        )
        self.found: tuple[RecoveredOutput, ...] = ()
        """What lay there when it was registered last."""
        self._claim = claim
        self._lease = lease_seconds
        self._of_version = version
        self._stale: StaleEpochError | None = None
        self._stale_lock = RLock()

    @property
    def is_registered(self) -> bool:
        """Whether the executor has ever accepted this start."""
        return self._registration is not None

    def leave(self) -> None:
        """Makes no call any more, and releases nothing."""
        self._closed = True
        self._unreachable = TaskExecutorUnreachableError(
            self.name, "this start has disconnected from it"
        )

    def connect(self) -> None:
        """Registers the start, if it isn't.

        Raises:
            StaleEpochError: when a newer start has taken over.
            TaskExecutorError: when it can't be done otherwise.
        """
        self.refuse_if_stale()
        try:
            super().connect()
        except StaleEpochError as error:
            self._note_stale(error)
            raise

    def call(self, request: Callable[[TaskExecutorGateway], T]) -> T:
        """Asks the executor for something.

        Raises:
            StaleEpochError: when a newer start has taken over.
            TaskExecutorError: what the executor answers with, or TaskExecutorUnreachableError.
        """
        self.refuse_if_stale()
        try:
            return super().call(request)
        except UnknownApplicationError:
            # Taken over, or lost with its directory: it is the executor who knows.
            self.connect()
            raise

    def look_again(self) -> None:
        """Asks an executor that doesn't know this start any more whether there is a newer one.

        Raises:
            StaleEpochError: when there is.
        """
        self.refuse_if_stale()
        if isinstance(self._unreachable, UnknownApplicationError):
            with suppress(TaskExecutorError, StorageError):
                self.connect()

    def heartbeat(self, hits: Mapping[OutputID, int]) -> None:
        """Renews the lease; does nothing more once a newer start has taken over."""
        if self._stale is not None:
            return
        try:
            super().heartbeat(hits)
        except StaleEpochError as error:
            self._note_stale(error)

    def refuse_if_stale(self) -> None:
        """Sees to it that no newer start is known to have taken over.

        Raises:
            StaleEpochError: when one has.
        """
        if self._stale is not None:
            raise StaleEpochError(self._stale.what, self._stale.epoch, self._stale.newest)

    def _register_application(self) -> Registration:
        return self.gateway.register_recovery(
            self.application, self._claim, self._lease, self._of_version
        )

    def _left(self) -> Collection[OutputID]:
        self.found = self.gateway.recovered(self.application)
        return [each.output for each in self.found]

    def _note_stale(self, error: StaleEpochError) -> None:
        with self._stale_lock:
            first = self._stale is None
            self._stale = error
        if first:
            logger.warning("task executor %s: %s", self.name, error)

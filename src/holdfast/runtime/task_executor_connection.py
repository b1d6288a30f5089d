"""A job master's connection to one task executor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from threading import RLock
from typing import TypeVar

from holdfast.errors import (
    DuplicateRegistrationError,
    StorageError,
    TaskExecutorError,
    TaskExecutorUnreachableError,
    UnknownApplicationError,
)
from holdfast.ids import ApplicationID, JobID
from holdfast.runtime.abandonable_calls import AbandonableCalls
from holdfast.taskexecutor.calls.gateway import (
    Registration,
    TaskExecutorDescription,
    TaskExecutorGateway,
)
from holdfast.taskexecutor.partitions.partition_info import OutputID

T = TypeVar("T")

logger = logging.getLogger(__name__)


class TaskExecutorConnection:
    """Registers an application with a task executor, and again after the executor was lost.

    Safe for use by several threads.

    Args:
        name: what the executor is called in messages until it is known.
        gateway: how it is reached.
        application: whose connection it is.
        lease_seconds: how long the executor keeps partitions without a heartbeat.
        version: of Holdfast.
        lost: called with this connection when what lies there can't be relied on any more: all of
            it, or all but the outputs that are named.
        may_hang: whether the executor is another process, which may stop answering. A heartbeat
            that gets no answer then ends the calls that wait for one.
    """

    def __init__(
        self,
        name: str,
        gateway: TaskExecutorGateway,
        application: ApplicationID,
        lease_seconds: float,
        version: str,
        lost: Callable[[TaskExecutorConnection, Collection[OutputID]], None],
        may_hang: bool,
    ) -> None:
        self.name = name
        self.gateway = gateway
        self.application = application
        self._lease_seconds = lease_seconds
        self._version = version
        self._lost = lost
        self._calls = AbandonableCalls(f"holdfast-call-{name}") if may_hang else None
        self._registering = RLock()
        self._lock = RLock()
        self._registration: Registration | None = None
        self._description: TaskExecutorDescription | None = None
        self._jobs: set[JobID] = set()
        self._owed: set[OutputID] = set()
        self._unreachable: TaskExecutorError | None = None
        self._refused: str | None = None
        self._closed = False

    @property
    def description(self) -> TaskExecutorDescription:
        """Which executor this is.

        Raises:
            TaskExecutorUnreachableError: when it hasn't been reached yet.
        """
        if self._description is None:
            raise self._unreachable or TaskExecutorUnreachableError(self.name, "not reached yet")
        return self._description

    @property
    def is_up(self) -> bool:
        """Whether it is registered, and answered when it was last asked."""
        return self._registration is not None and self._unreachable is None

    @property
    def read_root(self) -> str:
        """The path or URL under which Spark reads this application's datasets there.

        Raises:
            TaskExecutorUnreachableError: when it isn't registered.
        """
        if self._registration is None:
            raise self._unreachable or TaskExecutorUnreachableError(self.name, "not registered")
        return self._registration.read_root

    def connect(self) -> None:
        """Registers the application, if it isn't.

        Raises:
            TaskExecutorError: when that can't be done.
        """
        with self._registering:
            if not self.is_up:
                self._register()

    def call(self, request: Callable[[TaskExecutorGateway], T]) -> T:
        """Asks the executor for something.

        An executor that was lost is not asked again before a heartbeat has found it: a job must
        not wait for each call to one that is gone.

        Raises:
            TaskExecutorError: what the executor answers with, or TaskExecutorUnreachableError.
        """
        if self._unreachable is not None:
            raise self._unreachable
        try:
            if self._calls is None:
                return request(self.gateway)
            return self._calls.make(lambda: request(self.gateway))
        except (TaskExecutorUnreachableError, UnknownApplicationError) as error:
            # Another application may be gone without a word about this one.
            if getattr(error, "application", self.application.hex) == self.application.hex:
                self._gone(error)
            raise

    def ensure_job(self, job_id: JobID) -> None:
        """Registers a job, if it isn't.

        Raises:
            TaskExecutorError: when that can't be done.
        """
        with self._lock:
            known = job_id in self._jobs
            self._jobs.add(job_id)
        if known:
            return
        try:
            self.call(lambda gateway: gateway.register_job(self.application, job_id))
        except TaskExecutorError:
            self._jobs.discard(job_id)
            raise

    def end_job(self, job_id: JobID) -> None:
        """Ends a job if it is registered. What can't be reached ends it when the lease lapses."""
        with self._lock:
            known = job_id in self._jobs
            self._jobs.discard(job_id)
        if known:
            try:
                self.call(lambda gateway: gateway.end_job(self.application, job_id))
            except TaskExecutorError as error:
                logger.debug("%s: can't end job %s: %s", self.name, job_id, error)

    def release(self, outputs: Collection[OutputID]) -> None:
        """Releases outputs; where the executor can't be reached, as soon as it is."""
        with self._lock:
            self._owed.update(outputs)
        self._pay()

    def heartbeat(self, hits: Mapping[OutputID, int]) -> None:
        """Renews the lease; registers again with an executor that was lost or started again."""
        try:
            self.connect()
            incarnation = self.gateway.heartbeat(self.application, hits)
            registration = self._registration
            if registration is not None and registration.incarnation != incarnation:
                raise UnknownApplicationError(self.application.hex)
            self._pay()
            self._refused = None
        except (TaskExecutorUnreachableError, UnknownApplicationError) as error:
            self._gone(error)
        except (TaskExecutorError, StorageError) as error:
            # Once: the next heartbeats will hear the same.
            if str(error) != self._refused:
                logger.warning("task executor %s rejected a heartbeat: %s", self.name, error)
            self._refused = str(error)

    def close(self) -> None:
        """Releases everything of the application there, if it can be reached."""
        if self._registration is None or self._closed:
            return
        self._closed = True
        was_up = self._unreachable is None
        self._unreachable = TaskExecutorUnreachableError(self.name, "the environment is closed")
        if not was_up:
            logger.debug("%s: unreachable, its lease will expire", self.name)
            return
        try:
            self.gateway.unregister_application(self.application)
        except TaskExecutorError as error:
            logger.debug("%s: can't unregister, its lease will expire: %s", self.name, error)

    def _register(self) -> None:
        try:
            description = self.gateway.describe()
            before = self._registration
            anew = True
            try:
                registration = self._register_application()
            except DuplicateRegistrationError:
                if before is not None and description.incarnation == before.incarnation:
                    # It was only out of reach, and has kept what it has.
                    registration, anew = before, False
                else:
                    # An earlier registration's answer was lost, so nothing has been kept under it.
                    self.gateway.unregister_application(self.application)
                    registration = self._register_application()
            left = self._left()
        except TaskExecutorError as error:
            self._unreachable = error
            raise
        except StorageError as error:
            # It answers, and can't keep anything for this application.
            self._unreachable = TaskExecutorUnreachableError(self.name, str(error))
            raise
        with self._lock:
            if anew:
                self._jobs.clear()
            self._description, self._registration = description, registration
            self._unreachable = None
        if before is not None:
            self._lost(self, left)

    def _register_application(self) -> Registration:
        return self.gateway.register_application(
            self.application, self._lease_seconds, self._version
        )

    def _left(self) -> Collection[OutputID]:
        """The outputs that lie there and can be relied on."""
        return [each.output for each in self.gateway.report(self.application)]

    def _gone(self, error: TaskExecutorError) -> None:
        with self._lock:
            if self._closed:
                return
            first = self._unreachable is None
            self._unreachable = error
        if self._calls is not None:
            self._calls.abandon(error)
        if first:
            logger.warning("task executor %s is lost: %s", self.name, error)

    def _pay(self) -> None:
        with self._lock:
            owed, self._owed = self._owed, set()
        if not owed:
            return
        try:
            self.call(lambda gateway: gateway.release_outputs(self.application, tuple(owed)))
        except TaskExecutorError as error:
            with self._lock:
                self._owed |= owed
            logger.debug(
                "%s: the release of %d outputs is postponed: %s", self.name, len(owed), error
            )

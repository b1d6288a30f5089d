"""Tells task executors that their application is alive, for as long as it is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Thread

from holdfast.runtime.task_executor_connection import TaskExecutorConnection
from holdfast.taskexecutor.partitions.partition_info import OutputID

logger = logging.getLogger(__name__)


class Heartbeats:
    """One thread for each executor, so that a slow one doesn't make the others' leases lapse.

    Args:
        connections: to whom.
        seconds: how often.
        hits: how often each output has been read in all.
    """

    def __init__(
        self,
        connections: Sequence[TaskExecutorConnection],
        seconds: float,
        hits: Callable[[], Mapping[OutputID, int]],
    ) -> None:
        self._seconds = seconds
        self._hits = hits
        self._stopped = Event()
        self._threads = [
            Thread(
                target=self._beat,
                args=(connection,),
                name=f"holdfast-heartbeat-{connection.name}",
                daemon=True,
            )
            for connection in connections
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends it; whoever is being told is told to the end."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _beat(self, connection: TaskExecutorConnection) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                connection.heartbeat(self._hits())
            except Exception:
                # A thread that ended would let the lease lapse over an error of the moment.
                logger.exception("the heartbeat to task executor %s failed", connection.name)

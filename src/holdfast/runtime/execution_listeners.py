"""Who hears what happens to the vertices of a job."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from holdfast.errors import StaleEpochError
from holdfast.runtime.execution_events import ExecutionEvent

logger = logging.getLogger(__name__)


class ExecutionListener(Protocol):
    """Hears what happens to the vertices of a job, in the order in which it happens."""

    def notify(self, event: ExecutionEvent) -> None:
        """One more thing has happened. Called on the thread that runs the job.

        Raises:
            StaleEpochError: when a newer start of the job has taken over, which ends this one.
        """


class ExecutionListeners:
    """Passes what happens to the vertices of one job on to its listeners. For use by one thread.

    >>> from holdfast.runtime.execution_events import VertexStarted
    >>> class Printed:
    ...     def notify(self, event: ExecutionEvent) -> None:
    ...         print(event)
    >>> listeners = ExecutionListeners()
    >>> with listeners.listening(Printed()):
    ...     listeners.publish(VertexStarted(None, "count"))
    VertexStarted(dataset_id=None, name='count', inputs=())
    """

    def __init__(self) -> None:
        self._listeners: list[ExecutionListener] = []

    @contextmanager
    def listening(self, listener: ExecutionListener) -> Iterator[None]:
        """Tells a listener what happens inside."""
        self.add(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def add(self, listener: ExecutionListener) -> None:
        """Tells a listener what happens from now on."""
        self._listeners.append(listener)

    def publish(self, event: ExecutionEvent) -> None:
        """Tells all listeners what has happened. One that fails does not fail the job.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
        """
        for listener in tuple(self._listeners):
            try:
                listener.notify(event)
            except StaleEpochError:
                raise
            except Exception:
                logger.warning(
                    "%s can't process %s, the job continues",
                    type(listener).__name__,
                    type(event).__name__,
                    exc_info=True,
                )

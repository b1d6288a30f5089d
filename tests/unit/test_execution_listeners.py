"""What happens to a job's vertices is passed on to every listener."""

from __future__ import annotations

import pytest

from holdfast.errors import StaleEpochError
from holdfast.runtime.execution_events import ExecutionEvent, VertexEnded, VertexStarted
from holdfast.runtime.execution_listeners import ExecutionListeners
from holdfast.runtime.vertex_outcome import VertexOutcome

STARTED = VertexStarted(None, "count")
ENDED = VertexEnded(None, VertexOutcome.RUN)


class Heard:
    """Hears everything, and may fail over it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.events: list[ExecutionEvent] = []
        self._error = error

    def notify(self, event: ExecutionEvent) -> None:
        self.events.append(event)
        if self._error is not None:
            raise self._error


def test_each_hears_each_event_for_as_long_as_it_listens_whatever_others_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listeners, one, two = ExecutionListeners(), Heard(), Heard()
    listeners.add(Heard(OSError("no space")))
    listeners.add(one)
    with pytest.raises(ValueError, match="an attempt"), listeners.listening(two):
        listeners.publish(STARTED)
        raise ValueError("an attempt")
    listeners.publish(ENDED)
    assert (one.events, two.events) == ([STARTED, ENDED], [STARTED])
    assert "no space" in caplog.text and "the job continues" in caplog.text
    listeners.add(Heard(StaleEpochError("a job", 1, 2)))
    with pytest.raises(StaleEpochError):
        listeners.publish(STARTED)

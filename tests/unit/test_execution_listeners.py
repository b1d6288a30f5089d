"""What happens to a job's vertices is passed on to whoever listens."""

from __future__ import annotations

import logging

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


def test_each_hears_each_event_in_its_order() -> None:
    listeners, one, two = ExecutionListeners(), Heard(), Heard()
    listeners.add(one)
    with listeners.listening(two):
        listeners.publish(STARTED)
    listeners.publish(ENDED)
    assert (one.events, two.events) == ([STARTED, ENDED], [STARTED])


def test_one_that_fails_fails_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    listeners, failing, other = ExecutionListeners(), Heard(OSError("no space")), Heard()
    listeners.add(failing)
    listeners.add(other)
    with caplog.at_level(logging.WARNING):
        listeners.publish(STARTED)
    assert other.events == [STARTED]
    (record,) = caplog.records
    assert record.getMessage() == "Heard can't process VertexStarted, the job continues"
    assert record.exc_info is not None and "no space" in str(record.exc_info[1])


def test_a_start_that_was_overtaken_ends() -> None:
    listeners = ExecutionListeners()
    listeners.add(Heard(StaleEpochError("a job", 1, 2)))
    with pytest.raises(StaleEpochError):
        listeners.publish(STARTED)


def test_one_that_listens_to_an_attempt_that_fails_hears_nothing_of_the_next() -> None:
    listeners, heard = ExecutionListeners(), Heard()
    with pytest.raises(ValueError, match="an attempt"), listeners.listening(heard):
        raise ValueError("an attempt")
    listeners.publish(STARTED)
    assert heard.events == []

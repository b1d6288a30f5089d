"""Calls that wait for an answer end when it is known that none will come."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import TaskExecutorUnreachableError
from holdfast.runtime.abandonable_calls import AbandonableCalls


def test_all_that_wait_for_an_answer_end_and_others_are_not_concerned() -> None:
    calls, never = AbandonableCalls("test"), threading.Event()
    gone = TaskExecutorUnreachableError("node-1:1", "no sign of life")
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            calls.make(never.wait)
        except TaskExecutorUnreachableError as error:
            raised.append(error)

    with ThreadPoolExecutor(3) as threads:
        waiting = [threads.submit(wait) for _ in range(3)]
        while not all(each.done() for each in waiting):
            calls.abandon(gone)
            time.sleep(0.01)
    assert raised == [gone] * 3
    never.set()
    assert calls.make(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        calls.make(lambda: 1 // 0)

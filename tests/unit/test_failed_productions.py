"""What a program remembers between jobs: failures, datasets of others, calls that wait."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.api.safe_points import DroppableRows, now_or_later, work_off
from holdfast.errors import TaskExecutorUnreachableError
from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.abandonable_calls import AbandonableCalls
from holdfast.runtime.at_hand import AtHand
from holdfast.runtime.failed_productions import FailedProductions
from tests.catalog.results import kept

# -- what can't be computed costs a tenth of the time, not the same time again in each job


def test_a_production_that_failed_waits_ten_times_as_long_as_it_took() -> None:
    now = 100.0
    failures = FailedProductions(lambda: now)
    one, other = (
        IntermediateDataSetID.from_digest("1" * 64),
        IntermediateDataSetID.from_digest("2" * 64),
    )
    assert failures.may_be_tried(one)
    failures.add(one, 3.0)
    now = 129.0
    assert not failures.may_be_tried(one)
    assert failures.may_be_tried(other)
    now = 130.0
    assert failures.may_be_tried(one)
    # It fails again, and quicker.
    failures.add(one, 1.0)
    now = 139.0
    assert not failures.may_be_tried(one)
    now = 141.0
    assert failures.may_be_tried(one)


# -- which datasets of other programs stay open for later jobs, and for how long


def test_what_was_put_is_taken_once_and_of_two_of_one_result_one_is_spare() -> None:
    open_ones, first, second = AtHand(), kept(), kept()
    assert open_ones.put(1, first) is None
    assert open_ones.put(1, second) == first
    assert open_ones.take(2) is None
    assert open_ones.take(1) == second
    assert open_ones.take(1) is None


def test_what_no_job_has_read_for_a_while_expires() -> None:
    now = 0.0
    open_ones, first, second = AtHand(10.0, lambda: now), kept(), kept()
    open_ones.put(1, first)
    now = 6.0
    open_ones.put(2, second)
    assert open_ones.expired() == {}
    now = 10.0
    assert open_ones.expired() == {1: first}
    assert open_ones.expired(all_of_them=True) == {2: second}
    assert open_ones.take(2) is None


# -- calls that wait for an answer end when it is known that none will come


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


# -- where something may be released, and where that is noted for later


Call = Callable[[Callable[[], None]], None]


def calling(module: str, function: str = "work") -> Call:
    """A function of some module's that calls what it is given, as an interrupted one does."""
    names: dict[str, Any] = {"__name__": module}
    exec(f"def {function}(call):\n    call()\n", names)
    call: Call = names[function]
    return call


@pytest.fixture
def released() -> list[str]:
    return []


@pytest.mark.parametrize(
    "amid",
    [
        calling("holdfast.plan.document"),
        calling("holdfast.api.environment"),
        calling("py4j.clientserver", "send_command"),
    ],
)
def test_in_the_middle_of_something_a_release_is_noted(amid: Call, released: list[str]) -> None:
    amid(lambda: now_or_later(lambda: released.append("noted")))
    assert released == []
    # No safe point, either.
    amid(lambda: work_off())
    assert released == []
    work_off()
    assert released == ["noted"]


@pytest.mark.parametrize(
    "caller",
    [
        calling("__main__"),
        calling("pyspark.pandas.frame"),
        calling("holdfast.cli.program"),
        calling("holdfast.api.stream_writer"),
        calling("py4j.clientserver", "_call_proxy"),
    ],
)
def test_what_calls_the_user_is_not_the_middle_of_something(
    caller: Call, released: list[str]
) -> None:
    caller(lambda: now_or_later(lambda: released.append("released")))
    assert released == ["released"]


def test_what_was_noted_comes_first_and_its_error_is_not_raised(released: list[str]) -> None:
    amid = calling("holdfast.spark.x")
    amid(lambda: now_or_later(lambda: released.remove("nothing")))
    amid(lambda: now_or_later(lambda: released.append("first")))
    now_or_later(lambda: released.append("second"))
    assert released == ["first", "second"]
    with pytest.raises(ValueError, match="not in list"):
        now_or_later(lambda: released.remove("nothing"))


def rows_of(closed: list[str]) -> Generator[int, None, None]:
    try:
        yield 1
        yield 2
    finally:
        closed.append("closed")


def test_dropped_rows_are_closed_where_that_is_safe(released: list[str]) -> None:
    rows = DroppableRows(rows_of(released))
    assert next(rows) == 1
    del rows
    assert released == ["closed"]
    # Garbage is collected in the middle of something.
    cycle: list[Any] = [DroppableRows(rows_of(released))]
    cycle.append(cycle)
    assert next(cycle[0]) == 1
    del cycle
    calling("holdfast.spark.x")(lambda: [gc.collect()].clear())
    assert released == ["closed"]
    work_off()
    assert released == ["closed"] * 2

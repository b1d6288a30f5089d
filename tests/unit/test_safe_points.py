"""Where something may be released, and where that is noted for later."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from typing import Any

import pytest

from holdfast.api.safe_points import DroppableRows, now_or_later, work_off

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

"""The few objects that were used last, and the DataFrame that one job lends another."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.spark.last_run import LastRun
from holdfast.spark.last_used import LastUsed


class Key:
    """Something that can be referred to weakly."""


@given(st.lists(st.tuples(st.sampled_from(["get", "set", "forget"]), st.integers(0, 5))))
def test_what_was_used_last_is_there(steps: list[tuple[str, int]]) -> None:
    keys = [Key() for _ in range(6)]
    memory: LastUsed[Key, int] = LastUsed(3)
    expected: list[int] = []
    for step, number in steps:
        if step == "set":
            memory.set(keys[number], number)
            expected = [*(each for each in expected if each != number), number][-3:]
        elif step == "forget":
            memory.forget(keys[number])
            expected = [each for each in expected if each != number]
        else:
            assert memory.get(keys[number]) == (number if number in expected else None)
            if number in expected:
                expected = [*(each for each in expected if each != number), number]
    found = {number for number in range(6) if memory.get(keys[number]) is not None}
    assert found == set(expected)


def test_what_is_gone_takes_no_place() -> None:
    memory: LastUsed[Key, Key] = LastUsed(2)
    stays, value = Key(), Key()
    memory.set(stays, value)
    for _ in range(10):
        memory.set(Key(), Key())
    assert memory.get(stays) is value


class Frame:
    """Stands for a DataFrame, of which nothing is asked."""


def test_one_job_at_a_time_has_what_succeeded() -> None:
    run: Any = LastRun()
    first = run.lend("A", Frame)
    assert run.lend("A", Frame) is not first, "the first job still has it"
    run.give_back(first)
    assert run.is_there
    assert run.lend("A", Frame) is first
    assert not run.is_there
    assert run.lend("A", Frame) is not first, "the second job has failed, and given nothing back"


def test_what_reads_something_else_is_let_go() -> None:
    run: Any = LastRun()
    first = run.lend("A", Frame)
    run.give_back(first)
    assert run.lend("B", Frame) is not first
    assert run.lend("A", Frame) is not first


def test_what_was_not_lent_is_not_taken_back() -> None:
    run: Any = LastRun()
    run.give_back(Frame())
    assert not run.is_there

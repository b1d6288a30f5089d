"""The few objects that were used last, and the DataFrame that one job lends another."""

from __future__ import annotations

from typing import Any

from holdfast.spark.last_run import LastRun
from holdfast.spark.last_used import LastUsed


class Key:
    """Something that can be referred to weakly, like a DataFrame."""


def test_what_was_used_last_is_there() -> None:
    keys = [Key() for _ in range(5)]
    memory: LastUsed[Key, int] = LastUsed(3)
    for number in (0, 1, 2):
        memory.set(keys[number], number)
    assert memory.get(keys[0]) == 0
    memory.set(keys[2], 7)
    # What is gone takes no place.
    for _ in range(10):
        memory.set(Key(), 9)
    assert [memory.get(each) for each in keys] == [0, None, 7, None, None]
    memory.forget(keys[0])
    for number in (3, 4):
        memory.set(keys[number], number)
    assert [memory.get(each) for each in keys] == [None, None, 7, 3, 4]


def test_one_job_at_a_time_has_what_succeeded_over_the_same_inputs() -> None:
    run: Any = LastRun()
    first = run.lend("A", Key)
    assert run.lend("A", Key) is not first, "the first job still has it"
    run.give_back(first)
    assert run.is_there
    assert run.lend("A", Key) is first
    assert not run.is_there
    assert run.lend("A", Key) is not first, "the second job has failed, and given nothing back"
    run.give_back(first)
    assert run.lend("B", Key) is not first
    assert run.lend("A", Key) is not first
    run.give_back(Key())
    assert not run.is_there

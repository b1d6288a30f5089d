"""The DataFrame that one job lends another."""

from __future__ import annotations

from typing import Any

from holdfast.spark.last_run import LastRun


class Key:
    """Something that can be referred to weakly, like a DataFrame."""


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

"""The first job that needs a cached stream keeps it while its records go on: in one Spark job."""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import CachedDataStream, Environment, MapFunction, NumberSequenceSource
from holdfast.errors import OperatorFailedError
from holdfast.testing import outcomes
from tests.spark.conftest import Tally
from tests.spark.streams import (
    NOT_KEPT,
    ODD,
    PRODUCED,
    READ,
    RUN,
    SameByKey,
    Split,
    collected,
    location,
    summed,
    total,
)


def cached(env: Environment, tally: Tally, count: int = 10) -> CachedDataStream:
    return env.from_collection(range(count)).map(tally.counting(lambda n: n)).cache()


def spark_jobs(env: Environment, act: Callable[[], Any]) -> tuple[Any, int]:
    """What an action gives, and how many Spark jobs it takes."""
    group, context = uuid.uuid4().hex, env.spark.sparkContext
    context.setJobGroup(group, "counted")
    try:
        answer = act()
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(key, None)  # type: ignore[arg-type]
    return answer, len(context.statusTracker().getJobIdsForGroup(group))


def test_one_spark_job_keeps_and_answers(env: Environment, tally: Tally, tmp_path: Path) -> None:
    numbers = env.from_source(NumberSequenceSource(0, 4_999)).set_parallelism(2)
    kept = numbers.map(tally.counting(lambda n: n)).set_parallelism(2).cache()
    assert spark_jobs(env, lambda: total(kept)) == (sum(range(5_000)), 1)
    assert outcomes(env) == [PRODUCED, RUN]
    assert collected(kept) == list(range(5_000))
    assert outcomes(env) == [READ, RUN]
    assert tally.count() == 5_000
    assert len(list(location(env).glob("part-*.parquet"))) == 2
    assert not list((tmp_path / "kept").glob("application-*/staging/*"))


def test_the_answer_is_of_the_very_records_that_are_kept(env: Environment) -> None:
    kept = env.from_collection(range(1000)).map(lambda n: random.randrange(10**9)).cache()
    answer = total(kept)
    assert outcomes(env) == [PRODUCED, RUN]
    assert sum(collected(kept)) == answer


class Reused(MapFunction):
    """Gives the same object again and again."""

    def open(self, runtime_context: Any) -> None:
        self.record = [0, 0]

    def map(self, value: int) -> list[int]:
        self.record[:] = value % 2, value
        return self.record


class Counting(MapFunction):
    """Has state, of which an object on either side has its own."""

    def __init__(self) -> None:
        self.seen = 0

    def map(self, value: Any) -> list[Any]:
        self.seen += 1
        return [0, self.seen]


@pytest.mark.parametrize("function", [Reused(), Counting()], ids=lambda each: type(each).__name__)
@pytest.mark.sampled(2)
def test_what_is_answered_from_records_is_answered_from_kept_ones(
    env: Environment, function: MapFunction
) -> None:
    def changed(a: list[int], b: list[int]) -> list[int]:
        a[1] += b[1]
        return a

    kept = env.from_collection(range(500)).map(function).cache()
    after = kept if isinstance(function, Reused) else kept.map(function)
    answer = after.key_by(lambda record: record[0]).reduce(changed)
    first = sorted(collected(answer))
    assert outcomes(env) == [PRODUCED, RUN]
    assert sorted(collected(answer)) == first and READ in outcomes(env)


def test_who_wants_little_keeps_everything(env: Environment, tally: Tally) -> None:
    kept = cached(env, tally, 100)
    assert len(summed(kept, 50).execute_and_collect(limit=1)) == 1
    assert collected(kept) == list(range(100)) and tally.count() == 100


@pytest.mark.parametrize("where", ["before", "after", "key", "reduce"])
@pytest.mark.sampled(4, 1)
def test_a_job_that_fails_before_the_shuffle_keeps_nothing(
    env: Environment, tmp_path: Path, where: str
) -> None:
    def fragile(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*values: Any) -> Any:
            if step == where:
                raise ValueError(f"broken in {step}")
            return function(*values)

        return called

    kept = env.from_collection(range(100)).map(fragile("before", lambda n: n)).cache()
    keyed = kept.map(fragile("after", lambda n: n)).key_by(fragile("key", lambda n: n % 3))
    with pytest.raises(OperatorFailedError, match=f"broken in {where}"):
        collected(keyed.reduce(fragile("reduce", lambda a, b: a + b)))
    assert not any(each.dataset_id for each in env.list_cached())
    assert not list((tmp_path / "kept").glob("application-*/staging/*"))
    if where != "before":
        assert total(kept) == sum(range(100)) and outcomes(env) == [PRODUCED, RUN]


def test_a_job_that_fails_after_the_shuffle_leaves_what_was_kept(env: Environment) -> None:
    kept = env.from_collection(range(100)).map(lambda n: n).cache()
    with pytest.raises(OperatorFailedError, match="division"):
        collected(summed(kept).map(lambda pair: 1 // 0))
    assert total(kept) == sum(range(100)) and READ in outcomes(env)


def test_what_can_not_be_kept_is_answered_all_the_same(
    env: Environment, tally: Tally, tmp_path: Path
) -> None:
    root = tmp_path / "kept"

    def sabotage(n: int) -> int:
        for directory in root.glob("application-*/staging/*"):
            # Two tasks are at it, and find what the other one is removing.
            shutil.rmtree(directory, ignore_errors=True)
        return n

    kept = cached(env, tally, 100)
    assert total(kept.map(sabotage)) == sum(range(100))
    assert outcomes(env) == [NOT_KEPT, RUN] and tally.count() == 100
    assert total(kept) == sum(range(100)) and outcomes(env) == [PRODUCED, RUN]


class Reporting:
    """Says of a task's partition what it is given so many times."""

    def __init__(self, accumulator: Any, times: int) -> None:
        self.accumulator, self.times = accumulator, times

    def __call__(self, receipt: Any) -> None:
        for _ in range(self.times):
            self.accumulator.add([receipt])


@pytest.mark.parametrize("times", [0, 2])
@pytest.mark.sampled(2)
def test_what_tasks_report_not_once_is_not_kept(
    env: Environment, tally: Tally, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    kept = cached(env, tally)
    with monkeypatch.context() as patched:
        patched.setattr(
            "holdfast.spark.streams.tee_receipts.TeeReport.__reduce__",
            lambda report: (Reporting, (report._accumulator, times)),
        )
        assert total(kept) == 45
    assert outcomes(env) == [NOT_KEPT, RUN]
    assert collected(kept) == list(range(10)) and outcomes(env) == [PRODUCED, RUN]


def test_a_source_that_changes_meanwhile_is_not_kept(env: Environment, tmp_path: Path) -> None:
    file = tmp_path / "numbers.txt"
    file.write_text("1\n2\n")

    def changing(word: str) -> int:
        with open(file, "a") as opened:
            opened.write("3\n")
        return int(word)

    assert total(env.read_text_file(str(file)).map(changing).cache()) >= 3
    assert outcomes(env) == [NOT_KEPT, RUN]


@pytest.mark.soak
def test_a_side_output_and_a_shuffled_stream_are_kept_in_the_same_way(
    env: Environment, tally: Tally
) -> None:
    odd = env.from_collection(range(10)).process(Split()).get_side_output(ODD).cache()
    assert total(odd) == 25 and outcomes(env) == [PRODUCED, RUN]
    assert collected(odd) == [1, 3, 5, 7, 9]
    sums = summed(env.from_collection(range(10)).map(tally.counting(lambda n: n))).cache()
    assert total(sums.map(lambda pair: pair[1])) == 45 and outcomes(env) == [PRODUCED, RUN]
    assert sorted(collected(sums)) == [(0, 18), (1, 12), (2, 15)]
    assert outcomes(env) == [READ, RUN] and tally.count() == 10


def test_several_cached_streams_are_each_kept_once(env: Environment, tally: Tally) -> None:
    ten, twenty = cached(env, tally, 10), cached(env, tally, 20)
    for kept in (2, 0):
        assert total(ten.union(twenty).union(ten.map(lambda n: -n))) == sum(range(20))
        assert outcomes(env).count(PRODUCED) == kept
    assert tally.count() == 30
    # One that is kept, beside one that is not.
    third = cached(env, tally, 30)
    by_key = third.union(env.from_collection([99])).key_by(lambda n: n % 2).process(SameByKey())
    assert len(collected(by_key)) == 31 and outcomes(env) == [PRODUCED, RUN]
    assert collected(third) == list(range(30))

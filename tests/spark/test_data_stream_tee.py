"""The first job that needs a cached stream keeps it while its records go on: in one Spark job."""

from __future__ import annotations

import random
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from holdfast import (
    CachedDataStream,
    DataStream,
    Environment,
    KeyedProcessFunction,
    MapFunction,
    NumberSequenceSource,
    OutputTag,
    ProcessFunction,
    VertexOutcome,
)
from holdfast.config import INTERMEDIATE_RESULT_DIRECTORY
from holdfast.errors import OperatorFailedError
from holdfast.spark.streams.tee_receipts import TeeReport

NOT_KEPT, PRODUCED, READ, RUN = (
    VertexOutcome.NOT_KEPT,
    VertexOutcome.PRODUCED,
    VertexOutcome.READ,
    VertexOutcome.RUN,
)


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as records:
        return list(records)


def outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def staged(env: Environment) -> list[Path]:
    root = Path(env.configuration.get(INTERMEDIATE_RESULT_DIRECTORY))
    return list(root.glob("application-*/staging/*"))


def summed(stream: DataStream, modulo: int = 3) -> DataStream:
    return stream.map(lambda n: (n % modulo, n)).key_by(lambda pair: pair[0]).sum(1)


def spark_jobs(spark: SparkSession, act: Callable[[], Any]) -> tuple[Any, int]:
    """What an action gives, and how many Spark jobs it takes."""
    group = uuid.uuid4().hex
    spark.sparkContext.setJobGroup(group, "counted")
    try:
        answer = act()
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description"):
            spark.sparkContext.setLocalProperty(key, None)  # type: ignore[arg-type]
    return answer, len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))


def test_one_spark_job_keeps_and_answers(env: Environment, tally: Any) -> None:
    numbers = env.from_source(NumberSequenceSource(0, 99_999)).set_parallelism(2)
    kept = numbers.map(tally.counting(lambda n: n)).set_parallelism(2).cache()
    expected = sorted((r, sum(range(r, 100_000, 3))) for r in range(3))
    answer, jobs = spark_jobs(env.spark, lambda: collected(summed(kept)))
    assert sorted(answer) == expected
    assert outcomes(env) == [PRODUCED, RUN]
    assert jobs == 1
    assert tally.count() == 100_000
    assert sorted(collected(summed(kept))) == expected
    assert outcomes(env) == [READ, RUN]
    assert collected(kept) == list(range(100_000))
    assert tally.count() == 100_000
    (listed,) = (each for each in env.list_cached() if each.dataset_id is not None)
    assert listed.location is not None
    files = sorted(listed.location.iterdir())
    assert [file.name[:10] for file in files if file.name.startswith("part-")] == [
        "part-00000",
        "part-00001",
    ]
    assert not any("_temporary" in file.name for file in files)
    assert pq.read_schema(files[-1]).names == ["records", "batch", "mac"]
    assert staged(env) == []


def test_the_answer_is_of_the_very_records_that_are_kept(env: Environment) -> None:
    kept = env.from_collection(range(1000)).map(lambda n: random.randrange(10**9)).cache()
    first = sorted(collected(summed(kept)))
    assert outcomes(env) == [PRODUCED, RUN]
    assert sorted(collected(summed(kept))) == first
    records = collected(kept)
    assert sum(total for _, total in first) == sum(records)


def test_records_are_seen_as_they_were_kept(env: Environment) -> None:
    class Reused(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.record = [0, 0]

        def map(self, value: int) -> list[int]:
            self.record[0], self.record[1] = value % 2, value
            return self.record

    def last(a: list[int], b: list[int]) -> list[int]:
        a[1] += b[1]
        return a

    kept = env.from_collection(range(500)).map(Reused()).cache()
    first = sorted(collected(kept.key_by(lambda record: record[0]).reduce(last)))
    assert outcomes(env) == [PRODUCED, RUN]
    assert sorted(collected(kept.key_by(lambda record: record[0]).reduce(last))) == first
    assert READ in outcomes(env)


def test_functions_on_both_sides_share_nothing(env: Environment) -> None:
    class Counting(MapFunction):
        def __init__(self) -> None:
            self.seen = 0

        def map(self, value: int) -> tuple[str, int]:
            self.seen += 1
            return "seen", self.seen

    one = Counting()
    kept = env.from_collection(range(100)).map(one).cache()
    counted = kept.map(one).key_by(lambda pair: pair[0]).max(1)
    first = collected(counted)
    assert outcomes(env) == [PRODUCED, RUN]
    assert collected(counted) == first


def test_who_wants_little_keeps_everything(env: Environment, tally: Any) -> None:
    kept = env.from_collection(range(100)).map(tally.counting(lambda n: n)).cache()
    assert len(summed(kept, 50).execute_and_collect(limit=1)) == 1
    assert tally.count() == 100
    assert collected(kept) == list(range(100))
    assert tally.count() == 100


@pytest.mark.parametrize("where", ["before", "after", "key", "reduce"])
@pytest.mark.sampled(2)
def test_a_job_that_fails_before_the_shuffle_keeps_nothing(
    env: Environment, tally: Any, where: str
) -> None:
    def fragile(step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*values: Any) -> Any:
            if step == where:
                raise ValueError(f"broken in {step}")
            return function(*values)

        return called

    numbers = env.from_collection(range(100)).map(tally.counting(fragile("before", lambda n: n)))
    kept = numbers.cache()
    keyed = kept.map(fragile("after", lambda n: n)).key_by(fragile("key", lambda n: n % 3))
    with pytest.raises(OperatorFailedError, match=f"broken in {where}"):
        collected(keyed.reduce(fragile("reduce", lambda a, b: a + b)))
    assert not any(each.dataset_id for each in env.list_cached())
    assert staged(env) == []
    if where != "before":
        assert sum(total for _, total in collected(summed(kept))) == sum(range(100))
        assert outcomes(env) == [PRODUCED, RUN]
        assert collected(kept) == list(range(100))
        assert outcomes(env) == [READ, RUN]


def test_a_job_that_fails_after_the_shuffle_leaves_what_was_kept(env: Environment) -> None:
    kept = env.from_collection(range(100)).map(lambda n: n).cache()
    with pytest.raises(OperatorFailedError, match="division"):
        collected(summed(kept).map(lambda pair: 1 // 0))
    assert sum(total for _, total in collected(summed(kept))) == sum(range(100))
    assert READ in outcomes(env)


def test_what_can_not_be_kept_is_answered_all_the_same(env: Environment, tally: Any) -> None:
    root = env.configuration.get(INTERMEDIATE_RESULT_DIRECTORY)

    def sabotage(n: int) -> int:
        for directory in Path(root).glob("application-*/staging/*"):
            # Two tasks are at it, and find what the other one is removing.
            shutil.rmtree(directory, ignore_errors=True)
        return n

    kept = env.from_collection(range(100)).map(tally.counting(lambda n: n)).cache()
    answer = collected(summed(kept.map(sabotage)))
    assert sum(total for _, total in answer) == sum(range(100))
    assert outcomes(env) == [NOT_KEPT, RUN]
    assert tally.count() == 100
    assert sum(total for _, total in collected(summed(kept))) == sum(range(100))
    assert outcomes(env) == [PRODUCED, RUN]


def test_where_tasks_are_not_heard_of_nothing_is_kept(
    env: Environment, tally: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = cached(env, tally, 10)
    with monkeypatch.context() as patched:
        patched.setattr(TeeReport, "__reduce__", lambda self: (_Mute, ()))
        assert sum(total for _, total in collected(summed(kept))) == 45
    assert outcomes(env) == [NOT_KEPT, RUN]
    assert collected(kept) == list(range(10))
    assert outcomes(env) == [PRODUCED, RUN]


class _Mute:
    def __call__(self, receipt: Any) -> None:
        return


def test_a_task_that_ran_twice_is_not_kept(
    env: Environment, tally: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = cached(env, tally, 10)
    with monkeypatch.context() as patched:
        patched.setattr(TeeReport, "__reduce__", lambda self: (_Twice, (self._accumulator,)))
        assert sum(total for _, total in collected(summed(kept))) == 45
    assert NOT_KEPT in outcomes(env)


class _Twice(TeeReport):
    def __call__(self, receipt: Any) -> None:
        super().__call__(receipt)
        super().__call__(receipt)


def test_a_source_that_changes_meanwhile_is_not_kept(env: Environment, tmp_path: Path) -> None:
    file = str(tmp_path / "words.txt")
    Path(file).write_text("to\nbe\nor\nnot\n")

    def changing(word: str) -> str:
        with open(file, "a") as opened:
            opened.write("to\n")
        return word

    kept = env.read_text_file(file).map(changing).cache()
    answer = collected(kept.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1))
    assert ("be", 1) in answer
    assert outcomes(env) == [NOT_KEPT, RUN]


@pytest.mark.parametrize("parallelism", [1, 2, 5])
@pytest.mark.sampled(2)
def test_partitions_of_any_size(env: Environment, parallelism: int) -> None:
    for count in (0, 1, 3, 1000):
        numbers = env.from_collection(list(range(count))).set_parallelism(parallelism)
        kept = numbers.map(lambda n: n).set_parallelism(parallelism).cache()
        assert sum(total for _, total in collected(summed(kept))) == sum(range(count))
        assert outcomes(env) == [PRODUCED, RUN]
        assert collected(kept) == list(range(count))
        assert outcomes(env) == [READ, RUN]
        kept.invalidate()


def test_large_collections_and_large_records(env: Environment) -> None:
    texts = [f"{n:09d}" * 1000 for n in range(200)]
    kept = env.from_collection(texts).map(lambda text: text + "!").cache()
    lengths = kept.map(lambda text: ("length", len(text))).key_by(lambda pair: pair[0]).sum(1)
    assert collected(lengths) == [("length", 200 * 9001)]
    assert outcomes(env) == [PRODUCED, RUN]
    assert collected(kept) == [f"{text}!" for text in texts]


def test_a_side_output_is_kept_on_the_way(env: Environment) -> None:
    odd = OutputTag("odd")

    class Split(ProcessFunction):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
            yield (odd, value) if value % 2 else value

    split = env.from_collection(range(10)).process(Split())
    kept = split.get_side_output(odd).cache()
    assert sum(total for _, total in collected(summed(kept))) == 25
    assert outcomes(env) == [PRODUCED, RUN]
    assert collected(kept) == [1, 3, 5, 7, 9]


def test_whatever_takes_records_from_other_tasks(env: Environment) -> None:
    class All(KeyedProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Iterator[Any]:
            yield ctx.get_current_key(), value

    kept = env.from_collection(range(10)).map(lambda n: n).cache()
    expected = sorted((n % 2, n) for n in range(10))
    assert sorted(collected(kept.key_by(lambda n: n % 2).process(All()))) == expected
    assert outcomes(env) == [PRODUCED, RUN]
    kept.invalidate()
    plain = env.from_collection(range(10, 20))
    assert sum(total for _, total in collected(summed(kept.union(plain)))) == sum(range(20))
    assert outcomes(env) == [PRODUCED, RUN]
    assert collected(kept) == list(range(10))


def cached(env: Environment, tally: Any, count: int) -> CachedDataStream:
    return env.from_collection(range(count)).map(tally.counting(lambda n: n)).cache()


def test_several_cached_streams_are_each_kept_once(env: Environment, tally: Any) -> None:
    ten, twenty = cached(env, tally, 10), cached(env, tally, 20)
    expected = sum(range(10)) + sum(range(20))
    assert sum(total for _, total in collected(summed(ten.union(twenty)))) == expected
    assert outcomes(env).count(PRODUCED) == 2
    assert tally.count() == 30
    both = summed(ten.union(twenty))
    assert sum(total for _, total in collected(both)) == expected
    assert tally.count() == 30


def test_one_that_is_read_twice_is_computed_once(env: Environment, tally: Any) -> None:
    kept = cached(env, tally, 10)
    union = kept.map(lambda n: n).union(kept.map(lambda n: -n))
    assert sum(total for _, total in collected(summed(union))) == 0
    assert outcomes(env).count(PRODUCED) == 1
    assert tally.count() == 10


def test_a_chain_of_cached_streams(env: Environment, tally: Any) -> None:
    inner = cached(env, tally, 10)
    outer = inner.map(lambda n: 2 * n).cache()
    assert sum(total for _, total in collected(summed(outer))) == 90
    assert outcomes(env).count(PRODUCED) == 2
    outer.invalidate()
    assert sum(total for _, total in collected(summed(outer))) == 90
    assert tally.count() == 10
    assert collected(outer) == [2 * n for n in range(10)]


def test_a_shuffled_stream_is_kept_on_the_way(env: Environment, tally: Any) -> None:
    words = env.from_collection("to be or not to be".split()).map(tally.counting(str.upper))
    counts = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).cache()
    lengths = counts.map(lambda pair: (len(pair[0]), pair[1])).key_by(lambda pair: pair[0]).sum(1)
    assert sorted(collected(lengths)) == [(2, 5), (3, 1)]
    assert outcomes(env) == [PRODUCED, RUN]
    assert sorted(collected(counts)) == [("BE", 2), ("NOT", 1), ("OR", 1), ("TO", 2)]
    assert outcomes(env) == [READ, RUN]
    assert tally.count() == 6

"""What is kept of streams: by the first job that needs it, for every later one."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import (
    CachedDataStream,
    DataStream,
    Environment,
    FileSink,
    KeySelector,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
    Source,
)
from holdfast.testing import assert_differ, assert_same, outcomes
from tests.spark.conftest import Tally
from tests.spark.streams import (
    ODD,
    PRODUCED,
    READ,
    RUN,
    Split,
    collected,
    lines,
    location,
    summed,
)


def is_anything_kept(env: Environment) -> bool:
    return any(kept.dataset_id is not None for kept in env.list_cached())


def lose_the_largest_part(env: Environment) -> None:
    max(location(env).glob("part-*.parquet"), key=lambda part: part.stat().st_size).unlink()


# -- what FLIP-205 shows ---------------------------------------------------------------------------

# "Create Cache" and "Use Cache", where `...` stands for what a program says in its place. Python
# asks for the parentheses.
CREATE_CACHE = """
cached_src = (env.from_source(source)
    .cache())

cached_map = (cached_src.map(mapper)
    .cache())

(cached_map.key_by(key_selector)
    .reduce(reducer)
    .print())

env.execute()
"""
USE_CACHE = """
cached_src.print()

(cached_map.key_by(key_selector)
    .reduce(reducer)
    .print())

env.execute()
"""


def test_create_cache_and_use_cache(
    env: Environment, tmp_path: Path, tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = tmp_path / "reads"

    class Words(Source):
        def enumerate_splits(self, parallelism: int) -> list[str]:
            return ["to be or", "not to be"]

        def read(self, split: str) -> Iterator[str]:
            with open(marks, "a") as file:
                file.write(".")
            yield from split.split()

    counting = tally.counting(lambda word: (word, 1))

    class Pair(MapFunction):
        def map(self, value: str) -> Any:
            return counting(value)

    class Word(KeySelector):
        def get_key(self, value: Any) -> Any:
            return value[0]

    class Add(ReduceFunction):
        def reduce(self, value1: Any, value2: Any) -> Any:
            return value1[0], value1[1] + value2[1]

    made = {"source": Words(), "mapper": Pair(), "key_selector": Word(), "reducer": Add()}
    names = {"env": env, **made}
    counts = ["('be', 2)", "('not', 1)", "('or', 1)", "('to', 2)"]
    exec(CREATE_CACHE, names)
    assert sorted(capsys.readouterr().out.splitlines()) == counts
    assert outcomes(env) == [PRODUCED, PRODUCED, RUN]
    created = env.last_job_result.persistent_result_partitions  # type: ignore[union-attr]
    assert len(created.descriptors) == 2
    exec(USE_CACHE, names)
    printed = capsys.readouterr().out.splitlines()
    assert sorted(printed) == sorted([*counts, "to", "be", "or", "not", "to", "be"])
    assert sorted(outcomes(env), key=str) == [READ, READ, RUN]
    assert env.last_job_result.persistent_result_partitions == created  # type: ignore[union-attr]
    assert (marks.read_text(), tally.count()) == ("..", 6)


# -- which streams are the same --------------------------------------------------------------------


def versioned(version: int, path: Path | None = None) -> Source:
    """Two splits, each of which holds what a file says."""

    class Versioned(Source):
        def __init__(self) -> None:
            self.state = version

        def enumerate_splits(self, parallelism: int) -> list[int]:
            return [1, 2]

        def read(self, split: int) -> Iterator[int]:
            yield split if path is None else int(path.read_text())

        def version(self) -> Any:
            return None if path is None else path.read_text()

    return Versioned()


def plus(env: Environment, more: int = 1, version: int = 1) -> DataStream:
    return env.from_source(versioned(version)).map(lambda n: n + more)


def digits(env: Environment, end: int) -> DataStream:
    return env.from_collection([f"{n:06}" for n in range(end)]).map(int)


SAME: dict[str, Callable[[Environment], DataStream]] = {
    "a source and a function": plus,
    "values in the plan": lambda env: digits(env, 3),
    "values that are broadcast": lambda env: digits(env, 50_000),
    "a shuffle": lambda env: plus(env).key_by(lambda n: n % 2).reduce(max),
}
OTHER: dict[str, tuple[Callable[[Environment], DataStream], Callable[[Environment], DataStream]]]
OTHER = {
    "a constant": (plus, lambda env: plus(env, 2)),
    "a source": (plus, lambda env: plus(env, version=2)),
    "an operator": (plus, lambda env: env.from_source(versioned(1)).filter(lambda n: n + 1)),
    "no operator": (plus, lambda env: env.from_source(versioned(1))),
    "a value": (lambda env: digits(env, 3), lambda env: digits(env, 4)),
    "a value of many": (lambda env: digits(env, 50_000), lambda env: digits(env, 50_001)),
    "a key": (SAME["a shuffle"], lambda env: plus(env).key_by(lambda n: n % 3).reduce(max)),
}


@pytest.mark.parametrize("what", SAME)
def test_the_same_stream_made_again_is_the_same(env: Environment, what: str) -> None:
    assert_same(*(env.from_data_stream(SAME[what](env), "n long") for _ in range(2)))


@pytest.mark.parametrize("what", OTHER)
def test_another_stream_is_another(env: Environment, what: str) -> None:
    assert_differ(*(env.from_data_stream(make(env), "n long") for make in OTHER[what]))


@pytest.mark.parametrize("source", ["a text file", "a source of one's own"])
@pytest.mark.sampled(2)
def test_what_is_invalidated_is_computed_from_what_its_source_has_become(
    env: Environment, tmp_path: Path, source: str
) -> None:
    file = tmp_path / "number.txt"

    def stream() -> CachedDataStream:
        if source == "a text file":
            return env.read_text_file(str(file)).map(int).cache()
        return env.from_source(versioned(1, file)).set_parallelism(1).filter(bool).cache()

    file.write_text("1")
    kept = stream()
    assert set(collected(kept)) == {1}
    file.write_text("2345")
    assert set(collected(stream())) == {2345} and PRODUCED in outcomes(env)
    kept.invalidate()
    assert set(collected(kept)) == {2345}
    assert set(collected(kept)) == {2345} and READ in outcomes(env)
    kept.invalidate()
    kept.invalidate()


# -- what reads it ---------------------------------------------------------------------------------


def test_one_kept_stream_is_consumed_by_two_partitionings(
    env: Environment, tmp_path: Path, tally: Tally
) -> None:
    numbers = env.from_collection(range(12)).map(tally.counting(lambda n: n)).cache()
    for expected in (PRODUCED, READ):
        for divisor in (2, 3):
            out = FileSink(str(tmp_path / f"by-{divisor}"), mode="overwrite")
            summed(numbers, divisor).sink_to(out)
        env.execute()
        assert expected in outcomes(env)
        assert lines(tmp_path / "by-2") == ["(0, 30)", "(1, 36)"]
        assert lines(tmp_path / "by-3") == ["(0, 18)", "(1, 22)", "(2, 26)"]
    assert tally.count() == 12


@pytest.mark.soak
def test_both_outputs_of_one_function_are_kept(env: Environment, tally: Tally) -> None:
    even = env.from_collection(range(10)).map(tally.counting(lambda n: n)).process(Split())
    kept_even, kept_odd = even.cache(), even.get_side_output(ODD).cache()
    assert sorted(collected(kept_even.union(kept_odd))) == list(range(10))
    before = tally.count()
    assert collected(kept_even) == [0, 2, 4, 6, 8]
    assert collected(kept_odd.map(lambda n: -n)) == [-1, -3, -5, -7, -9]
    assert tally.count() == before


@pytest.mark.parametrize("gone", ["the earlier", "the later"])
@pytest.mark.sampled(2, 1)
def test_of_two_kept_streams_in_a_chain_the_other_is_enough(
    env: Environment, tally: Tally, gone: str
) -> None:
    first = env.from_collection(range(6)).map(tally.counting(lambda n: n + 1)).cache()
    second = first.map(lambda n: n * 10).cache()
    assert collected(second) == [10, 20, 30, 40, 50, 60]
    assert outcomes(env).count(PRODUCED) == 2
    (first if gone == "the earlier" else second).invalidate()
    assert collected(second) == [10, 20, 30, 40, 50, 60]
    assert outcomes(env).count(READ) == 1
    assert (PRODUCED in outcomes(env)) == (gone == "the later")
    assert tally.count() == 6


def test_it_is_kept_until_the_end_of_a_block(env: Environment) -> None:
    for number in range(2):
        with env.from_collection([number]).map(str).cache() as hot:
            assert collected(hot) == [str(number)]
            assert is_anything_kept(env)
        assert env.list_cached() == []


class Where(MapFunction):
    """Gives with each record in which subtask it is."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.where = (
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_number_of_parallel_subtasks(),
        )

    def map(self, value: Any) -> Any:
        return value, self.where


def test_it_is_read_in_as_many_subtasks_and_in_their_order(env: Environment) -> None:
    env.set_parallelism(3)
    kept = env.from_collection(range(30)).map(lambda n: n).cache()
    for expected in (PRODUCED, READ):
        # Subtasks that are late are not waited for, so only the order within each is sure.
        found = sorted(collected(kept.map(Where())), key=lambda record: record[1])
        assert found == [(n, (n // 10, 3)) for n in range(30)]
        assert outcomes(env) == [expected, RUN]
    narrow = kept.map(lambda n: n + 1).set_parallelism(2)
    assert sorted(collected(narrow)) == list(range(1, 31))


def test_kept_records_of_any_kind(env: Environment) -> None:
    records = [None, 0, "", b"", (), [], {}, {"a": [None]}, 1.5, float("inf"), 10**30, "ü" * 1000]
    kept = env.from_collection(records).cache()
    empty = kept.filter(lambda record: False).cache()
    for expected in (PRODUCED, READ):
        assert (collected(kept), expected in outcomes(env)) == (records, True)
        assert (collected(empty), expected in outcomes(env)) == ([], True)


# -- what is lost, or not to be trusted -----------------------------------------------------------


@pytest.mark.parametrize("into", ["collect", "sinks"])
@pytest.mark.sampled(2)
def test_a_lost_partition_is_computed_again(
    env: Environment, tmp_path: Path, tally: Tally, into: str
) -> None:
    squares = env.from_collection(range(10)).map(tally.counting(lambda n: n * n)).cache()
    expected = collected(squares)
    lose_the_largest_part(env)
    if into == "collect":
        assert collected(squares.map(lambda n: -n)) == [-n for n in expected]
    else:
        squares.sink_to(FileSink(str(tmp_path / "out")))
        squares.map(lambda n: -n).sink_to(FileSink(str(tmp_path / "negative")))
        env.execute()
        assert lines(tmp_path / "out") == sorted(map(str, expected))
        assert lines(tmp_path / "negative") == sorted(str(-n) for n in expected)
    assert len(env.last_job_result.losses) == 1  # type: ignore[union-attr]
    assert PRODUCED in outcomes(env)
    computed = tally.count()
    assert collected(squares) == expected and tally.count() == computed
    assert env.last_job_result.losses == ()  # type: ignore[union-attr]


def test_sinks_that_have_ended_are_not_run_again_after_a_loss(
    env: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = env.from_collection(range(4)).map(lambda n: n).cache()
    collected(kept)
    root = tmp_path / "kept"

    def losing(record: Any) -> Any:
        for dataset in root.glob("application-*/datasets/*"):
            shutil.rmtree(dataset)
        return record

    env.from_collection(["first"]).map(losing).print()
    kept.map(lambda n: 10 * n).print()
    result = env.execute("lose")
    assert capsys.readouterr().out.split() == ["first", "0", "10", "20", "30"]
    assert len(result.losses) == 1
    assert collected(kept) == [0, 1, 2, 3] and READ in outcomes(env)


def test_what_several_need_is_computed_once_and_released(
    env: Environment, tmp_path: Path, tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    even = env.from_collection(range(6)).map(tally.counting(lambda n: n)).process(Split())
    odd = even.get_side_output(ODD)
    even.print("even")
    odd.print("odd")
    odd.union(even).key_by(lambda n: 0).reduce(lambda a, b: a + b).print("sum")
    result = env.execute("share")
    printed = sorted(capsys.readouterr().out.splitlines())
    assert printed == [*(f"even> {n}" for n in (0, 2, 4)), *(f"odd> {n}" for n in (1, 3, 5)),
                       "sum> 15"]  # fmt: skip
    assert tally.count() == 6
    assert not result.persistent_result_partitions.descriptors and not env.list_cached()
    assert not list((tmp_path / "kept").glob("application-*/datasets/*"))


def test_what_was_not_written_by_this_application_is_never_unpickled(
    env: Environment, tmp_path: Path
) -> None:
    marker = tmp_path / "unpickled"

    class Harm:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(marker),)

    words = env.from_collection(["to", "be"]).map(str.upper).cache()
    assert collected(words) == ["TO", "BE"]
    harm = pickle.dumps([Harm()], protocol=5)
    for part in location(env).glob("part-*.parquet"):
        table = pq.read_table(part)
        place = table.schema.get_field_index("batch")
        harmful = pa.array([harm] * len(table), pa.binary())
        pq.write_table(table.set_column(place, table.schema.field(place), harmful), part)
    assert collected(words) == ["TO", "BE"]
    assert not marker.exists()
    assert len(env.last_job_result.losses) == 1  # type: ignore[union-attr]

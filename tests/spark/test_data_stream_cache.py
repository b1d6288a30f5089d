"""What is kept of streams: by the first job that needs it, for every later one."""

from __future__ import annotations

import gc
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from holdfast import (
    CachedDataStream,
    DataStream,
    Environment,
    FileSink,
    OutputTag,
    ProcessFunction,
    Source,
    VertexOutcome,
)

PRODUCED, READ, RUN = VertexOutcome.PRODUCED, VertexOutcome.READ, VertexOutcome.RUN


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as records:
        return list(records)


def outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def parts(env: Environment, index: int = -1) -> list[Path]:
    """The partitions of a kept stream, largest first."""
    location = env.list_cached()[index].location
    assert location is not None
    return sorted(location.glob("part-*.parquet"), key=lambda part: -part.stat().st_size)


def lines(directory: Path) -> list[str]:
    files = sorted(directory.glob("part-*"))
    return sorted(line for file in files for line in file.read_text().splitlines())


def test_the_first_job_keeps_what_later_jobs_read(env: Environment, tally: Any) -> None:
    squares = env.from_collection(range(10)).map(tally.counting(lambda n: n * n)).cache()
    assert env.list_cached() == [] or env.list_cached()[-1].dataset_id is None
    assert collected(squares) == [n * n for n in range(10)]
    assert outcomes(env).count(PRODUCED) == 1
    assert collected(squares.filter(lambda n: n > 50)) == [64, 81]
    assert READ in outcomes(env)
    assert PRODUCED not in outcomes(env)
    assert collected(squares) == [n * n for n in range(10)]
    assert tally.count() == 10


def test_the_same_stream_made_again_is_found(env: Environment, tally: Any) -> None:
    def squares(factor: int) -> CachedDataStream:
        counting = tally.counting(lambda n: n * n * factor)
        return env.from_collection(range(5)).map(counting).cache()

    assert collected(squares(1)) == [0, 1, 4, 9, 16]
    assert collected(squares(1).map(lambda n: -n)) == [0, -1, -4, -9, -16]
    assert READ in outcomes(env)
    assert tally.count() == 5
    assert collected(squares(2)) == [0, 2, 8, 18, 32]
    assert tally.count() == 10


def test_a_stream_is_found_by_its_functions_and_its_source(env: Environment) -> None:
    class Splits(Source):
        def __init__(self, version: int) -> None:
            self.state = version

        def enumerate_splits(self, parallelism: int) -> list[int]:
            return [1, 2]

        def read(self, split: int) -> Iterator[int]:
            yield split

    kept = env.from_source(Splits(1)).map(lambda n: n + 1).cache()
    collected(kept)
    for other in (
        env.from_source(Splits(2)).map(lambda n: n + 1),
        env.from_source(Splits(1)).map(lambda n: n + 2),
        env.from_source(Splits(1)).flat_map(lambda n: [n + 1]),
        env.from_source(Splits(1)).filter(lambda n: n + 1),
        env.from_source(Splits(1)),
    ):
        collected(other.cache())
        assert PRODUCED in outcomes(env)
    collected(env.from_source(Splits(1)).map(lambda n: n + 1).cache())
    assert PRODUCED not in outcomes(env)


def test_invalidated_it_is_computed_again_from_what_its_source_has_become(
    env: Environment, tmp_path: Path
) -> None:
    file = tmp_path / "words.txt"
    file.write_text("to\nbe\n")
    words = env.read_text_file(str(file)).map(str.upper).cache()
    assert collected(words) == ["TO", "BE"]
    file.write_text("or\nnot\nto\nbe\n")
    words.invalidate()
    assert not parts_exist(env)
    assert collected(words) == ["OR", "NOT", "TO", "BE"]
    assert PRODUCED in outcomes(env)
    assert collected(words) == ["OR", "NOT", "TO", "BE"]
    assert READ in outcomes(env)
    words.invalidate()
    words.invalidate()


def parts_exist(env: Environment) -> bool:
    return any(kept.dataset_id is not None for kept in env.list_cached())


def test_a_source_of_one_s_own_tells_its_version(env: Environment, tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    Path(state).write_text("1")

    class Stateful(Source):
        def enumerate_splits(self, parallelism: int) -> list[str]:
            return [Path(state).read_text()]

        def read(self, split: str) -> Iterator[str]:
            yield split

        def version(self) -> Any:
            return Path(state).read_text()

    kept = env.from_source(Stateful()).cache()
    assert collected(kept) == ["1"]
    Path(state).write_text("2")
    assert collected(env.from_source(Stateful()).cache()) == ["2"]
    kept.invalidate()
    assert collected(kept) == ["2"]


def test_one_kept_stream_is_consumed_by_two_partitionings(
    env: Environment, tmp_path: Path, tally: Any
) -> None:
    numbers = env.from_collection(range(12)).map(tally.counting(lambda n: n)).cache()
    for divisor in (2, 3):
        summed = numbers.map(lambda n, divisor=divisor: (n % divisor, n)).key_by(lambda p: p[0])
        summed.sum(1).sink_to(FileSink(str(tmp_path / f"by-{divisor}")))
    for number in (1, 2):
        env.execute()
        assert lines(tmp_path / "by-2") == ["(0, 30)", "(1, 36)"]
        assert lines(tmp_path / "by-3") == ["(0, 18)", "(1, 22)", "(2, 26)"]
        assert tally.count() == 12
        assert (PRODUCED if number == 1 else READ) in outcomes(env)
        for divisor in (2, 3):
            summed = numbers.map(lambda n, divisor=divisor: (n % divisor, n)).key_by(lambda p: p[0])
            summed.sum(1).sink_to(FileSink(str(tmp_path / f"by-{divisor}"), mode="overwrite"))
    env.execute()


def test_a_side_output_is_kept(env: Environment, tally: Any) -> None:
    odd = OutputTag("odd")
    counting = tally.counting(lambda n: n)

    class Split(ProcessFunction):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
            if counting(value) % 2:
                yield odd, value
            else:
                yield value

    even = env.from_collection(range(10)).process(Split())
    kept = even.get_side_output(odd).cache()
    assert collected(kept) == [1, 3, 5, 7, 9]
    assert tally.count() == 10
    assert collected(kept.map(lambda n: -n)) == [-1, -3, -5, -7, -9]
    assert tally.count() == 10
    assert collected(even) == [0, 2, 4, 6, 8]
    assert tally.count() == 20


def test_both_sides_of_one_function_are_kept_and_it_runs_once(env: Environment, tally: Any) -> None:
    odd = OutputTag("odd")
    counting = tally.counting(lambda n: n)

    class Split(ProcessFunction):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
            yield (odd, value) if counting(value) % 2 else value

    even = env.from_collection(range(10)).process(Split())
    kept_even, kept_odd = even.cache(), even.get_side_output(odd).cache()
    assert sorted(collected(kept_even.union(kept_odd))) == list(range(10))
    assert tally.count() in (10, 20)
    before = tally.count()
    assert collected(kept_even) == [0, 2, 4, 6, 8]
    assert collected(kept_odd) == [1, 3, 5, 7, 9]
    assert tally.count() == before


def test_a_lost_partition_is_computed_again_unasked(env: Environment, tally: Any) -> None:
    squares = env.from_collection(range(10)).map(tally.counting(lambda n: n * n)).cache()
    expected = collected(squares)
    parts(env)[0].unlink()
    assert collected(squares.map(lambda n: n + 1)) == [n + 1 for n in expected]
    assert env.last_job_result is not None
    assert len(env.last_job_result.losses) == 1
    assert PRODUCED in outcomes(env)
    computed = tally.count()
    assert collected(squares) == expected
    assert env.last_job_result.losses == ()
    assert tally.count() == computed


def test_a_lost_partition_is_computed_again_for_sinks(
    env: Environment, tmp_path: Path, tally: Any
) -> None:
    squares = env.from_collection(range(10)).map(tally.counting(lambda n: n * n)).cache()
    expected = collected(squares)
    parts(env)[0].unlink()
    squares.sink_to(FileSink(str(tmp_path / "out")))
    squares.map(lambda n: -n).sink_to(FileSink(str(tmp_path / "negative")))
    result = env.execute()
    assert lines(tmp_path / "out") == sorted(map(str, expected))
    assert lines(tmp_path / "negative") == sorted(str(-n) for n in expected)
    assert len(result.losses) == 1


def test_what_was_not_written_by_this_application_is_never_unpickled(
    env: Environment, tmp_path: Path
) -> None:
    marker = tmp_path / "unpickled"

    class Harm:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(marker),)

    words = env.from_collection(["to", "be"]).map(str.upper).cache()
    assert collected(words) == ["TO", "BE"]
    for part in parts(env):
        table = pq.read_table(part)
        harmful = pa.array([pickle.dumps([Harm()], protocol=5)] * len(table), pa.binary())
        place = table.schema.get_field_index("batch")
        assert place >= 0, table.schema
        pq.write_table(table.set_column(place, table.schema.field(place), harmful), part)
    assert collected(words) == ["TO", "BE"]
    assert not marker.exists()
    assert env.last_job_result is not None
    assert len(env.last_job_result.losses) == 1


def test_records_are_kept_in_batches_beside_a_manifest(env: Environment) -> None:
    numbers = env.from_collection(range(10_000)).map(lambda n: (n, str(n))).cache()
    collected(numbers)
    rows = sum(pq.read_metadata(part).num_rows for part in parts(env))
    assert 1 <= rows <= 100
    kept = env.list_cached()[-1]
    assert kept.partitions >= 1
    assert kept.hits == 1
    assert kept.location is not None
    assert (kept.location / "_manifest.json").exists()


def test_of_two_kept_streams_in_a_chain_the_later_one_is_enough(
    env: Environment, tally: Any
) -> None:
    first = env.from_collection(range(6)).map(tally.counting(lambda n: n + 1)).cache()
    second = first.map(lambda n: n * 10).cache()
    assert collected(second) == [10, 20, 30, 40, 50, 60]
    assert outcomes(env).count(PRODUCED) == 2
    first.invalidate()
    assert collected(second.filter(lambda n: n > 40)) == [50, 60]
    assert outcomes(env).count(READ) == 1
    assert PRODUCED not in outcomes(env)
    assert tally.count() == 6
    second.invalidate()
    assert collected(second) == [10, 20, 30, 40, 50, 60]
    assert outcomes(env).count(PRODUCED) == 2
    assert tally.count() == 12


def test_the_earlier_of_two_in_a_chain_is_read_when_the_later_is_invalidated(
    env: Environment, tally: Any
) -> None:
    first = env.from_collection(range(6)).map(tally.counting(lambda n: n + 1)).cache()
    second = first.map(lambda n: n * 10).cache()
    collected(second)
    second.invalidate()
    assert collected(second) == [10, 20, 30, 40, 50, 60]
    assert sorted(o.value for o in outcomes(env) if o is not RUN) == [PRODUCED.value, READ.value]
    assert tally.count() == 6


def test_it_is_kept_until_the_end_of_a_block(env: Environment, tally: Any) -> None:
    with env.from_collection(range(3)).map(tally.counting(str)).cache() as hot:
        assert collected(hot) == ["0", "1", "2"]
        assert collected(hot) == ["0", "1", "2"]
        assert tally.count() == 3
    assert not parts_exist(env)
    assert env.list_cached() == []


def test_a_stream_that_is_forgotten_is_no_burden(env: Environment) -> None:
    for number in range(3):
        hot = env.from_collection([number]).cache()
        collected(hot)
        hot.invalidate()
        del hot
    gc.collect()
    assert env.list_cached() == []


def test_a_wider_producer_is_read_by_a_narrower_consumer(env: Environment) -> None:
    wide = env.from_collection(range(100)).rebalance().map(lambda n: n).set_parallelism(4).cache()
    assert sorted(collected(wide)) == list(range(100))
    narrow = wide.map(lambda n: n + 1).set_parallelism(1)
    assert sorted(collected(narrow)) == list(range(1, 101))
    assert sorted(collected(wide.map(lambda n: n).set_parallelism(3))) == list(range(100))


def test_kept_records_of_any_kind(env: Environment) -> None:
    records = [None, 0, "", b"", (), [], {}, {"a": [None]}, 1.5, float("inf"), 10**30, "ü" * 1000]
    kept = env.from_collection(records).cache()
    assert collected(kept) == records
    assert collected(kept) == records
    empty = kept.filter(lambda record: False).cache()
    assert collected(empty) == []
    assert collected(empty) == []
    assert READ in outcomes(env)


def test_an_environment_on_another_directory_shares_nothing(
    env: Environment, spark: SparkSession, tmp_path: Path, tally: Any
) -> None:
    def stream(environment: Environment) -> CachedDataStream:
        return environment.from_collection([1, 2]).map(tally.counting(str)).cache()

    mine = stream(env)
    assert collected(mine) == ["1", "2"]
    directory = {"intermediate-result-storage.directory": str(tmp_path / "another")}
    with Environment(spark, config=directory) as other:
        theirs = stream(other)
        assert collected(theirs) == ["1", "2"]
        assert tally.count() == 4
        assert collected(theirs) == ["1", "2"]
    assert collected(mine) == ["1", "2"]
    assert tally.count() == 4


def test_a_table_of_a_kept_stream_reads_it(env: Environment, tally: Any) -> None:
    pairs = env.from_collection([("a", 1), ("b", 2)]).map(tally.counting(lambda p: p)).cache()
    table = env.from_data_stream(pairs, "name string, n long")
    assert table.count() == 2
    assert PRODUCED in outcomes(env)
    assert table.selectExpr("sum(n) AS s").first()["s"] == 3
    assert READ in outcomes(env)
    assert collected(pairs) == [("a", 1), ("b", 2)]
    assert tally.count() == 2


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_kept_at_any_parallelism(env: Environment, parallelism: int) -> None:
    env.set_parallelism(parallelism)
    kept = env.from_collection(range(50)).map(lambda n: (n % 3, n)).cache()
    for _ in range(2):
        summed = kept.key_by(lambda pair: pair[0]).sum(1)
        assert sorted(collected(summed)) == [(0, 408), (1, 425), (2, 392)]

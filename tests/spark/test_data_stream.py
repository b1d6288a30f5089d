"""What becomes of the records of streams, whichever way they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row
from pyspark.sql.types import LongType, StringType, StructField, StructType

from holdfast import (
    DataStream,
    Encoder,
    Environment,
    FileSink,
    MapFunction,
    NumberSequenceSource,
    RuntimeContext,
    Sink,
    Source,
)
from holdfast.testing import outcomes
from tests.spark.conftest import Tally
from tests.spark.streams import ODD, PRODUCED, READ, SameByKey, Split, collected, lines

Make = Callable[[Environment, Path], DataStream]
SALES = [("a", 3, "x"), ("b", 5, "y"), ("a", 1, "z")]
ODD_ONES = [None, "x", 1.5, (1, [2]), b"", {"a": [None]}, 10**30]
# 1, 1.0 and True are the same key, as they are in a dict, and so are 0 and -0.0.
KEYS = [None, 1, 1.0, "1", b"1", (1, None), True, -0.0, 0, frozenset({1, 2})]


def any_order(*records: Any) -> Counter[str]:
    return Counter(map(repr, records))


def numbers(env: Environment, end: int = 10) -> DataStream:
    return env.from_collection(range(end))


def texts(env: Environment, home: Path) -> DataStream:
    (home / "a.txt").write_text("eins\nzwei\n\n", encoding="utf-8")
    (home / "b.txt").write_text("drei ü", encoding="utf-8")
    return env.read_text_file(str(home))


class Squares(Source):
    def enumerate_splits(self, parallelism: int) -> list[int]:
        return list(range(4))

    def read(self, split: int) -> Iterator[int]:
        yield split
        yield split * split


# A list where the order is fixed.
GIVES: dict[str, tuple[Make, list[Any] | Counter[str]]] = {
    "map, flat_map and filter": (
        lambda env, _: (
            env.from_collection(["to be", "or not"])
            .flat_map(str.split)
            .filter(lambda word: word != "or")
            .map(str.upper)
        ),
        ["TO", "BE", "NOT"],
    ),
    "records of any kind": (lambda env, _: env.from_collection(iter(ODD_ONES)), ODD_ONES),
    "a side output": (
        lambda env, _: numbers(env).process(Split()).get_side_output(ODD).map(lambda n: -n),
        [-1, -3, -5, -7, -9],
    ),
    "both outputs": (
        lambda env, _: (split := numbers(env).process(Split())).union(split.get_side_output(ODD)),
        any_order(*range(10)),
    ),
    "a union": (
        lambda env, _: (n := env.from_collection([1, 2])).union(
            n, env.from_collection(["a"]), n.map(lambda x: -x)
        ),
        any_order(1, 2, 1, 2, "a", -1, -2),
    ),
    "reduce": (
        lambda env, _: (
            env.from_collection([(key, 1) for key in KEYS * 3])
            .rebalance()
            .key_by(lambda pair: pair[0])
            .reduce(lambda a, b: (a[0], a[1] + b[1]))
            .map(lambda pair: pair[1])
        ),
        any_order(*Counter(KEYS * 3).values()),
    ),
    "sums of tuples": (
        lambda env, _: (
            env.from_collection(SALES).key_by(lambda sale: sale[0]).sum(1).set_parallelism(3)
        ),
        any_order(("a", 4, "x"), ("b", 5, "y")),
    ),
    "a keyed stream": (
        lambda env, _: numbers(env, 6).key_by(lambda n: n % 2).map(lambda n: n * n),
        any_order(0, 1, 4, 9, 16, 25),
    ),
    "process by key": (
        lambda env, _: numbers(env, 4).key_by(lambda n: n % 2).process(SameByKey()),
        any_order((0, 0), (0, 2), (1, 1), (1, 3)),
    ),
    "a directory of texts": (texts, any_order("", "drei ü", "eins", "zwei")),
    "a source of one's own": (
        lambda env, _: env.from_source(Squares()),
        [0, 0, 1, 1, 2, 4, 3, 9],
    ),
    "a table's rows": (
        lambda env, _: (
            env.sql("SELECT id AS n, concat('n', id) AS t FROM range(2)")
            .to_data_stream()
            .map(lambda row: (row, row.n + 1))
        ),
        any_order((Row(n=0, t="n0"), 1), (Row(n=1, t="n1"), 2)),
    ),
}


@pytest.mark.parametrize("what", GIVES)
def test_what_a_stream_gives(env: Environment, tmp_path: Path, what: str) -> None:
    make, expected = GIVES[what]
    records = collected(make(env, tmp_path))
    assert (records if isinstance(expected, list) else any_order(*records)) == expected


def test_a_collection_is_taken_as_it_is(env: Environment) -> None:
    items = [[1], [2]]
    stream = env.from_collection(items)
    items[0].append(9)
    items.clear()
    assert collected(stream) == [[1], [2]]


def test_a_function_is_opened_and_closed_in_each_subtask(env: Environment, tmp_path: Path) -> None:
    log = str(tmp_path / "log")

    class Where(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.where = (
                runtime_context.get_index_of_this_subtask(),
                runtime_context.get_number_of_parallel_subtasks(),
                runtime_context.get_task_name(),
            )
            self.note("o")

        def close(self) -> None:
            self.note("c")

        def map(self, value: int) -> Any:
            return self.where

        def note(self, what: str) -> None:
            with open(log, "a") as file:
                file.write(what)

    one = env.from_source(NumberSequenceSource(1, 4_000)).set_parallelism(1)
    # A rebalance, and another parallelism, spread records over all subtasks.
    for stream in (one.rebalance(), one):
        records = collected(stream.map(Where()).set_parallelism(2).name("where"))
        assert len(records) == 4_000
        assert set(records) == {(0, 2, "where"), (1, 2, "where")}
        assert sorted(Path(log).read_text()) == ["c", "c", "o", "o"]
        Path(log).unlink()


def test_a_file_that_is_not_there_is_missed(env: Environment, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        collected(env.read_text_file(str(tmp_path / "nowhere.txt")))


def test_one_job_runs_all_sinks(
    env: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Appending(Sink):
        def __init__(self, path: str) -> None:
            self.path = path

        def open(self, runtime_context: RuntimeContext) -> None:
            index = runtime_context.get_index_of_this_subtask()
            self.file = open(f"{self.path}-{index}", "a")  # noqa: SIM115

        def write(self, value: Any) -> None:
            self.file.write(f"{value}\n")

        def close(self) -> None:
            self.file.close()

    stream = env.from_collection([1, 2, 3])
    stream.print("n")
    stream.map(lambda n: n * n).print()
    encoder = Encoder.simple_string_encoder()
    sink = FileSink.for_row_format(str(tmp_path / "lines"), encoder).build()
    stream.map(lambda n: {"n": n}).sink_to(sink).name("lines")
    stream.sink_to(Appending(str(tmp_path / "part"))).set_parallelism(2)
    # Collecting leaves them to `execute`.
    assert collected(stream) == [1, 2, 3]
    assert capsys.readouterr().out == ""
    result = env.execute("four sinks")
    assert result is env.last_job_result and result.name == "four sinks"
    printed = capsys.readouterr().out.splitlines()
    assert sorted(printed) == ["1", "4", "9", "n> 1", "n> 2", "n> 3"]
    assert lines(tmp_path / "lines") == ["{'n': 1}", "{'n': 2}", "{'n': 3}"]
    assert {file.name for file in tmp_path.glob("part-*")} == {"part-0", "part-1"}
    assert lines(tmp_path) == ["1", "2", "3"]


def test_an_iterator_is_read_in_part_or_as_a_whole(env: Environment) -> None:
    stream = env.from_source(NumberSequenceSource(0, 1999)).set_parallelism(1)
    with stream.execute_and_collect("some") as records:
        assert [records.next(), next(records)] == [0, 1]
    assert list(records) == []
    records.close()
    whole = stream.execute_and_collect("whole")
    assert sum(whole) == sum(range(2_000))
    assert env.last_job_result is not None and env.last_job_result.name == "whole"
    with pytest.raises(StopIteration):
        whole.next()
    assert stream.execute_and_collect(limit=3) == [0, 1, 2]
    assert stream.execute_and_collect("few", 3_000) == list(range(2_000))


def test_what_is_kept_of_a_table_is_read_by_a_stream(env: Environment) -> None:
    hot = env.range(4).where("id > 1").cache()
    hot.count()
    assert sorted(collected(hot.to_data_stream().map(lambda row: row.id))) == [2, 3]
    assert READ in outcomes(env) and PRODUCED not in outcomes(env)


TABLES: dict[str, list[Any]] = {
    "tuples": [("a", 1), ("b", None)],
    "lists": [["a", 1], ["b", None]],
    "rows, by name": [Row(n=1, name="a"), Row(n=None, name="b")],
    "dicts": [{"name": "a", "n": 1}, {"n": None, "name": "b"}],
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.sampled(2)
def test_a_stream_as_a_table(env: Environment, kind: str) -> None:
    schema = StructType([StructField("name", StringType()), StructField("n", LongType())])
    table = env.from_data_stream(env.from_collection(TABLES[kind]), schema)
    assert table.schema == schema
    assert sorted(map(tuple, table.collect())) == [("a", 1), ("b", None)]


def test_a_table_of_a_stream_is_cached_and_is_a_stream_again(
    env: Environment, tally: Tally
) -> None:
    words = env.from_collection(["to", "be"]).map(tally.counting(str.upper))
    hot = env.from_data_stream(words, "word string").cache()
    assert hot.count() == 2
    assert sorted(row.word for row in collected(hot.to_data_stream())) == ["BE", "TO"]
    assert tally.count() == 2

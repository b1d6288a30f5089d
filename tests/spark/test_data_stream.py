"""What becomes of the records of streams, whichever way they take."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import Row
from pyspark.sql.types import LongType, StringType, StructField, StructType

from holdfast import (
    DataStream,
    Encoder,
    Environment,
    FileSink,
    FileSource,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    NumberSequenceSource,
    OutputTag,
    ProcessFunction,
    ReducingStateDescriptor,
    Sink,
    Source,
    StreamFormat,
    ValueStateDescriptor,
    VertexOutcome,
)


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as records:
        return list(records)


def test_map_flat_map_and_filter(env: Environment) -> None:
    lines = env.from_collection(["to be", "or not", "to be"])
    words = lines.flat_map(str.split).filter(lambda word: word != "or").map(str.upper)
    assert Counter(collected(words)) == Counter(["TO", "BE", "NOT", "TO", "BE"])


@pytest.mark.parametrize("items", [[], [None], [0], list(range(1000)), [None, "x", 1.5, (1, [2])]])
def test_a_collection_comes_back_in_order(env: Environment, items: list[Any]) -> None:
    assert collected(env.from_collection(items)) == items
    assert collected(env.from_collection(iter(items)).map(lambda item: item)) == items


def test_a_collection_is_taken_as_it_is(env: Environment) -> None:
    items = [[1], [2]]
    stream = env.from_collection(items)
    items[0].append(9)
    items.clear()
    assert collected(stream) == [[1], [2]]


def test_functions_with_open_and_close(env: Environment, tmp_path: Path) -> None:
    log = str(tmp_path / "log")

    class Shifted(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.index = runtime_context.get_index_of_this_subtask()
            self.of = runtime_context.get_number_of_parallel_subtasks()
            self.name = runtime_context.get_task_name()
            with open(log, "a") as file:
                file.write("o")

        def close(self) -> None:
            with open(log, "a") as file:
                file.write("c")

        def map(self, value: int) -> Any:
            return value, self.index, self.of, self.name

    stream = env.from_source(NumberSequenceSource(1, 4)).map(Shifted()).set_parallelism(2)
    records = collected(stream.name("shift"))
    assert sorted(value for value, *_ in records) == [1, 2, 3, 4]
    assert {index for _, index, _, _ in records} <= {0, 1}
    assert {(of, name) for _, _, of, name in records} == {(2, "shift")}
    assert sorted((tmp_path / "log").read_text()) == ["c", "c", "o", "o"]


def test_records_keep_their_order_where_the_first_subtask_is_late(env: Environment) -> None:
    class Late(MapFunction):
        def open(self, runtime_context: Any) -> None:
            if not runtime_context.get_index_of_this_subtask():
                time.sleep(3)

        def map(self, value: int) -> int:
            return value

    env.set_parallelism(2)
    assert collected(env.from_collection(range(5)).map(Late())) == [0, 1, 2, 3, 4]


def test_side_outputs(env: Environment) -> None:
    odd, none = OutputTag("odd"), OutputTag("none")

    class Split(ProcessFunction):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
            if value % 2:
                yield odd, value
            else:
                yield value

    even = env.from_collection(range(10)).process(Split())
    assert collected(even) == [0, 2, 4, 6, 8]
    assert collected(even.get_side_output(odd).map(lambda n: -n)) == [-1, -3, -5, -7, -9]
    assert collected(even.get_side_output(none)) == []
    both = even.union(even.get_side_output(odd))
    assert sorted(collected(both)) == list(range(10))


@pytest.mark.parametrize(
    ("records", "key", "field", "expected"),
    [
        pytest.param(
            [("a", 3, "x"), ("b", 5, "y"), ("a", 1, "z")],
            lambda r: r[0],
            1,
            {
                "sum": [("a", 4, "x"), ("b", 5, "y")],
                "min": [("a", 1, "x"), ("b", 5, "y")],
                "max": [("a", 3, "x"), ("b", 5, "y")],
            },
            id="tuples",
        ),
        pytest.param(
            [Row(shop="a", amount=3), Row(shop="a", amount=4)],
            lambda r: r.shop,
            "amount",
            {
                "sum": [Row(shop="a", amount=7)],
                "min": [Row(shop="a", amount=3)],
                "max": [Row(shop="a", amount=4)],
            },
            id="rows",
        ),
        pytest.param(
            [{"shop": "a", "n": 3}, {"shop": "a", "n": 4}],
            lambda r: r["shop"],
            "n",
            {
                "sum": [{"shop": "a", "n": 7}],
                "min": [{"shop": "a", "n": 3}],
                "max": [{"shop": "a", "n": 4}],
            },
            id="dicts",
        ),
    ],
)
def test_aggregates(
    env: Environment,
    records: list[Any],
    key: Callable[[Any], Any],
    field: int | str,
    expected: dict[str, list[Any]],
) -> None:
    for parallelism in (1, 3):
        stream = env.from_collection(records).set_parallelism(1)
        keyed = stream.key_by(key)
        for name, wanted in expected.items():
            answer = collected(getattr(keyed, name)(field).set_parallelism(parallelism))
            assert sorted(map(repr, answer)) == sorted(map(repr, wanted)), (name, parallelism)


def test_reduce_answers_once_for_each_key(env: Environment) -> None:
    keys = [None, 1, 1.0, "1", b"1", (1, None), True, -0.0, 0, frozenset({1, 2})]
    pairs = env.from_collection([(key, 1) for key in keys * 3]).rebalance()
    summed = pairs.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    # 1, 1.0 and True are the same key, as they are in a dict, and so are 0 and -0.0.
    expected = Counter(keys * 3)
    assert Counter(dict(collected(summed))) == expected


@settings(max_examples=8)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-9, 9)), max_size=40),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_any_parallelism_gives_the_same_sums(
    env: Environment, pairs: list[tuple[str, int]], before: int, after: int
) -> None:
    stream = env.from_collection(pairs).set_parallelism(before).map(lambda pair: pair)
    summed = stream.key_by(lambda pair: pair[0]).sum(1).set_parallelism(after)
    expected: Counter[str] = Counter()
    for key, value in pairs:
        expected[key] += value
    assert dict(collected(summed)) == {key: expected[key] for key, _ in pairs}


def test_state_of_each_key(env: Environment) -> None:
    last = OutputTag("evens")

    class Remembering(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count"))
            self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))
            self.total = runtime_context.get_reducing_state(
                ReducingStateDescriptor("total", lambda a, b: a + b)
            )

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
            self.count.update((self.count.value() or 0) + 1)
            self.seen.add(value[1])
            self.total.add(value[1])
            if self.count.value() == 3:
                yield ctx.get_current_key(), list(self.seen.get()), self.total.get()
            if value[1] % 2 == 0:
                yield last, value

    pairs = env.from_collection([(n % 2, n) for n in range(6)]).set_parallelism(1)
    stream = pairs.key_by(lambda pair: pair[0]).process(Remembering())
    assert sorted(collected(stream)) == [(0, [0, 2, 4], 6), (1, [1, 3, 5], 9)]
    assert sorted(collected(stream.get_side_output(last))) == [(0, 0), (0, 2), (0, 4)]


def test_a_keyed_stream_is_a_stream(env: Environment) -> None:
    keyed = env.from_collection(range(6)).key_by(lambda n: n % 2)
    assert sorted(collected(keyed)) == list(range(6))
    assert sorted(collected(keyed.map(lambda n: n * n))) == [0, 1, 4, 9, 16, 25]
    by_third = keyed.key_by(lambda n: n % 3).reduce(lambda a, b: a + b)
    assert sorted(collected(by_third)) == [3, 5, 7]


def test_union_has_each_record_as_often_as_its_inputs(env: Environment) -> None:
    numbers = env.from_collection([1, 2])
    united = numbers.union(numbers, env.from_collection(["a"]), numbers.map(lambda n: -n))
    assert Counter(collected(united)) == Counter([1, 2, 1, 2, "a", -1, -2])
    assert Counter(collected(numbers.union())) == Counter([1, 2])


def test_rebalance_spreads_records_over_all_subtasks(env: Environment) -> None:
    class Where(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.index = runtime_context.get_index_of_this_subtask()

        def map(self, value: int) -> Any:
            return self.index, os.getpid()

    one = env.from_source(NumberSequenceSource(1, 40_000)).set_parallelism(1)
    spread = Counter(index for index, _ in collected(one.rebalance().map(Where())))
    assert set(spread) == set(range(env.get_parallelism()))
    gathered = collected(one.map(Where()).set_parallelism(3))
    assert {index for index, _ in gathered} == {0, 1, 2}
    assert len(gathered) == 40_000


def test_text_files(env: Environment, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("eins\nzwei\n\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("drei ü", encoding="utf-8")
    assert collected(env.read_text_file(str(tmp_path / "a.txt"))) == ["eins", "zwei", ""]
    both = ["", "drei ü", "eins", "zwei"]
    assert sorted(collected(env.read_text_file(str(tmp_path)))) == both
    source = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), str(tmp_path / "a.txt"), str(tmp_path / "b.txt")
    ).build()
    assert sorted(collected(env.from_source(source))) == both


def test_a_file_that_is_not_there_is_missed(env: Environment, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        collected(env.read_text_file(str(tmp_path / "nowhere.txt")))


def test_a_source_of_one_s_own(env: Environment) -> None:
    class Squares(Source):
        def __init__(self, splits: int) -> None:
            self.splits = splits

        def enumerate_splits(self, parallelism: int) -> list[int]:
            return list(range(self.splits))

        def read(self, split: int) -> Iterator[int]:
            yield split
            yield split * split

    assert collected(env.from_source(Squares(0))) == []
    assert collected(env.from_source(Squares(5))) == [0, 0, 1, 1, 2, 4, 3, 9, 4, 16]
    one = env.from_source(Squares(5)).set_parallelism(1)
    assert collected(one) == [0, 0, 1, 1, 2, 4, 3, 9, 4, 16]


def test_one_job_runs_all_sinks(
    env: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = env.from_collection([1, 2, 3])
    numbers.print("n")
    numbers.map(lambda n: n * n).print()
    row_format = FileSink.for_row_format(
        str(tmp_path / "lines"), Encoder.simple_string_encoder()
    ).build()
    numbers.map(lambda n: {"n": n}).sink_to(row_format).name("lines")
    result = env.execute("three sinks")
    assert result is env.last_job_result
    assert result.name == "three sinks"
    printed = capsys.readouterr().out.splitlines()
    assert sorted(printed) == ["1", "4", "9", "n> 1", "n> 2", "n> 3"]
    lines = [
        line
        for file in sorted((tmp_path / "lines").glob("part-*"))
        for line in file.read_text().splitlines()
    ]
    assert lines == ["{'n': 1}", "{'n': 2}", "{'n': 3}"]
    with pytest.raises(ValueError, match="at least one sink"):
        env.execute()


def test_a_sink_of_one_s_own(env: Environment, tmp_path: Path) -> None:
    class Appending(Sink):
        def __init__(self, path: str) -> None:
            self.path = path

        def open(self, runtime_context: Any) -> None:
            index = runtime_context.get_index_of_this_subtask()
            self.file = open(f"{self.path}-{index}", "a")  # noqa: SIM115

        def write(self, value: Any) -> None:
            self.file.write(f"{value}\n")

        def close(self) -> None:
            self.file.close()

    env.from_collection(range(10)).sink_to(Appending(str(tmp_path / "out"))).set_parallelism(2)
    env.execute()
    files = sorted(tmp_path.glob("out-*"))
    assert [file.name for file in files] == ["out-0", "out-1"]
    assert sorted(int(n) for file in files for n in file.read_text().split()) == list(range(10))


def test_an_iterator_is_read_in_part_or_as_a_whole(env: Environment) -> None:
    numbers = env.from_source(NumberSequenceSource(0, 9999)).set_parallelism(1)
    with numbers.execute_and_collect("some") as records:
        assert records.next() == 0
        assert [next(records), next(records)] == [1, 2]
    assert list(records) == []
    records.close()
    whole = numbers.execute_and_collect("whole")
    assert sum(whole) == sum(range(10_000))
    assert env.last_job_result is not None
    assert env.last_job_result.name == "whole"
    with pytest.raises(StopIteration):
        whole.next()
    assert numbers.execute_and_collect(limit=3) == [0, 1, 2]
    assert numbers.execute_and_collect("few", 20_000) == list(range(10_000))


def test_collecting_leaves_sinks_to_execute(
    env: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = env.from_collection([1, 2])
    numbers.print()
    assert collected(numbers) == [1, 2]
    assert capsys.readouterr().out == ""
    env.execute()
    assert sorted(capsys.readouterr().out.split()) == ["1", "2"]


def test_a_table_s_rows_as_a_stream(env: Environment) -> None:
    table = env.sql("SELECT id AS n, concat('n', id) AS name FROM range(4)")
    stream = table.to_data_stream()
    assert sorted(collected(stream)) == [Row(n=n, name=f"n{n}") for n in range(4)]
    assert sorted(collected(stream.map(lambda row: row.n + 1))) == [1, 2, 3, 4]
    hot = table.where("n > 1").cache()
    hot.count()
    assert sorted(collected(hot.to_data_stream().map(lambda row: row.n))) == [2, 3]
    assert env.last_job_result is not None
    outcomes = [vertex.outcome for vertex in env.last_job_result.vertices]
    assert VertexOutcome.READ in outcomes
    assert VertexOutcome.PRODUCED not in outcomes


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([("a", 1), ("b", None)], id="tuples"),
        pytest.param([["a", 1], ["b", None]], id="lists"),
        pytest.param([Row(n=1, name="a"), Row(n=None, name="b")], id="rows, by name"),
        pytest.param([{"name": "a", "n": 1}, {"n": None, "name": "b"}], id="dicts"),
    ],
)
def test_a_stream_as_a_table(env: Environment, records: list[Any]) -> None:
    schema = StructType([StructField("name", StringType()), StructField("n", LongType())])
    for given_ in (schema, "name string, n long"):
        table = env.from_data_stream(env.from_collection(records), given_)
        assert table.schema == schema
        assert sorted(map(tuple, table.collect())) == [("a", 1), ("b", None)]
        assert table.where("n = 1").count() == 1


def test_a_stream_of_values_as_a_table_of_one_column(env: Environment) -> None:
    words = env.from_collection(["to", "be"])
    table = env.from_data_stream(words, "word string").selectExpr("upper(word) AS w")
    assert sorted(row.w for row in table.collect()) == ["BE", "TO"]
    assert sorted(row.w for row in collected(table.to_data_stream())) == ["BE", "TO"]


def test_a_table_of_a_stream_can_be_cached(env: Environment, tally: Any) -> None:
    numbers = env.from_collection(range(5)).map(tally.counting(lambda n: (n,)))
    hot = env.from_data_stream(numbers, "n long").cache()
    assert hot.count() == 5
    assert hot.where("n > 2").count() == 2
    assert tally.count() == 5


def test_many_records_under_few_keys(env: Environment) -> None:
    numbers = env.from_source(NumberSequenceSource(0, 999_999)).map(lambda n: (n % 10, n))
    summed = numbers.key_by(lambda pair: pair[0]).sum(1)
    assert sorted(collected(summed)) == [
        (k, 100_000 * k + 10 * math.comb(100_000, 2)) for k in range(10)
    ]


def test_a_pipeline_gives_what_python_gives(env: Environment) -> None:
    items = list(range(500))
    stream = env.from_collection(items)
    for factor in range(2, 6):
        stream = stream.map(lambda n, factor=factor: n * factor).filter(lambda n: n % 7)
    expected = items
    for factor in range(2, 6):
        expected = [n * factor for n in expected if n * factor % 7]
    assert collected(stream) == expected
    total = collected(stream.key_by(lambda n: None).reduce(lambda a, b: a + b))
    assert total == [reduce(lambda a, b: a + b, expected)]

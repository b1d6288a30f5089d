"""Operators by key, from before the shuffle to after it."""

from __future__ import annotations

import operator as operators
import pickle
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from holdfast.errors import InvalidKeyError, OperatorFailedError
from holdfast.functions import (
    KeyedProcessFunction,
    KeySelector,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReduceFunction,
    ReducingStateDescriptor,
    RuntimeContext,
    ValueStateDescriptor,
)
from holdfast.graph.stream.operators import (
    Aggregate,
    AggregateKind,
    KeyedOperator,
    KeyedProcess,
    Map,
    Reduce,
)
from holdfast.streaming.batches import to_arrow
from holdfast.streaming.chain import NamedOperator, Pass
from holdfast.streaming.inputs import KeyedInput, SourceInput
from holdfast.streaming.key_hash import target_of
from holdfast.streaming.keyed_encoding import KeyedEncoder
from holdfast.streaming.memory_gauge import DEFAULT_MEMORY_LIMIT, MemoryGauge, memory_in_use
from holdfast.streaming.outputs import BatchOutput, KeyedOutput

LATE = OutputTag("late")
KEYS = st.none() | st.integers(-3, 3) | st.sampled_from(["a", "b", 1.0, True, b"a", ("a", None)])
PAIRS = st.lists(st.tuples(KEYS, st.integers(-100, 100)), max_size=60)
# With a limit of 0 everything goes to disk at once, and comes back in parts of parts.
LIMITS = st.sampled_from([DEFAULT_MEMORY_LIMIT, 0])


class Items:
    """Reads splits that are iterables."""

    def read(self, split: Iterable[Any]) -> Iterable[Any]:
        return split


def first(record: Any) -> Any:
    return record[0]


def run_by_key(
    parts: list[list[Any]],
    operator: KeyedOperator,
    partitions: int = 2,
    limit: int = DEFAULT_MEMORY_LIMIT,
    combining: bool = True,
    output: BatchOutput | None = None,
) -> list[dict[int, list[Any]]]:
    """What each partition after the shuffle gives, by channel."""
    combine = operator if combining and not isinstance(operator, KeyedProcess) else None
    before = Pass(
        SourceInput("Items", Items(), tuple(parts)),
        (),
        KeyedOutput("By key", operator.key_selector, partitions, combine),  # type: ignore[arg-type]
        memory_limit=limit,
    )
    shuffled: list[list[dict[str, Any]]] = [[] for _ in range(partitions)]
    for number in range(len(parts)):
        for frame in before(iter([pa.RecordBatch.from_pydict({"id": [number]})])):
            for row in frame.to_pylist():
                shuffled[row["target"]].append(row)
    after = Pass(
        KeyedInput(),
        (NamedOperator("By key", operator),),
        output or BatchOutput(),
        parallelism=partitions,
        memory_limit=limit,
    )
    results = []
    for rows in shuffled:
        found: dict[int, list[Any]] = defaultdict(list)
        schema = before.schema
        frames = [pa.RecordBatch.from_pylist([row], schema=schema) for row in rows]
        for frame in after(iter(frames)):
            for row in frame.to_pylist():
                found[row["channel"]] += pickle.loads(row["batch"])
        results.append(dict(found))
    return results


def records(results: list[dict[int, list[Any]]], channel: int = 0) -> list[Any]:
    return [record for result in results for record in result.get(channel, [])]


def grouped(parts: list[list[Any]], key_of: Callable[[Any], Any] = first) -> dict[Any, list[Any]]:
    groups: dict[Any, list[Any]] = {}
    for record in (record for part in parts for record in part):
        groups.setdefault(key_of(record), []).append(record)
    return groups


@given(st.lists(PAIRS, max_size=3), st.integers(1, 4), LIMITS, st.booleans())
def test_reduce_gives_one_record_a_key(
    parts: list[list[Any]], partitions: int, limit: int, combining: bool
) -> None:
    results = run_by_key(
        parts, Reduce(first, lambda a, b: (a[0], a[1] + b[1])), partitions, limit, combining
    )
    expected = {key: sum(pair[1] for pair in group) for key, group in grouped(parts).items()}
    assert dict(records(results)) == expected
    assert len(records(results)) == len(expected)
    for number, result in enumerate(results):
        assert all(target_of(key, partitions) == number for key, _ in result.get(0, []))


@given(st.lists(PAIRS, max_size=3), st.integers(1, 4), LIMITS, st.sampled_from(AggregateKind))
def test_aggregates_replace_a_field_of_the_first_record(
    parts: list[list[Any]], partitions: int, limit: int, kind: AggregateKind
) -> None:
    parts = [
        [(key, value, (number, at)) for at, (key, value) in enumerate(part)]
        for number, part in enumerate(parts)
    ]
    results = run_by_key(parts, Aggregate(first, kind, 1), partitions, limit)
    of_all: Callable[[Iterable[int]], int] = {
        AggregateKind.SUM: sum,
        AggregateKind.MIN: min,
        AggregateKind.MAX: max,
    }[kind]
    expected = {
        (group[0][0], of_all(record[1] for record in group), group[0][2])
        for group in grouped(parts).values()
    }
    assert set(records(results)) == expected
    assert len(records(results)) == len(expected)


class Numbered(KeyedProcessFunction):
    """Numbers the records of each key, with state of all kinds."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen"))
        self.times = runtime_context.get_map_state(MapStateDescriptor("times"))
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", operators.add)
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.seen.add(value[1])
        self.times[value[1]] = (self.times[value[1]] or 0) + 1
        self.total.add(value[1])
        yield (
            ctx.get_current_key(),
            count,
            list(self.seen),
            dict(self.times.items()),
            self.total.get(),
        )
        if value[1] < 0:
            yield LATE, value


@given(st.lists(PAIRS, max_size=3), st.integers(1, 4), LIMITS)
def test_a_keyed_process_sees_the_records_of_a_key_in_their_order(
    parts: list[list[Any]], partitions: int, limit: int
) -> None:
    results = run_by_key(
        parts, KeyedProcess(first, Numbered()), partitions, limit, output=BatchOutput((LATE,))
    )
    got: dict[Any, list[Any]] = {}
    for key, *rest in records(results):
        got.setdefault(key, []).append(rest)
    expected = {}
    for key, group in grouped(parts).items():
        values = [value for _, value in group]
        expected[key] = [
            [
                count,
                values[:count],
                {value: values[:count].count(value) for value in values[:count]},
                sum(values[:count]),
            ]
            for count in range(1, len(values) + 1)
        ]
    assert got == expected
    late = records(results, 1)
    assert sorted(late, key=repr) == sorted(
        (pair for part in parts for pair in part if pair[1] < 0), key=repr
    )
    # The records of a key come together.
    for result in results:
        keys = [record[0] for record in result.get(0, [])]
        assert len([key for at, key in enumerate(keys) if not at or keys[at - 1] != key]) == len(
            set(keys)
        )


def test_spilling_gives_the_same_for_many_keys_and_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    many = [[(number % 5_000, 1) for number in range(15_000)]]
    one = [[("hot", number) for number in range(15_000)] + [("cold", 1)]]
    limit = memory_in_use() + (1 << 20)
    for parts in (many, one):
        reduced = run_by_key(parts, Reduce(first, lambda a, b: (a[0], a[1] + b[1])), 1, limit)
        assert dict(records(reduced)) == {
            key: sum(pair[1] for pair in group) for key, group in grouped(parts).items()
        }
    for bound in (limit, 0):
        got = records(run_by_key(one, KeyedProcess(first, lambda value, ctx: [value]), 1, bound))
        assert [pair for pair in got if pair[0] == "hot"] == one[0][:-1]
        assert len(got) == 15_001
    # It leaves nothing behind.
    assert list(tmp_path.iterdir()) == []


def test_functions_by_key_are_objects_or_callables() -> None:
    class First(KeySelector):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.position = 0

        def get_key(self, value: Any) -> Any:
            return value[self.position]

    class Larger(ReduceFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.choose = max

        def reduce(self, value1: Any, value2: Any) -> Any:
            return self.choose(value1, value2)

    parts = [[("a", 1), ("b", 2)], [("a", 3)]]
    assert sorted(records(run_by_key(parts, Reduce(First(), Larger())))) == [("a", 3), ("b", 2)]


@dataclass(frozen=True)
class Sale:
    shop: str
    amount: int


Named = namedtuple("Named", ["shop", "amount"])


@pytest.mark.parametrize(
    ("made", "field", "result"),
    [
        (lambda n: ("x", n), 1, ("x", 6)),
        (lambda n: ("x", n), -1, ("x", 6)),
        (lambda n: ["x", n], 1, ["x", 6]),
        (lambda n: {"shop": "x", "amount": n}, "amount", {"shop": "x", "amount": 6}),
        (lambda n: Named("x", n), "amount", Named("x", 6)),
        (lambda n: Named("x", n), 1, Named("x", 6)),
        (lambda n: Row(shop="x", amount=n), "amount", Row(shop="x", amount=6)),
        (lambda n: Row(shop="x", amount=n), 1, Row(shop="x", amount=6)),
        (lambda n: Sale("x", n), "amount", Sale("x", 6)),
        (lambda n: n, 0, 6),
    ],
)
def test_fields_of_all_kinds_of_records(
    made: Callable[[int], Any], field: int | str, result: Any
) -> None:
    parts = [[made(1), made(2)], [made(3)]]
    (got,) = records(run_by_key(parts, Aggregate(lambda _: "x", AggregateKind.SUM, field)))
    assert got == result
    assert type(got) is type(result)
    assert repr(got) == repr(result)
    # What came in has not been changed.
    assert parts[0][0] == made(1)


KEYED = {
    "reduce": Reduce(lambda record: record, lambda a, b: a),
    "aggregate": Aggregate(lambda record: record, AggregateKind.MAX, 0),
    "process": KeyedProcess(lambda record: record, lambda value, ctx: None),
}


@pytest.mark.parametrize("kind", KEYED)
def test_a_key_that_can_be_none_names_the_operator(kind: str) -> None:
    for record in ([1], {"a": 1}, ("a", [1]), float("nan")):
        with pytest.raises(InvalidKeyError, match="'By key' got the key"):
            run_by_key([[1, record]], KEYED[kind])
    broken = replace(KEYED[kind], key_selector=lambda record: record["nothing"])
    with pytest.raises(OperatorFailedError, match="'By key' raised TypeError"):
        run_by_key([[1, 2]], broken)


def stopped(*_: Any) -> Any:
    return next(iter([]))


class TooEarly(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("seen")).value()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        return None


class TwoKinds(TooEarly):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("seen"))
        runtime_context.get_list_state(ListStateDescriptor("seen"))


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (Reduce(first, stopped), "raised .*StopIteration"),
        (KeyedProcess(first, stopped), "raised StopIteration"),
        (Aggregate(first, AggregateKind.SUM, 5), "raised IndexError"),
        (Aggregate(first, AggregateKind.SUM, "nothing"), "raised"),
        (KeyedProcess(first, TooEarly()), "'seen': there is no current key"),
        (KeyedProcess(first, TwoKinds()), "'seen': it is already a ValueState"),
    ],
)
@pytest.mark.parametrize("combining", [True, False])
def test_an_error_names_the_operator(
    operator: KeyedOperator, message: str, combining: bool
) -> None:
    with pytest.raises(OperatorFailedError, match=f"'By key'.*{message}"):
        run_by_key([[("a", 1), ("a", 1)]], operator, combining=combining)


def test_states_can_be_cleared_and_replaced() -> None:
    class Forgetting(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.value = runtime_context.get_state(ValueStateDescriptor("value"))
            self.list = runtime_context.get_list_state(ListStateDescriptor("list"))
            self.map = runtime_context.get_map_state(MapStateDescriptor("map"))
            self.sum = runtime_context.get_reducing_state(
                ReducingStateDescriptor("sum", operators.add)
            )

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
            self.value.update(value)
            self.list.update([1, 2])
            self.list.add_all([3])
            self.map.put_all({"a": 1, "b": 2})
            self.map.remove("a")
            del self.map["absent"]
            self.sum.add(4)
            yield self.value.value(), list(self.list.get()), self.sum.get()
            yield list(self.map), list(self.map.values()), "b" in self.map, self.map.is_empty()
            for state in (self.value, self.list, self.map, self.sum):
                state.clear()
                state.clear()
            yield self.value.value(), list(self.list), self.sum.get(), self.map.is_empty()

    assert records(run_by_key([[7]], KeyedProcess(lambda record: record, Forgetting()))) == [
        (7, [1, 2, 3], 4),
        (["b"], [2], True, False),
        (None, [], None, True),
    ]


def test_records_can_be_taken_one_by_one_after_a_split() -> None:
    frames = to_arrow(KeyedEncoder("By key", 1).one_by_one(iter("abc"), str.upper, MemoryGauge()))
    one = Pass(KeyedInput(), (NamedOperator("Map", Map(str.upper)),), BatchOutput())
    (frame,) = one(frames)
    assert [record for row in frame.to_pylist() for record in pickle.loads(row["batch"])] == list(
        "ABC"
    )

"""Keyed streams: keys, and what is kept for each."""

from __future__ import annotations

import datetime
import enum
import itertools
import operator as operators
import pickle
import subprocess
import sys
from collections import Counter, defaultdict, namedtuple
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row

from holdfast.errors import InvalidKeyError, OperatorFailedError
from holdfast.functions import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    RuntimeContext,
    ValueStateDescriptor,
)
from holdfast.graph.stream.operators import (
    Aggregate,
    AggregateKind,
    KeyedOperator,
    KeyedProcess,
    Reduce,
)
from holdfast.streaming.chain import NamedOperator, Pass
from holdfast.streaming.inputs import KeyedInput, SourceInput
from holdfast.streaming.key_hash import stable_hash, target_of
from holdfast.streaming.key_selection import targets_of
from holdfast.streaming.memory_gauge import DEFAULT_MEMORY_LIMIT, memory_in_use
from holdfast.streaming.outputs import BatchOutput, KeyedOutput

# -- operators by key, from before the shuffle to after it


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


def grouped(parts: list[list[Any]]) -> dict[Any, list[Any]]:
    """The values of each key."""
    groups: dict[Any, list[Any]] = {}
    for key, value in itertools.chain(*parts):
        groups.setdefault(key, []).append(value)
    return groups


@given(st.lists(PAIRS, max_size=3), st.integers(1, 4), LIMITS, st.booleans())
def test_reduce_gives_one_record_a_key(
    parts: list[list[Any]], partitions: int, limit: int, combining: bool
) -> None:
    results = run_by_key(
        parts, Reduce(first, lambda a, b: (a[0], a[1] + b[1])), partitions, limit, combining
    )
    expected = {key: sum(values) for key, values in grouped(parts).items()}
    assert dict(records(results)) == expected
    assert len(records(results)) == len(expected)
    for number, result in enumerate(results):
        assert all(target_of(key, partitions) == number for key, _ in result.get(0, []))


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
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(value[1])
        self.times[value[1]] = (self.times[value[1]] or 0) + 1
        self.total.add(value[1])
        state = self.count.value(), list(self.seen), dict(self.times.items()), self.total.get()
        yield ctx.get_current_key(), *state
        if value[1] < 0:
            yield LATE, value


@given(st.lists(PAIRS, max_size=3), st.integers(1, 4), LIMITS)
def test_a_keyed_process_sees_the_records_of_a_key_together_and_in_their_order(
    parts: list[list[Any]], partitions: int, limit: int
) -> None:
    results = run_by_key(
        parts, KeyedProcess(first, Numbered()), partitions, limit, output=BatchOutput((LATE,))
    )
    expected = {}
    for key, values in grouped(parts).items():
        seen = [values[:count] for count in range(1, len(values) + 1)]
        expected[key] = [(len(each), each, dict(Counter(each)), sum(each)) for each in seen]
    together = [
        (key, [record[1:] for record in group])
        for result in results
        for key, group in itertools.groupby(result.get(0, []), key=first)
    ]
    assert len(together) == len(expected) and dict(together) == expected
    late = [pair for part in parts for pair in part if pair[1] < 0]
    assert sorted(records(results, 1), key=repr) == sorted(late, key=repr)


def test_what_is_spilled_comes_back_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    many = [[(number * 7 % 2_000, 1) for number in range(6_000)]]
    hot = [("hot", number) for number in range(6_000)]
    limit = memory_in_use() + (1 << 19)
    for count, bound in ((6_000, limit), (3_000, 0)):
        parts = [many[0][:count]]
        reduced = run_by_key(parts, Reduce(first, lambda a, b: (a[0], a[1] + b[1])), 1, bound)
        assert dict(records(reduced)) == Counter(key for key, _ in parts[0])
    process = KeyedProcess(first, lambda value, ctx: [value])
    got = records(run_by_key([[*hot, ("cold", 1)]], process, 1, limit))
    assert [pair for pair in got if pair[0] == "hot"] == hot and len(got) == 6_001
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True)
class Sale:
    shop: str
    amount: int


Named = namedtuple("Named", ["shop", "amount"])


@pytest.mark.parametrize(
    ("made", "field"),
    [
        # The other fields are those of the first record.
        (lambda n: ("x", n), 1),
        (lambda n: ("x", n), -1),
        (lambda n: ["x", n], 1),
        (lambda n: {"shop": "x", "amount": n}, "amount"),
        *((lambda n: Named("x", n), field) for field in ("amount", 1)),
        *((lambda n: Row(shop="x", amount=n), field) for field in ("amount", 1)),
        (lambda n: Sale("x", n), "amount"),
        (lambda n: n, 0),
    ],
)
@pytest.mark.parametrize("kind", AggregateKind)
def test_fields_of_all_kinds_of_records_are_aggregated(
    made: Callable[[int], Any], field: int | str, kind: AggregateKind
) -> None:
    parts = [[made(3), made(2)], [made(7)]]
    (got,) = records(run_by_key(parts, Aggregate(lambda _: "x", kind, field)))
    of_all = {AggregateKind.SUM: 12, AggregateKind.MIN: 2, AggregateKind.MAX: 7}
    expected = made(of_all[kind])
    assert (got, type(got), repr(got)) == (expected, type(expected), repr(expected))
    # What came in has not been changed.
    assert parts[0][0] == made(3)


def stopped(*_: Any) -> Any:
    return next(iter([]))


class TooEarly(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("seen")).value()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        return None


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (Reduce(stopped, max), "raised StopIteration"),
        (Reduce(first, stopped), "raised .*StopIteration"),
        (KeyedProcess(first, stopped), "raised StopIteration"),
        (Aggregate(first, AggregateKind.SUM, 5), "raised IndexError"),
        (KeyedProcess(first, TooEarly()), "'seen': there is no current key"),
        *((Reduce(lambda _, key=key: key, max), "got the key") for key in ([1], float("nan"))),
    ],
)
@pytest.mark.parametrize("combining", [True, False])
def test_what_fails_names_its_operator(
    operator: KeyedOperator, message: str, combining: bool
) -> None:
    with pytest.raises((OperatorFailedError, InvalidKeyError), match=f"'By key'.*{message}"):
        run_by_key([[("a", 1), ("a", 1)]], operator, combining=combining)


def test_states_can_be_cleared_and_replaced() -> None:
    class Forgetting(Numbered):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
            self.count.update(value)
            self.seen.update([1, 2])
            self.seen.add_all([3])
            self.times.put_all({"a": 1, "b": 2})
            self.times.remove("a")
            self.total.add(4)
            yield self.count.value(), list(self.seen.get()), self.total.get(), list(self.times)
            for state in (self.count, self.seen, self.times, self.total):
                state.clear()
                state.clear()
            yield self.count.value(), list(self.seen), self.total.get(), list(self.times)

    assert records(run_by_key([[7]], KeyedProcess(lambda record: record, Forgetting()))) == [
        (7, [1, 2, 3], 4, ["b"]),
        (None, [], None, []),
    ]


# -- hashes of keys that are the same in all processes, and what can be no key


class Name(str, enum.Enum):
    ADA = "ada"


class Level(enum.IntEnum):
    LOW = 1


class Plain:
    pass


Pair = namedtuple("Pair", ["left", "right"])


@dataclass(frozen=True)
class Point:
    x: int
    label: str | None = None


@pytest.mark.parametrize(
    "keys",
    [
        (1, 1.0, True, Decimal(1), Fraction(1), 1 + 0j, Level.LOW, np.int16(1), np.float32(1)),
        ("ada", np.str_("ada"), Name.ADA),
        (b"ada", np.bytes_(b"ada")),
        (0, -0.0, False),
        ((1, None), (1.0, None), Pair(True, None), Row(a=1, b=None)),
        (Point(1), Point(1, None)),
        (frozenset({1, "a", None}), frozenset({None, "a", 1.0})),
        (2**100, float(2**100)),
    ],
)
def test_keys_of_different_types_that_are_equal(keys: tuple[object, ...]) -> None:
    assert len(set(keys)) == 1
    assert len({stable_hash(key) for key in keys}) == 1


PROGRAM = """
import enum
from dataclasses import dataclass
from decimal import Decimal
from holdfast.streaming.key_hash import stable_hash

class Color(enum.Enum):
    RED = 1

@dataclass(frozen=True)
class Point:
    x: int

keys = [None, 1, 1.5, 2**80, "a", "\\ud800", b"a", ("a", None, (1, b"")), Color.RED, Point(1),
        Point(("a", None)), frozenset({"a", "b", None}), int, Point, len, Decimal("1.5")]
print([stable_hash(key) for key in keys])
"""


def test_hashes_are_the_same_in_processes_with_other_seeds() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in "12"
    ]
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    "key", [[1], (1, [2]), float("nan"), (1, np.float64("nan")), Decimal("nan"), Plain()]
)
def test_what_can_be_no_key_is_named_with_its_operator(key: object) -> None:
    with pytest.raises(InvalidKeyError, match="'Sum'"):
        targets_of([1, key], 2, "Sum")


def test_hashes_of_a_person_s_own_need_a_fixed_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    day = datetime.date(2024, 1, 2)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert stable_hash(day) == stable_hash(datetime.date(2024, 1, 2))
    monkeypatch.delenv("PYTHONHASHSEED")
    with pytest.raises(InvalidKeyError, match="PYTHONHASHSEED"):
        targets_of([day], 2, "Sum")

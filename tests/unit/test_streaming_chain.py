"""Passes: chains of operators over the record batches of a partition."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import (
    InvalidStreamArgumentError,
    OperatorFailedError,
)
from holdfast.functions import (
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from holdfast.graph.stream.operators import Filter, FlatMap, Identity, Map, Operator, Process
from holdfast.streaming.chain import NamedOperator, Pass
from holdfast.streaming.inputs import BatchInput, SealedInput, SourceInput
from holdfast.streaming.outputs import BatchOutput, OutputFormat, SealedOutput
from holdfast.streaming.sealing import Seal, SealKey

ODD, BIG = OutputTag("odd"), OutputTag("big")


class Items:
    """Reads splits that are iterables."""

    def read(self, split: Iterable[Any]) -> Iterable[Any]:
        return split


def named(*operators: Operator) -> tuple[NamedOperator, ...]:
    return tuple(
        NamedOperator(f"{type(operator).__name__} {position}", operator)
        for position, operator in enumerate(operators)
    )


def first_split(number: int = 0) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"id": [number]})])


def source_pass(
    items: Iterable[Any], *operators: Operator, output: OutputFormat | None = None
) -> Pass:
    return Pass(SourceInput("Items", Items(), (items,)), named(*operators), output or BatchOutput())


def run(items: Iterable[Any], *operators: Operator) -> list[Any]:
    return channels(source_pass(items, *operators)(first_split())).get(0, [])


def channels(frames: Iterable[pa.RecordBatch]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for row in [row for frame in frames for row in frame.to_pylist()]:
        found.setdefault(row["channel"], []).extend(pickle.loads(row["batch"]))
    return found


class Recorder(MapFunction):
    """Notes what happens to it, and raises where it is to."""

    def __init__(self, name: str, noted: list[str], raising: str | None = None) -> None:
        self.name = name
        self.noted = noted
        self.raising = raising

    def open(self, runtime_context: RuntimeContext) -> None:
        self._happens("open")

    def map(self, value: Any) -> Any:
        if self.raising == "map":
            raise RuntimeError(f"map of {self.name}")
        return value

    def close(self) -> None:
        self._happens("close")

    def _happens(self, what: str) -> None:
        self.noted.append(f"{what} {self.name}")
        if self.raising == what:
            raise RuntimeError(f"{what} of {self.name}")


STEPS: list[tuple[Operator, Callable[[list[int]], list[int]]]] = [
    (Map(lambda n: n * 3 + 1), lambda ns: [n * 3 + 1 for n in ns]),
    (Filter(lambda n: n % 2), lambda ns: [n for n in ns if n % 2]),
    (FlatMap(lambda n: [n] * (n % 3)), lambda ns: [n for n in ns for _ in range(n % 3)]),
    (
        FlatMap(lambda n: None if n % 5 else (n, -n)),
        lambda ns: [m for n in ns if not n % 5 for m in (n, -n)],
    ),
    (Process(lambda n, ctx: [n, (ODD, n)] if n % 2 else None), lambda ns: [n for n in ns if n % 2]),
    (Identity(), lambda ns: ns),
]


@given(st.lists(st.sampled_from(STEPS), max_size=5), st.lists(st.integers(), max_size=40))
def test_a_chain_does_what_python_does(
    steps: list[tuple[Operator, Callable[[list[int]], list[int]]]], numbers: list[int]
) -> None:
    expected = numbers
    for _, model in steps:
        expected = model(expected)
    assert run(numbers, *(operator for operator, _ in steps)) == expected


@pytest.mark.parametrize("sealed", [True, False])
def test_passes_in_a_row_are_a_chain(sealed: bool) -> None:
    seal = Seal("numbers", SealKey.new())
    output = SealedOutput(seal) if sealed else BatchOutput()
    first = source_pass(range(50), Map(lambda n: n + 1), output=output)
    input_ = SealedInput(seal) if sealed else BatchInput()
    second = Pass(input_, named(Filter(lambda n: n % 2)), BatchOutput())
    frames = list(first(first_split()))
    # Empty frames are nothing.
    assert channels(second(iter([frames[0].slice(0, 0), *frames])))[0] == list(range(1, 51, 2))
    assert list(second(iter([frames[0].slice(0, 0)]))) == []


@pytest.mark.parametrize("raising", [None, "open", "map", "close"])
def test_functions_are_opened_and_closed_once_wherever_one_raises(raising: str | None) -> None:
    noted: list[str] = []
    recorders = [Recorder(name, noted, raising if name == "b" else None) for name in "abc"]
    if raising is None:
        assert run([1, 2], *map(Map, recorders)) == [1, 2]
    else:
        with pytest.raises(OperatorFailedError, match=f"'Map 1'.*{raising} of b"):
            run([1, 2], *map(Map, recorders))
    opened, closed = ["open a", "open b", "open c"], ["close c", "close b", "close a"]
    assert noted == ([*opened[:2], *closed[1:]] if raising == "open" else [*opened, *closed])


def test_functions_are_closed_when_no_more_is_wanted() -> None:
    noted: list[str] = []
    made: list[int] = []

    def endless(value: int) -> Iterator[int]:
        for number in itertools.count():
            made.append(number)
            yield number

    operators = (FlatMap(endless), Map(Recorder("map", noted)))
    frames = source_pass([0], *operators, output=BatchOutput(lazily=True))(first_split())
    got: list[int] = []
    while len(got) < 1000:
        got += pickle.loads(next(frames).column("batch")[0].as_py())
        # No more is asked of a generator than is taken.
        assert len(made) == len(got) < 2000
    frames.close()  # type: ignore[attr-defined]
    assert noted == ["open map", "close map"]


def interrupted(value: int) -> int:
    raise KeyboardInterrupt


def test_an_interrupt_stays_what_it_is() -> None:
    noted: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run([1], Map(Recorder("map", noted)), Map(interrupted))
    assert noted == ["open map", "close map"]


def test_one_object_in_two_operators_is_two_objects() -> None:
    class Counter(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = 0

        def map(self, value: Any) -> Any:
            self.count += 1
            return (*value, self.count)

    counter = Counter()
    assert run([(), ()], Map(counter), Map(counter)) == [(1, 1), (2, 2)]


def stopped(*_: Any) -> Any:
    return next(iter([]))


def broken_source() -> Iterator[int]:
    yield 1
    raise OSError("disk on fire")


class Stateful(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        runtime_context.get_state(ValueStateDescriptor("seen"))

    def map(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("items", "operator", "message"),
    [
        # It would end the loop that calls the function.
        *(
            ([1], operator, "0' raised StopIteration")
            for operator in (Map(stopped), Filter(stopped), FlatMap(stopped), Process(stopped))
        ),
        (broken_source(), Map(str), "'Items' raised OSError: disk on fire"),
        ([1], Map(Stateful()), "'Map 0'.*'seen'.*key_by"),
        ([1], Filter(7), "filter"),
    ],
)
def test_what_fails_names_its_operator(
    items: Iterable[Any], operator: Operator, message: str
) -> None:
    with pytest.raises((OperatorFailedError, InvalidStreamArgumentError), match=message):
        run(items, operator)


def test_records_for_side_outputs_go_to_their_channels() -> None:
    class Sorted(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
            if value % 2:
                yield ODD, value
            if value > 5:
                yield BIG, value
            yield value
            yield OutputTag("not taken"), value

    numbers = list(range(1000))
    odd, big = [n for n in numbers if n % 2], [n for n in numbers if n > 5]

    def frames(output: OutputFormat) -> list[pa.RecordBatch]:
        return list(source_pass(numbers, Process(Sorted()), output=output)(first_split()))

    both = frames(BatchOutput((ODD, BIG)))
    assert channels(both) == {0: numbers, 1: odd, 2: big}
    assert channels(frames(BatchOutput((ODD,), main=False))) == {1: odd}
    # Tags of one name are one side output.
    assert channels(frames(BatchOutput((OutputTag("odd", Types.INT()),)))) == {0: numbers, 1: odd}
    assert list(BatchInput(1).read(iter(both))) == odd


def test_a_function_knows_where_it_runs() -> None:
    seen: list[tuple[str, int, int]] = []

    class Asking(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            index = runtime_context.get_index_of_this_subtask()
            count = runtime_context.get_number_of_parallel_subtasks()
            seen.append((runtime_context.get_task_name(), index, count))

        def map(self, value: Any) -> Any:
            return value

    source = SourceInput("Items", Items(), ([1], [2], [3]))
    frames = list(Pass(source, named(Map(Asking())), BatchOutput(), parallelism=3)(first_split(2)))
    assert channels(frames) == {0: [3]}
    # The next pass of the same subtask knows by what it gets, or else asks.
    following = Pass(BatchInput(), named(Map(Asking())), BatchOutput(), "", 3, lambda: 1)
    list(following(iter(frames)))
    list(following(iter([])))
    list(replace(following, input=BatchInput(same_subtask=False))(iter(frames)))
    assert seen == [("Map 0", 2, 3), ("Map 0", 2, 3), ("Map 0", 1, 3), ("Map 0", 1, 3)]

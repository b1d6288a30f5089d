"""Passes: chains of operators over the record batches of a partition."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from holdfast.errors import (
    InvalidStreamArgumentError,
    OperatorFailedError,
    RecordNotSerializableError,
)
from holdfast.functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from holdfast.graph.stream.operators import Filter, FlatMap, Identity, Map, Operator, Process
from holdfast.plan.function_digest import digest_function, digest_value
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


def test_functions_are_objects_or_callables() -> None:
    class Doubled(MapFunction):
        def map(self, value: Any) -> Any:
            return 2 * value

    class Twice(FlatMapFunction):
        def flat_map(self, value: Any) -> Iterable[Any]:
            yield value
            yield value

    class Large(FilterFunction):
        def filter(self, value: Any) -> bool:
            return bool(value > 2)

    class Record:
        """A class as a function is not opened."""

        def __init__(self, value: Any) -> None:
            self.value = value

        def open(self) -> None:
            raise AssertionError("of an instance")

    operators = [Map(Doubled()), FlatMap(Twice()), Filter(Large()), Map(Record)]
    assert run([1, 2], *operators, Map(lambda each: each.value), Map(str)) == ["4", "4"]
    for wrong in (Map(Large()), Filter(7)):
        with pytest.raises(InvalidStreamArgumentError, match=r"map\(\)|filter"):
            run([1], wrong)


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


def test_an_error_at_the_end_hides_none_before() -> None:
    with pytest.raises(OperatorFailedError, match="map of second") as caught:
        run([1], Map(Recorder("first", [], "close")), Map(Recorder("second", [], "map")))
    assert "close of first" in caught.value.__notes__[0]


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
    assert noted == ["open map"]
    frames.close()  # type: ignore[attr-defined]
    assert noted == ["open map", "close map"]


def interrupted(value: int) -> int:
    raise KeyboardInterrupt


def broken_pipe() -> Iterator[pa.RecordBatch]:
    yield from source_pass([1])(first_split())
    raise EOFError("the pipe broke")


@pytest.mark.parametrize("error", [KeyboardInterrupt, EOFError])
def test_what_is_no_operator_s_fault_stays_what_it_is(error: type[BaseException]) -> None:
    noted: list[str] = []
    after = (Map(interrupted),) if error is KeyboardInterrupt else ()
    one = Pass(BatchInput(), named(Map(Recorder("map", noted)), *after), BatchOutput(lazily=True))
    with pytest.raises(error):
        list(one(broken_pipe()))
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


def test_a_function_s_error_names_the_operator_and_keeps_its_traceback() -> None:
    def divided(value: int) -> float:
        return 1 / value

    with pytest.raises(OperatorFailedError) as caught:
        run([1, 0], Map(divided), Map(str))
    message = str(caught.value)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "'Map 0' raised ZeroDivisionError: division by zero" in message
    assert ", in divided\n" in message and "return 1 / value" in message


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


FAILS: list[tuple[Iterable[Any], Operator, str]] = [
    *(
        ([1, 2], operator, r"0' raised StopIteration")
        for operator in (Map(stopped), Filter(stopped), FlatMap(stopped), Process(stopped))
    ),
    (broken_source(), Map(str), "'Items' raised OSError: disk on fire"),
    ([1], Map(Stateful()), r"'Map 0'.*'seen'.*key_by"),
    (
        [1],
        Process(lambda value, ctx: ctx.timer_service()),
        r"'Process 0'.*timer is not supported",
    ),
]


@pytest.mark.parametrize(("items", "operator", "message"), FAILS)
def test_what_fails_names_its_operator(
    items: Iterable[Any], operator: Operator, message: str
) -> None:
    with pytest.raises(OperatorFailedError, match=message):
        run(items, operator)


def test_a_record_without_a_pickle_names_the_last_operator() -> None:
    with pytest.raises(RecordNotSerializableError, match=r"'Map 1'.*builtins\.generator"):
        run([1], Map(str), Map(lambda text: (letter for letter in text)))


def test_records_for_side_outputs_go_to_their_channels() -> None:
    class Sorted(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
            assert ctx.timestamp() is None
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
    assert channels(frames(BatchOutput())) == {0: numbers}
    # Tags of one name are one side output.
    assert channels(frames(BatchOutput((OutputTag("odd", Types.INT()),)))) == {0: numbers, 1: odd}
    assert list(BatchInput(1).read(iter(both))) == odd
    assert list(BatchInput(0).read(iter(both))) == numbers


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


# -- digests ---------------------------------------------------------------------------------------


def made(factor: int = 2, name: str = "a") -> Pass:
    return source_pass((1, 2), Map(lambda n: n * factor), Map(Recorder(name, [])))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(made(3), id="a captured value"),
        pytest.param(made(name="b"), id="an attribute"),
        pytest.param(replace(made(), input=source_pass((1, 3)).input), id="a split"),
        pytest.param(replace(made(), output=BatchOutput((ODD,))), id="the output"),
    ],
)
def test_what_counts_for_a_digest(other: Pass) -> None:
    assert digest_value(made()) == digest_value(made()) != digest_value(other)


def test_a_pass_travels_to_workers() -> None:
    again = cloudpickle.loads(cloudpickle.dumps(made()))
    assert digest_value(again) == digest_value(made())
    assert digest_function(again) == digest_function(made())
    assert channels(again(first_split())) == {0: [2, 4]}


PROGRAM = """
from holdfast.functions import MapFunction
from holdfast.graph.stream.operators import *
from holdfast.plan.function_digest import digest_value
from holdfast.streaming.chain import NamedOperator, Pass
from holdfast.streaming.inputs import KeyedInput
from holdfast.streaming.outputs import KeyedOutput

class Plus(MapFunction):
    def __init__(self, more):
        self.more = more
    def map(self, value):
        return value + self.more

key = lambda record: record % 3
reduce = Reduce(key, lambda one, other: one + other)
operators = (NamedOperator("Sum", reduce), NamedOperator("Plus", Map(Plus(3))))
print(digest_value(Pass(KeyedInput(), operators, KeyedOutput("Sum", key, 4, reduce))))
"""


def test_digests_are_the_same_in_all_processes() -> None:
    command = [sys.executable, "-c", PROGRAM]
    one, other = (
        subprocess.run(command, env={"PYTHONHASHSEED": seed}, capture_output=True, check=True)
        for seed in "12"
    )
    assert one.stdout == other.stdout

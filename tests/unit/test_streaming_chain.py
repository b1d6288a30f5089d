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
    Function,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    ValueStateDescriptor,
)
from holdfast.graph.stream.operators import Filter, FlatMap, Identity, Map, Operator, Process
from holdfast.plan.function_digest import digest_function, digest_value
from holdfast.streaming.chain import NamedOperator, Pass
from holdfast.streaming.inputs import BatchInput, SealedInput, SourceInput
from holdfast.streaming.outputs import BatchOutput, OutputFormat, SealedOutput
from holdfast.streaming.sealing import Seal, SealKey

ODD = OutputTag("odd")
BIG = OutputTag("big")


class Items:
    """Reads splits that are iterables."""

    def read(self, split: Iterable[Any]) -> Iterable[Any]:
        return split


def named(*operators: Operator) -> tuple[NamedOperator, ...]:
    return tuple(
        NamedOperator(f"{type(operator).__name__} {position}", operator)
        for position, operator in enumerate(operators)
    )


def split_numbers(*numbers: int) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"id": list(numbers)})])


def source_pass(
    items: Iterable[Any], *operators: Operator, output: OutputFormat | None = None
) -> Pass:
    return Pass(SourceInput("Items", Items(), (items,)), named(*operators), output or BatchOutput())


def run(items: Iterable[Any], *operators: Operator) -> list[Any]:
    return channels(source_pass(items, *operators)(split_numbers(0))).get(0, [])


def channels(frames: Iterable[pa.RecordBatch]) -> dict[int, list[Any]]:
    rows = [row for frame in frames for row in frame.to_pylist()]
    found: dict[int, list[Any]] = {}
    for row in rows:
        found.setdefault(row["channel"], []).extend(pickle.loads(row["batch"]))
    return found


class Recorder(MapFunction):
    """Tells what happens to it, and raises where it is told to."""

    def __init__(self, name: str, told: list[str], raising: str | None = None) -> None:
        self.name = name
        self.told = told
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
        self.told.append(f"{what} {self.name}")
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


@given(st.lists(st.integers(), max_size=50), st.booleans())
def test_passes_in_a_row_are_a_chain(numbers: list[int], sealed: bool) -> None:
    seal = Seal("numbers", SealKey.new())
    output = SealedOutput(seal) if sealed else BatchOutput()
    first = source_pass(numbers, Map(lambda n: n + 1), output=output)
    second = Pass(
        SealedInput(seal) if sealed else BatchInput(),
        named(Filter(lambda n: n % 2)),
        BatchOutput(),
    )
    frames = second(first(split_numbers(0)))
    assert channels(frames).get(0, []) == [n + 1 for n in numbers if (n + 1) % 2]


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

    class Callable:
        def __call__(self, value: Any) -> Any:
            return str(value)

    operators = [Map(Doubled()), FlatMap(Twice()), Filter(Large()), Map(Callable()), Map(str.upper)]
    assert run([1, 2], *operators) == ["4", "4"]
    with pytest.raises(InvalidStreamArgumentError, match=r"map\(\)"):
        run([1], Map(Large()))
    with pytest.raises(InvalidStreamArgumentError, match=r"filter"):
        run([1], Filter(7))


def test_classes_as_functions_are_not_opened() -> None:
    class Record:
        def __init__(self, value: Any) -> None:
            self.value = value

        def open(self) -> None:
            raise AssertionError("of an instance")

    assert run([1], Map(Record), Map(lambda record: record.value)) == [1]


@pytest.mark.parametrize("raising", [None, "open", "map", "close"])
def test_functions_are_opened_and_closed_once_whatever_raises(raising: str | None) -> None:
    told: list[str] = []
    operators = [
        Map(Recorder("first", told)),
        Map(Recorder("second", told, raising)),
        Map(Recorder("third", told)),
    ]
    if raising is None:
        assert run([1, 2], *operators) == [1, 2]
    else:
        with pytest.raises(OperatorFailedError, match=f"'Map 1'.*{raising} of second"):
            run([1, 2], *operators)
    opened = ["open first", "open second", "open third"]
    closed = ["close third", "close second", "close first"]
    if raising == "open":
        assert told == [*opened[:2], *closed[1:]]
    else:
        assert told == [*opened, *closed]


def test_functions_are_closed_when_nobody_wants_more() -> None:
    told: list[str] = []
    output = BatchOutput(lazily=True)
    frames = source_pass(itertools.count(), Map(Recorder("map", told)), output=output)(
        split_numbers(0)
    )
    next(frames)
    assert told == ["open map"]
    frames.close()  # type: ignore[attr-defined]
    assert told == ["open map", "close map"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_functions_are_closed_when_python_stops(interruption: type[BaseException]) -> None:
    told: list[str] = []

    def stop(value: int) -> int:
        raise interruption

    with pytest.raises(interruption):
        run([1], Map(Recorder("first", told)), Map(stop))
    assert told == ["open first", "close first"]


def test_an_error_at_the_end_hides_none_before() -> None:
    told: list[str] = []
    with pytest.raises(OperatorFailedError, match="map of second") as caught:
        run(
            [1],
            Map(Recorder("first", told, "close")),
            Map(Recorder("second", told, "map")),
        )
    assert "close of first" in caught.value.__notes__[0]


def test_one_object_in_two_operators_is_two_objects() -> None:
    told: list[str] = []

    class Counter(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = 0

        def map(self, value: Any) -> Any:
            self.count += 1
            return (*value, self.count)

    counter = Counter()
    assert run([(), ()], Map(counter), Map(counter)) == [(1, 1), (2, 2)]
    assert told == []


def test_a_function_s_error_names_the_operator_and_keeps_its_traceback() -> None:
    def divided(value: int) -> float:
        return 1 / value

    with pytest.raises(OperatorFailedError) as caught:
        run([1, 0], Map(divided), Map(str))
    error = caught.value
    assert "holdfast-operator-failed" in str(error)
    assert "'Map 0' raised ZeroDivisionError: division by zero" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)
    lines = str(error).splitlines()
    assert lines[1] == "Traceback (most recent call last):"
    assert lines[2].endswith(", in divided")
    assert lines[3].strip() == "return 1 / value"
    assert lines[-1] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    "operator",
    [
        Map(lambda _: next(iter([]))),
        Filter(lambda _: next(iter([]))),
        FlatMap(lambda _: next(iter([]))),
        Process(lambda _, ctx: next(iter([]))),
    ],
)
def test_stop_iteration_is_an_error_and_no_end(operator: Operator) -> None:
    with pytest.raises(OperatorFailedError, match=r"0' raised StopIteration"):
        run([1, 2], operator)


def test_a_source_s_error_names_the_source() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("disk on fire")

    with pytest.raises(OperatorFailedError, match="'Items' raised OSError: disk on fire"):
        run(broken(), Map(str))


def test_what_can_not_be_read_is_no_operator_s_fault() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from source_pass([1])(split_numbers(0))
        raise EOFError("the pipe broke")

    told: list[str] = []
    one = Pass(BatchInput(), named(Map(Recorder("map", told))), BatchOutput(lazily=True))
    with pytest.raises(EOFError, match="the pipe broke"):
        list(one(broken()))
    assert told == ["open map", "close map"]


def test_a_record_that_can_not_be_pickled_names_the_last_operator() -> None:
    with pytest.raises(RecordNotSerializableError, match=r"'Map 1'.*builtins\.generator"):
        run([1], Map(str), Map(lambda text: (letter for letter in text)))


def test_an_endless_generator_is_asked_for_little_more_than_is_taken() -> None:
    made: list[int] = []

    def endless(value: int) -> Iterator[int]:
        for number in itertools.count():
            made.append(number)
            yield number

    frames = source_pass([0], FlatMap(endless), output=BatchOutput(lazily=True))(split_numbers(0))
    got: list[int] = []
    while len(got) < 1000:
        got += pickle.loads(next(frames).column("batch")[0].as_py())
        assert len(made) == len(got)
    assert len(got) < 2000


def test_records_for_side_outputs_go_to_their_channels() -> None:
    class Sorted(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
            assert ctx.timestamp() is None
            if value % 2:
                yield ODD, value
            if value > 5:
                yield BIG, value
            yield value
            yield OutputTag("nobody takes it"), value

    numbers = list(range(1000))
    odd, big = [n for n in numbers if n % 2], [n for n in numbers if n > 5]

    def outputs(output: OutputFormat) -> dict[int, list[Any]]:
        return channels(source_pass(numbers, Process(Sorted()), output=output)(split_numbers(0)))

    assert outputs(BatchOutput((ODD, BIG))) == {0: numbers, 1: odd, 2: big}
    assert outputs(BatchOutput((BIG,))) == {0: numbers, 1: big}
    assert outputs(BatchOutput((ODD,), main=False)) == {1: odd}
    assert outputs(BatchOutput()) == {0: numbers}
    frames = list(
        source_pass(numbers, Process(Sorted()), output=BatchOutput((ODD,)))(split_numbers(0))
    )
    assert list(BatchInput(1).read(iter(frames))) == odd
    assert list(BatchInput(0).read(iter(frames))) == numbers


def test_a_function_knows_where_it_runs() -> None:
    seen: list[tuple[str, int, int]] = []

    class Asking(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            seen.append(
                (
                    runtime_context.get_task_name(),
                    runtime_context.get_index_of_this_subtask(),
                    runtime_context.get_number_of_parallel_subtasks(),
                )
            )

        def map(self, value: Any) -> Any:
            return value

    source = SourceInput("Items", Items(), ([1], [2], [3]))
    one = Pass(source, named(Map(Asking())), BatchOutput(), parallelism=3)
    frames = list(one(split_numbers(2)))
    assert channels(frames) == {0: [3]}
    # The next pass of the same subtask is told by what it gets, or else asks.
    following = Pass(BatchInput(), named(Map(Asking())), BatchOutput(), "", 3, lambda: 1)
    list(following(iter(frames)))
    list(following(iter([])))
    list(replace(following, input=BatchInput(same_subtask=False))(iter(frames)))
    assert seen == [("Map 0", 2, 3), ("Map 0", 2, 3), ("Map 0", 1, 3), ("Map 0", 1, 3)]


def test_there_is_no_keyed_state_without_keys() -> None:
    class Stateful(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("seen"))

        def map(self, value: Any) -> Any:
            return value

    with pytest.raises(OperatorFailedError, match=r"'Map 0'.*'seen'.*key_by"):
        run([1], Map(Stateful()))


def test_there_are_no_timers() -> None:
    def timed(value: Any, ctx: ProcessFunction.Context) -> Any:
        return ctx.timer_service()

    with pytest.raises(OperatorFailedError, match=r"'Process 0'.*timer is not supported"):
        run([1], Process(timed))


def test_empty_frames_are_nothing() -> None:
    frames = list(source_pass([1, 2])(split_numbers(0)))
    empty = frames[0].slice(0, 0)
    one = Pass(BatchInput(), named(Map(str)), BatchOutput())
    assert list(one(iter([empty]))) == []
    assert channels(one(iter([empty, *frames, empty]))) == {0: ["1", "2"]}


def made(factor: int, function: Function | None = None) -> Pass:
    operators = [Map(lambda n: n * factor)]
    if function is not None:
        operators.append(Map(function))
    return source_pass((1, 2), *operators)


def test_equal_passes_have_equal_digests() -> None:
    assert digest_value(made(2)) == digest_value(made(2))
    assert digest_value(made(2)) != digest_value(made(3))
    assert digest_value(made(2)) != digest_value(source_pass((1, 3), Map(lambda n: n * 2)))
    assert digest_value(made(2)) != digest_value(replace(made(2), output=BatchOutput((ODD,))))
    assert digest_value(made(2, Recorder("a", []))) != digest_value(made(2, Recorder("b", [])))


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
    def open(self, runtime_context):
        self.offset = 1
    def map(self, value):
        return value + self.more

key = lambda record: record % 3
reduce = Reduce(key, lambda one, other: one + other)
operators = (NamedOperator("Sum", reduce), NamedOperator("Plus", Map(Plus(3))))
print(digest_value(Pass(KeyedInput(), operators, KeyedOutput("Sum", key, 4, reduce))))
"""


def test_digests_are_the_same_in_all_processes() -> None:
    digests = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
        for program in (PROGRAM, PROGRAM, PROGRAM.replace("% 3", "% 4"))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_pass_travels_to_workers() -> None:
    one = made(2, Recorder("a", []))
    again = cloudpickle.loads(cloudpickle.dumps(one))
    assert digest_value(again) == digest_value(one)
    assert digest_function(again) == digest_function(one)
    assert channels(again(split_numbers(0))) == {0: [2, 4]}

"""Passes: chains of operators over the record batches of a partition."""

from __future__ import annotations

import pickle
import resource
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidStreamArgumentError, OperatorFailedError
from holdfast.functions import MapFunction, OutputTag, RuntimeContext, ValueStateDescriptor
from holdfast.graph.stream.operators import Filter, FlatMap, Identity, Map, Operator, Process
from holdfast.streaming.chain import NamedOperator, Pass
from holdfast.streaming.inputs import SourceInput
from holdfast.streaming.outputs import BatchOutput
from holdfast.streaming.sealed_partition_file import PartitionFile
from holdfast.streaming.sealing import SEALED_SCHEMA

ODD = OutputTag("odd")


class Items:
    """Reads splits that are iterables."""

    def read(self, split: Iterable[Any]) -> Iterable[Any]:
        return split


def named(*operators: Operator) -> tuple[NamedOperator, ...]:
    return tuple(
        NamedOperator(f"{type(operator).__name__} {position}", operator)
        for position, operator in enumerate(operators)
    )


def run(items: Iterable[Any], *operators: Operator) -> list[Any]:
    source = SourceInput("Items", Items(), (items,))
    first_split = pa.RecordBatch.from_pydict({"id": [0]})
    frames = Pass(source, named(*operators), BatchOutput())(iter([first_split]))
    rows = [row for frame in frames for row in frame.to_pylist() if row["channel"] == 0]
    return [record for row in rows for record in pickle.loads(row["batch"])]


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


def interrupted(value: int) -> int:
    raise KeyboardInterrupt


def test_an_interrupt_stays_what_it_is() -> None:
    noted: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run([1], Map(Recorder("map", noted)), Map(interrupted))
    assert noted == ["open map", "close map"]


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


def test_one_object_in_two_operators_is_two_objects() -> None:
    class Counter(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = 0

        def map(self, value: Any) -> Any:
            self.count += 1
            return (*value, self.count)

    counter = Counter()
    assert run([(), ()], Map(counter), Map(counter)) == [(1, 1), (2, 2)]


def test_a_disk_that_fills_up_is_noted(tmp_path: Path) -> None:
    frame = pa.RecordBatch.from_pydict(
        {"records": [1], "batch": [bytes(1 << 20)], "mac": [b""]}, schema=SEALED_SCHEMA
    )
    path = tmp_path / "part"
    full = 2 << 20
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, hard))
    try:
        with PartitionFile(str(path), SEALED_SCHEMA, "uncompressed") as file:
            assert len(list(file.through([frame] * 5))) == 5
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert file.failure is not None
    assert not path.exists()

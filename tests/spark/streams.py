"""What tests of streams share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast import (
    DataStream,
    Environment,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    VertexOutcome,
)

NOT_KEPT, PRODUCED, READ, RUN = (
    VertexOutcome.NOT_KEPT,
    VertexOutcome.PRODUCED,
    VertexOutcome.READ,
    VertexOutcome.RUN,
)
ODD = OutputTag("odd")


class Split(ProcessFunction):
    """Odd numbers go to a side output."""

    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield (ODD, value) if value % 2 else value


class SameByKey(KeyedProcessFunction):
    """Each record with its key."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        yield ctx.get_current_key(), value


def collected(stream: DataStream) -> list[Any]:
    """Its records, in one job."""
    with stream.execute_and_collect() as records:
        return list(records)


def summed(stream: DataStream, modulo: int = 3) -> DataStream:
    """The sums of numbers by their remainders."""
    return stream.map(lambda n: (n % modulo, n)).key_by(lambda pair: pair[0]).sum(1)


def total(stream: DataStream) -> int:
    """The sum of numbers, of a job that shuffles them."""
    return sum(each for _, each in collected(summed(stream)))


def lines(directory: Path) -> list[str]:
    """The lines that a sink has written, sorted."""
    parts = directory.glob("part-*")
    return sorted(line for part in parts for line in part.read_text().splitlines())


def location(env: Environment) -> Path:
    """Where the last result lies that was kept."""
    found = env.list_cached()[-1].location
    assert found is not None
    return found

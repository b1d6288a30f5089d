"""The vertices of a job, as rows and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.graph.diagram.diagram import Arrow, Box, Diagram, Part, PartKind
from holdfast.graph.diagram.diagram_mermaid import diagram_mermaid
from holdfast.highavailability.job_record import VertexProgress
from holdfast.highavailability.job_timeline import Span, VertexTimeline

if TYPE_CHECKING:
    from typing_extensions import Self

_SHOWN_DIGITS = 12


@dataclass(frozen=True, slots=True)
class VertexRow:
    """What is shown of a vertex.

    Attributes:
        name: what it computes.
        dataset: what it produces, in 64 digits; None for nothing.
        outcome: what became of it in the newest start; None where it runs, or that isn't known.
        done: how many of its partitions are there.
        all: of how many; None while that isn't decided.
        produced: for each start how many of these it has produced.
        spans: for each start when it has worked on it; None where it hasn't.
        lost: how many times a partition was lost.
        inputs: the datasets that it reads, of those of the job.
    """

    name: str
    dataset: str | None
    outcome: str | None
    done: int
    all: int | None
    produced: tuple[int, ...]
    spans: tuple[Span | None, ...]
    lost: int
    inputs: tuple[str, ...]

    @classmethod
    def of(
        cls,
        dataset: str | None,
        recorded: VertexProgress | None,
        events: VertexTimeline | None,
    ) -> Self:
        """What the record and the events of a job say of a vertex, of which one may say nothing."""
        short = None if dataset is None else dataset[:_SHOWN_DIGITS]
        unnamed = "leaves nothing behind" if short is None else f"dataset {short}"
        done = 0 if recorded is None else recorded.done
        decided = None if events is None else events.parallelism
        return cls(
            unnamed if recorded is None else recorded.name,
            dataset,
            None if recorded is None else recorded.outcome,
            done if events is None else events.done,
            decided if recorded is None else recorded.all,
            (done,) if events is None else events.produced,
            (None,) if events is None else events.spans,
            0 if events is None else events.lost,
            () if recorded is None else recorded.inputs,
        )


def job_drawing(vertices: Sequence[VertexRow]) -> str:
    """Which vertex reads which, and how far each is, as Mermaid's text.

    Args:
        vertices: of a job.
    """
    ordered = _inputs_first(vertices)
    numbers = {each.dataset: number for number, each in enumerate(ordered, 1) if each.dataset}
    boxes = tuple(
        Box(number, (Part(each.name, _kind(each)),), _facts(each))
        for number, each in enumerate(ordered, 1)
    )
    arrows = tuple(
        Arrow(numbers[read], number, is_kept=True)
        for number, each in enumerate(ordered, 1)
        for read in each.inputs
        # What goes round in circles is cut somewhere.
        if numbers.get(read, number) < number
    )
    return diagram_mermaid(Diagram("Job", boxes, arrows))


def _inputs_first(vertices: Sequence[VertexRow]) -> list[VertexRow]:
    left = list(vertices)
    known = {each.dataset for each in vertices}
    placed: list[VertexRow] = []
    while left:
        there = {each.dataset for each in placed}
        ready = [each for each in left if (set(each.inputs) & known) <= there]
        # What a damaged record says may go round in circles.
        placed += ready or left
        left = [each for each in left if each not in placed]
    return placed


def _kind(vertex: VertexRow) -> PartKind:
    if vertex.all is not None and vertex.done >= vertex.all:
        return PartKind.CACHE_READER
    return PartKind.CACHE if vertex.done else PartKind.OPERATOR


def _facts(vertex: VertexRow) -> tuple[str, ...]:
    number = "?" if vertex.all is None else f"{vertex.all:,}"
    done = f"{vertex.done:,} of {number} partitions"
    return (done,) if vertex.outcome is None else (done, vertex.outcome)

"""The vertices of a job, as rows and as a picture."""

from __future__ import annotations

from holdfast.cli.ui.job_drawing import VertexRow, job_drawing
from holdfast.highavailability.job_record import VertexProgress
from holdfast.highavailability.job_timeline import Span, VertexTimeline

A, B = "a" * 64, "b" * 64


def row(name: str, dataset: str, *inputs: str, done: int = 0) -> VertexRow:
    return VertexRow(name, dataset, None, done, 4, (done,), (None,), 0, inputs)


def test_events_say_more_than_the_record_which_has_the_name() -> None:
    recorded = VertexProgress(name="Join", done=1, all=4, outcome="produced", inputs=(B,))
    events = VertexTimeline(A, 4, (1, 2), (Span(1, 2), None), 1)
    both = VertexRow.of(A, recorded, events)
    assert (both.name, both.done, both.all, both.inputs) == ("Join", 3, 4, (B,))
    assert (both.produced, both.lost, both.outcome) == ((1, 2), 1, "produced")
    assert VertexRow.of(A, recorded, None).produced == (1,)
    assert VertexRow.of(A, None, events).name == f"dataset {A[:12]}"
    assert VertexRow.of(None, None, events).name == "leaves nothing behind"


def test_what_reads_is_drawn_after_what_it_reads() -> None:
    drawn = job_drawing([row("Join <b>", A, B), row("Scan", B, done=4)])
    assert drawn.index("Scan") < drawn.index("Join #60;b#62;")
    assert "4 of 4 partitions" in drawn and "0 of 4 partitions" in drawn


def test_what_goes_round_in_circles_is_drawn_all_the_same() -> None:
    assert "Join" in job_drawing([row("Join", A, B), row("Scan", B, A)])

"""A drawn diagram: everything is on it, and nothing breaks the page."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.ui.job_drawing import VertexRow, job_drawing
from holdfast.graph.diagram.diagram import Arrow, Box, Diagram, Part, PartKind
from holdfast.graph.diagram.diagram_mermaid import diagram_mermaid
from holdfast.graph.diagram.diagram_text import diagram_text
from holdfast.highavailability.job_record import VertexProgress
from holdfast.highavailability.job_timeline import Span, VertexTimeline

EVIL = "</text><script>alert('&\"')</script>\x1b[31m\x00\u202e\ud800\ufffe\r\n"


@st.composite
def edges(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    nodes = list(range(1, draw(st.integers(1, 14)) + 1))
    pairs = st.tuples(st.sampled_from(nodes), st.sampled_from(nodes))
    drawn = draw(st.lists(pairs.map(sorted), max_size=25))
    return nodes, [(source, target) for source, target in drawn if source != target]


@st.composite
def diagrams(draw: st.DrawFn) -> Diagram:
    nodes, pairs = draw(edges())
    names = st.text(max_size=80) | st.just(EVIL) | st.text("界あ", max_size=20)
    parts = st.lists(st.builds(Part, names, st.sampled_from(PartKind)), min_size=1, max_size=3)
    texts = st.lists(names, max_size=3).map(tuple)
    return Diagram(
        draw(names),
        tuple(Box(node, tuple(draw(parts)), draw(texts)) for node in nodes),
        tuple(Arrow(*pair, draw(texts), draw(st.booleans())) for pair in pairs),
    )


@given(diagrams())
def test_it_has_one_line_for_each_however_things_are_called(diagram: Diagram) -> None:
    drawn, text = diagram_mermaid(diagram), diagram_text(diagram)
    count = 1 + len(diagram.boxes) + len(diagram.arrows)
    assert len(drawn.split("\n")) == count + len(PartKind)
    assert len(text.split("\n")) == count
    for shown in (drawn, text):
        assert all(each.isprintable() or each == "\n" for each in shown)
        shown.encode()
    for line in drawn.split("\n")[1 : 1 + len(diagram.boxes)]:
        # Nothing but breaks is markup.
        line = line.replace("<br>", "")
        assert re.fullmatch(r'\d+\["[^"&\[\]`{}()|\\<]*"\]:::\w+', line), line


# -- the vertices of a job -------------------------------------------------------------------------

A, B = "a" * 64, "b" * 64


def row(name: str, dataset: str, *inputs: str, done: int = 0) -> VertexRow:
    return VertexRow(name, dataset, None, done, 4, (done,), (None,), 0, inputs)


def test_events_count_before_the_record_which_has_the_name() -> None:
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
    # What goes round in circles is drawn all the same.
    assert "Join" in job_drawing([row("Join", A, B), row("Scan", B, A)])

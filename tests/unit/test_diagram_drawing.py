"""A drawn diagram: everything is on it, and nothing breaks the page."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from holdfast.graph.diagram.diagram import Arrow, Box, Diagram, Part, PartKind
from holdfast.graph.diagram.diagram_mermaid import diagram_mermaid
from holdfast.graph.diagram.diagram_text import diagram_text

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
def test_whatever_things_are_called_the_drawing_has_one_line_for_each(diagram: Diagram) -> None:
    text = diagram_mermaid(diagram)
    assert len(text.split("\n")) == 1 + len(diagram.boxes) + len(diagram.arrows) + len(PartKind)
    assert all(each.isprintable() or each == "\n" for each in text)
    text.encode()
    for line in text.split("\n")[1 : 1 + len(diagram.boxes)]:
        assert re.fullmatch(r'\d+\["[^"&\[\]`{}()|\\]*"\]:::\w+', line.replace("<br>", "")), line
        assert "<" not in line.replace("<br>", "")


@given(diagrams())
def test_whatever_things_are_called_each_has_one_line(diagram: Diagram) -> None:
    text = diagram_text(diagram)
    assert len(text.split("\n")) == 1 + len(diagram.boxes) + len(diagram.arrows)
    assert all(each.isprintable() or each == "\n" for each in text)
    text.encode()


def test_a_diagram_of_nothing() -> None:
    nothing = Diagram("Nothing", (), ())
    assert diagram_text(nothing) == "Nothing"


def test_long_texts_are_cut() -> None:
    diagram = Diagram("Job", (Box(1, (Part("x" * 500, PartKind.SINK),), ()),), ())
    assert f'1["{"x" * 47}…"]:::sink' in diagram_mermaid(diagram)

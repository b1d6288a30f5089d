"""A drawn diagram: nothing lies over anything else, nothing sticks out, nothing breaks the page."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.graph.diagram.diagram import Arrow, Box, Diagram, Part, PartKind, printable
from holdfast.graph.diagram.diagram_svg import diagram_svg
from holdfast.graph.diagram.diagram_text import diagram_text
from holdfast.graph.diagram.geometry import Rectangle, geometry_of
from holdfast.graph.diagram.horizontal_placement import horizontal_centres
from holdfast.graph.diagram.layers import into_layers

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


@given(edges(), st.sampled_from([1, 2]))
def test_edges_lead_from_layer_to_layer(
    graph: tuple[list[int], list[tuple[int, int]]], step: int
) -> None:
    nodes, pairs = graph
    layers = into_layers(nodes, pairs, step=step)
    layer_of = {node: index for index, layer in enumerate(layers.layers) for node in layer}
    assert sorted(node for node in layer_of if node > 0) == nodes
    assert sum(map(len, layers.layers)) == len(layer_of)
    assert [(route[0], route[-1]) for route in layers.routes] == pairs
    for route in layers.routes:
        assert len(route) > step
        for upper, lower in itertools.pairwise(route):
            assert layer_of[lower] == layer_of[upper] + 1
    passing = [node for route in layers.routes for node in route[1:-1]]
    assert len(passing) == len(set(passing))
    assert all(node < 0 for node in passing)


def test_edges_that_need_not_cross_don_t() -> None:
    layers = into_layers([1, 2, 3, 4, 5, 6], [(1, 6), (2, 5), (3, 4)])
    first, second = layers.layers
    assert [7 - node for node in first] == list(second)


def test_a_late_source_is_drawn_where_it_is_needed() -> None:
    layers = into_layers([1, 2, 3, 4, 5], [(1, 2), (2, 3), (3, 5), (4, 5)])
    assert layers.layers == ((1,), (2,), (3, 4), (5,))


@given(edges(), st.integers(0, 50))
def test_nodes_of_a_layer_keep_their_distance(
    graph: tuple[list[int], list[tuple[int, int]]], gap: int
) -> None:
    nodes, pairs = graph
    layers = into_layers(nodes, pairs)
    widths = {node: 10.0 * node for node in nodes}
    centres = horizontal_centres(layers, widths, gap)
    assert min(centres[node] - widths.get(node, 0) / 2 for node in centres) == pytest.approx(0)
    for layer in layers.layers:
        for left, right in itertools.pairwise(layer):
            free = centres[right] - centres[left]
            free -= (widths.get(left, 0) + widths.get(right, 0)) / 2
            assert free >= gap - 1e-6


@given(diagrams())
def test_nothing_lies_over_a_box_and_nothing_sticks_out(diagram: Diagram) -> None:
    geometry = geometry_of(diagram)
    labels = [course.label for course in geometry.courses if course.label is not None]
    frames = [*geometry.frames.values(), *labels]
    for frame in frames:
        assert frame.left >= 0 and frame.right <= geometry.width
        assert frame.top >= 0 and frame.bottom <= geometry.height
    for one, other in itertools.combinations(frames, 2):
        assert not overlap(one, other)
    for course in geometry.courses:
        heights = [y for bend in course.bends for _, y in bend]
        assert heights == sorted(heights)
        source, target = (
            geometry.frames[course.arrow.source],
            geometry.frames[course.arrow.target],
        )
        assert source.left <= course.bends[0][0][0] <= source.right
        assert target.left <= course.bends[-1][1][0] <= target.right
        assert all(0 <= x <= geometry.width for bend in course.bends for x, _ in bend)


def overlap(one: Rectangle, other: Rectangle) -> bool:
    close = 1e-6
    return (
        one.left < other.right - close
        and other.left < one.right - close
        and one.top < other.bottom - close
        and other.top < one.bottom - close
    )


@given(diagrams())
def test_whatever_things_are_called_the_drawing_is_a_document(diagram: Diagram) -> None:
    svg = ElementTree.fromstring(diagram_svg(diagram))
    tags = {each.tag.rpartition("}")[2] for each in svg.iter()}
    assert tags <= {"svg", "title", "rect", "text", "g", "path"}
    titles = ["".join(each.itertext()) for each in svg.iter() if each.tag.endswith("title")]
    for box in diagram.boxes:
        names = " -> ".join(printable(part.name) for part in box.parts)
        assert f"[{box.number}] {names}" in titles
    assert len([each for each in svg.iter() if each.tag.endswith("}g")]) == len(diagram.boxes)


@given(diagrams())
def test_whatever_things_are_called_each_has_one_line(diagram: Diagram) -> None:
    text = diagram_text(diagram)
    assert len(text.split("\n")) == 1 + len(diagram.boxes) + len(diagram.arrows)
    assert all(each.isprintable() or each == "\n" for each in text)
    text.encode()


def test_a_diagram_of_nothing() -> None:
    nothing = Diagram("Nothing", (), ())
    assert diagram_text(nothing) == "Nothing"
    assert "Nothing" in diagram_svg(nothing)


def test_long_texts_are_cut_and_kept_whole_beside_it() -> None:
    name = "x" * 500
    svg = ElementTree.fromstring(
        diagram_svg(Diagram("Job", (Box(1, (Part(name, PartKind.SINK),), ()),), ()))
    )
    texts = ["".join(each.itertext()) for each in svg.iter() if each.tag.endswith("}text")]
    assert texts == ["Job", "x" * 47 + "…"]
    assert float(svg.attrib["width"]) < 600
    assert f"[1] {name}" in "".join(svg.itertext())

"""Where everything in the drawing of a diagram goes."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.graph.diagram.diagram import Arrow, Box, Diagram, printable
from holdfast.graph.diagram.horizontal_placement import horizontal_centres
from holdfast.graph.diagram.layers import Layers, into_layers

PART_HEIGHT = 26
FACT_HEIGHT = 15
LABEL_HEIGHT = 13
MARGIN = 20
TITLE_HEIGHT = 24
_TITLE_CHARACTER = 10
_GAP = 28
_LAYER_GAP = 60
_LABEL_GAP = 26
_PADDING = 14
_FACTS_PADDING = 5
_NAME_CHARACTER, _SMALL_CHARACTER = 7.8, 6.6
_MOST_CHARACTERS = 48
_PORT_DISTANCE = 18


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle.

    Attributes:
        left: its left side.
        top: its upper side.
        width: how wide it is.
        height: how high it is.
    """

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Its right side."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Its lower side."""
        return self.top + self.height

    @property
    def centre(self) -> float:
        """The middle between its left and its right side."""
        return self.left + self.width / 2


@dataclass(frozen=True, slots=True)
class Course:
    """The course of an arrow.

    Attributes:
        arrow: the arrow.
        bends: from layer to layer, where it leaves the upper and where it enters the lower one.
        label: where its labels go; None if it has none.
    """

    arrow: Arrow
    bends: tuple[tuple[tuple[float, float], tuple[float, float]], ...]
    label: Rectangle | None


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where everything goes. All of it lies between 0 and the width, and 0 and the height.

    Attributes:
        frames: of the boxes, by number.
        courses: of the arrows, as in the diagram.
        width: how wide the drawing is.
        height: how high it is.
    """

    frames: Mapping[int, Rectangle]
    courses: tuple[Course, ...]
    width: float
    height: float


def shortened(text: str) -> str:
    """A text as it is drawn: no longer than a box may be wide, and harmless.

    Args:
        text: any text.

    >>> shortened("a" * 100) == "a" * 47 + "…"
    True
    """
    shown = printable(text)
    return shown if len(shown) <= _MOST_CHARACTERS else shown[: _MOST_CHARACTERS - 1] + "…"


def geometry_of(diagram: Diagram) -> Geometry:
    """Layers from top to bottom, no two boxes over each other, every arrow leading down.

    Args:
        diagram: what to draw.
    """
    boxes = {box.number: box for box in diagram.boxes}
    is_labelled = any(arrow.labels for arrow in diagram.arrows)
    layers = into_layers(
        list(boxes),
        [(arrow.source, arrow.target) for arrow in diagram.arrows],
        step=2 if is_labelled else 1,
    )
    sizes = {number: _box_size(box) for number, box in boxes.items()}
    if is_labelled:
        for arrow, route in zip(diagram.arrows, layers.routes, strict=True):
            sizes[route[-2]] = _label_size(arrow)
    centres = horizontal_centres(layers, {node: size[0] for node, size in sizes.items()}, _GAP)
    spans = _layer_spans(layers, sizes, _LABEL_GAP if is_labelled else _LAYER_GAP)
    frames = {
        node: Rectangle(centres[node] - width / 2, spans[node][0], width, height)
        for node, (width, height) in sizes.items()
    }
    courses = _courses(diagram.arrows, layers, centres, spans, frames)
    title_width = _text_width(shortened(diagram.title), _TITLE_CHARACTER)
    return _with_margins({number: frames[number] for number in boxes}, courses, title_width)


def _text_width(text: str, character: float) -> float:
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return character * (len(text) + wide)


def _box_size(box: Box) -> tuple[float, float]:
    widths = [_text_width(shortened(part.name), _NAME_CHARACTER) for part in box.parts]
    widths += [_text_width(shortened(fact), _SMALL_CHARACTER) for fact in box.facts]
    facts = len(box.facts) * FACT_HEIGHT + 2 * _FACTS_PADDING if box.facts else 0
    return max(widths, default=0) + 2 * _PADDING, len(box.parts) * PART_HEIGHT + facts


def _label_size(arrow: Arrow) -> tuple[float, float]:
    widths = [_text_width(shortened(label), _SMALL_CHARACTER) for label in arrow.labels]
    return max(widths, default=0), LABEL_HEIGHT * len(arrow.labels)


def _layer_spans(
    layers: Layers, sizes: Mapping[int, tuple[float, float]], gap: float
) -> dict[int, tuple[float, float]]:
    spans: dict[int, tuple[float, float]] = {}
    top = 0.0
    for layer in layers.layers:
        bottom = top + max(sizes[each][1] if each in sizes else 0 for each in layer)
        spans.update(dict.fromkeys(layer, (top, bottom)))
        top = bottom + gap
    return spans


def _courses(
    arrows: Sequence[Arrow],
    layers: Layers,
    centres: Mapping[int, float],
    spans: Mapping[int, tuple[float, float]],
    frames: Mapping[int, Rectangle],
) -> tuple[Course, ...]:
    leaves = _ports(layers.routes, 0, centres, frames)
    enters = _ports(layers.routes, -1, centres, frames)
    courses = []
    for index, (arrow, route) in enumerate(zip(arrows, layers.routes, strict=True)):
        above = [
            (leaves[index], frames[arrow.source].bottom),
            *((centres[each], spans[each][1]) for each in route[1:-1]),
        ]
        below = [
            *((centres[each], spans[each][0]) for each in route[1:-1]),
            (enters[index], frames[arrow.target].top),
        ]
        label = frames[route[-2]] if arrow.labels else None
        courses.append(Course(arrow, tuple(zip(above, below, strict=True)), label))
    return tuple(courses)


def _ports(
    routes: Sequence[tuple[int, ...]],
    end: int,
    centres: Mapping[int, float],
    frames: Mapping[int, Rectangle],
) -> dict[int, float]:
    """Where on the side of its box each arrow begins (end 0) or ends (end -1)."""
    by_box: defaultdict[int, list[int]] = defaultdict(list)
    for index, route in enumerate(routes):
        by_box[route[end]].append(index)
    ports = {}
    for box, indexes in by_box.items():
        frame = frames[box]
        indexes.sort(key=lambda index: centres[routes[index][1 if end == 0 else -2]])
        distance = min(_PORT_DISTANCE, frame.width * 0.8 / len(indexes))
        for place, index in enumerate(indexes):
            ports[index] = frame.centre + (place - (len(indexes) - 1) / 2) * distance
    return ports


def _with_margins(
    frames: Mapping[int, Rectangle], courses: Sequence[Course], least_width: float
) -> Geometry:
    """Everything to the right of and below zero, with a margin all around."""
    labels = [course.label for course in courses if course.label is not None]
    points = [point for course in courses for bend in course.bends for point in bend]
    edges = [each for frame in (*frames.values(), *labels) for each in (frame.left, frame.right)]
    edges += [x for x, _ in points]
    left = min(edges, default=0) - MARGIN
    top = -MARGIN - TITLE_HEIGHT

    def moved(frame: Rectangle) -> Rectangle:
        return Rectangle(frame.left - left, frame.top - top, frame.width, frame.height)

    return Geometry(
        {number: moved(frame) for number, frame in frames.items()},
        tuple(
            Course(
                course.arrow,
                tuple(
                    ((x - left, y - top), (to_x - left, to_y - top))
                    for (x, y), (to_x, to_y) in course.bends
                ),
                None if course.label is None else moved(course.label),
            )
            for course in courses
        ),
        max(max(edges, default=0) - left, least_width + MARGIN) + MARGIN,
        max((frame.bottom for frame in frames.values()), default=0) + MARGIN - top,
    )

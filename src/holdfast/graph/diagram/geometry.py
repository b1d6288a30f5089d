"""Where everything in the drawing of a diagram goes."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.graph.diagram.diagram import Arrow, Box, Diagram, printable
from holdfast.graph.diagram.horizontal_placement import horizontal_centres
from holdfast.graph.diagram.layers import Layers, into_layers

PART_HEIGHT = 26
FACT_HEIGHT = 15
LABEL_HEIGHT = 13
MARGIN = 20
TITLE_HEIGHT = 24
_GAP = 40
_LAYER_GAP = 72
_PADDING = 14
_FACTS_PADDING = 5
_NAME_CHARACTER, _SMALL_CHARACTER = 7.4, 6.2
_MOST_CHARACTERS = 48
_PORT_DISTANCE = 18


@dataclass(frozen=True, slots=True)
class Frame:
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
        label: where its labels go.
    """

    arrow: Arrow
    bends: tuple[tuple[tuple[float, float], tuple[float, float]], ...]
    label: Frame


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where everything goes. All of it lies between 0 and the width, and 0 and the height.

    Attributes:
        frames: of the boxes, by number.
        courses: of the arrows, as in the diagram.
        width: how wide the drawing is.
        height: how high it is.
    """

    frames: Mapping[int, Frame]
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
    layers = into_layers(list(boxes), [(each.source, each.target) for each in diagram.arrows])
    widths = {number: _box_width(box) for number, box in boxes.items()}
    centres = horizontal_centres(layers, widths, _GAP)
    spans = _layer_spans(layers, boxes)
    frames = {
        number: Frame(
            centres[number] - widths[number] / 2, spans[number][0], widths[number], _box_height(box)
        )
        for number, box in boxes.items()
    }
    courses = _courses(diagram.arrows, layers, centres, spans, frames)
    return _shifted(frames, courses)


def _text_width(text: str, character: float) -> float:
    wide = sum(unicodedata.east_asian_width(each) in "WF" for each in text)
    return character * (len(text) + wide)


def _box_width(box: Box) -> float:
    widths = [_text_width(shortened(part.name), _NAME_CHARACTER) for part in box.parts]
    widths += [_text_width(shortened(fact), _SMALL_CHARACTER) for fact in box.facts]
    return max(widths, default=0) + 2 * _PADDING


def _box_height(box: Box) -> float:
    facts = len(box.facts) * FACT_HEIGHT + 2 * _FACTS_PADDING if box.facts else 0
    return len(box.parts) * PART_HEIGHT + facts


def _layer_spans(layers: Layers, boxes: Mapping[int, Box]) -> dict[int, tuple[float, float]]:
    spans: dict[int, tuple[float, float]] = {}
    top = 0.0
    for layer in layers.layers:
        bottom = top + max((_box_height(boxes[each]) for each in layer if each in boxes), default=0)
        spans.update(dict.fromkeys(layer, (top, bottom)))
        top = bottom + _LAYER_GAP
    return spans


def _courses(
    arrows: Sequence[Arrow],
    layers: Layers,
    centres: Mapping[int, float],
    spans: Mapping[int, tuple[float, float]],
    frames: Mapping[int, Frame],
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
        bends = tuple(zip(above, below, strict=True))
        # Where several arrows meet, their labels stand apart only at the other end.
        many_enter = sum(other.target == arrow.target for other in arrows) > 1
        courses.append(Course(arrow, bends, _label(arrow, *bends[0 if many_enter else -1])))
    return tuple(courses)


def _ports(
    routes: Sequence[tuple[int, ...]],
    end: int,
    centres: Mapping[int, float],
    frames: Mapping[int, Frame],
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


def _label(arrow: Arrow, upper: tuple[float, float], lower: tuple[float, float]) -> Frame:
    width = max(
        (_text_width(shortened(each), _SMALL_CHARACTER) for each in arrow.labels), default=0
    )
    height = LABEL_HEIGHT * len(arrow.labels)
    x, y = (upper[0] + lower[0]) / 2, (upper[1] + lower[1]) / 2
    return Frame(x - width / 2, y - height / 2, width, height)


def _shifted(frames: Mapping[int, Frame], courses: Iterable[Course]) -> Geometry:
    """With a margin all around, and everything to the right of and below zero."""
    courses = tuple(courses)
    found = [*frames.values(), *(course.label for course in courses)]
    left = min((frame.left for frame in found), default=0) - MARGIN
    right = max((frame.right for frame in found), default=0) + MARGIN
    top = -MARGIN - TITLE_HEIGHT
    bottom = max((frame.bottom for frame in found), default=0) + MARGIN

    def moved(frame: Frame) -> Frame:
        return Frame(frame.left - left, frame.top - top, frame.width, frame.height)

    def moved_point(point: tuple[float, float]) -> tuple[float, float]:
        return point[0] - left, point[1] - top

    return Geometry(
        {number: moved(frame) for number, frame in frames.items()},
        tuple(
            Course(
                course.arrow,
                tuple((moved_point(upper), moved_point(lower)) for upper, lower in course.bends),
                moved(course.label),
            )
            for course in courses
        ),
        right - left,
        bottom - top,
    )

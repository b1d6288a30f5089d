"""A diagram as a drawing, for a notebook or a browser."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from holdfast.graph.diagram.diagram import Box, Diagram, PartKind, printable
from holdfast.graph.diagram.geometry import (
    FACT_HEIGHT,
    LABEL_HEIGHT,
    MARGIN,
    PART_HEIGHT,
    Course,
    Rectangle,
    geometry_of,
    shortened,
)

_FILLS = {
    PartKind.SOURCE: "#dbeafe",
    PartKind.OPERATOR: "#f1f5f9",
    PartKind.SINK: "#dcfce7",
    PartKind.CACHE: "#fde68a",
    PartKind.CACHE_READER: "#fed7aa",
    PartKind.VIRTUAL: "#ffffff",
}
_INK, _FAINT, _LINE, _KEPT = "#0f172a", "#475569", "#64748b", "#b45309"


def diagram_svg(diagram: Diagram) -> str:
    """A picture that needs nothing beside itself.

    Args:
        diagram: what to draw.

    Returns:
        An `<svg>` element. The same diagram gives the same text.

    >>> from holdfast.graph.diagram.diagram import Part
    >>> box = Box(1, (Part("a < b", PartKind.SOURCE),), ())
    >>> "a &lt; b" in diagram_svg(Diagram("Job", (box,), ()))
    True
    """
    geometry = geometry_of(diagram)
    width, height = f"{geometry.width:.0f}", f"{geometry.height:.0f}"
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" style="max-width:100%;height:auto" '
        'font-family="Helvetica, Arial, DejaVu Sans, sans-serif" text-anchor="middle">',
        f"<title>{_escaped(diagram.title)}</title>",
        '<rect width="100%" height="100%" rx="8" fill="#ffffff"/>',
        _text(
            MARGIN, MARGIN + 8, diagram.title, 14, _INK, 'text-anchor="start" font-weight="bold"'
        ),
    ]
    for course in geometry.courses:
        elements.extend(_arrow(course))
    for box in diagram.boxes:
        elements.extend(_box(box, geometry.frames[box.number]))
    # Last, so that nothing lies over them.
    for course in geometry.courses:
        elements.extend(_labels(course))
    return "\n".join([*elements, "</svg>"])


def _escaped(text: str) -> str:
    return escape(printable(text))


def _text(x: float, y: float, text: str, size: int, fill: str, more: str = "") -> str:
    shown = _escaped(shortened(text))
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{fill}" {more}>{shown}</text>'


def _box(box: Box, frame: Rectangle) -> Iterator[str]:
    names = " -> ".join(part.name for part in box.parts)
    yield f"<g><title>{_escaped(f'[{box.number}] {names}')}</title>"
    yield _rectangle(frame, "#ffffff", _LINE)
    for index, part in enumerate(box.parts):
        strip = Rectangle(frame.left, frame.top + index * PART_HEIGHT, frame.width, PART_HEIGHT)
        yield _rectangle(strip, _FILLS[part.kind], _LINE)
        yield _text(frame.centre, strip.top + 17, part.name, 13, _INK)
    below = frame.top + len(box.parts) * PART_HEIGHT
    for index, fact in enumerate(box.facts):
        yield _text(frame.centre, below + 16 + index * FACT_HEIGHT, fact, 11, _FAINT)
    yield "</g>"


def _rectangle(frame: Rectangle, fill: str, stroke: str) -> str:
    return (
        f'<rect x="{frame.left:.1f}" y="{frame.top:.1f}" width="{frame.width:.1f}" '
        f'height="{frame.height:.1f}" rx="4" fill="{fill}" stroke="{stroke}"/>'
    )


def _arrow(course: Course) -> Iterator[str]:
    colour = _KEPT if course.arrow.is_kept else _LINE
    steps: list[str] = []
    for (x, y), (to_x, to_y) in course.bends:
        middle = (y + to_y) / 2
        steps.append(f"{'L' if steps else 'M'}{x:.1f},{y:.1f}")
        steps.append(f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}")
    thickness = 3 if course.arrow.is_kept else 1.5
    yield (
        f'<path d="{" ".join(steps)}" fill="none" stroke="{colour}" stroke-width="{thickness}"/>'
    )
    x, y = course.bends[-1][1]
    yield f'<path d="M{x - 5:.1f},{y - 9:.1f} h10 L{x:.1f},{y:.1f} z" fill="{colour}"/>'


def _labels(course: Course) -> Iterator[str]:
    if course.label is None:
        return
    colour = _KEPT if course.arrow.is_kept else _FAINT
    halo = 'stroke="#ffffff" stroke-width="4" paint-order="stroke" stroke-linejoin="round"'
    for index, label in enumerate(course.arrow.labels):
        y = course.label.top + 10 + index * LABEL_HEIGHT
        yield _text(course.label.centre, y, label, 11, colour, halo)

"""A diagram as Mermaid's text, which notebooks and browsers draw."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.graph.diagram.diagram import Box, Diagram, PartKind, printable

_MOST_CHARACTERS = 48
_FILLS = {
    PartKind.SOURCE: "#dbeafe",
    PartKind.OPERATOR: "#f1f5f9",
    PartKind.SINK: "#dcfce7",
    PartKind.CACHE: "#fde68a",
    PartKind.CACHE_READER: "#fed7aa",
    PartKind.VIRTUAL: "#ffffff",
}


def diagram_mermaid(diagram: Diagram) -> str:
    """A flow chart from top to bottom; the same diagram gives the same text.

    Args:
        diagram: what to draw.

    >>> from holdfast.graph.diagram.diagram import Arrow, Part
    >>> boxes = (Box(1, (Part("a", PartKind.SOURCE),), ()), Box(2, (Part("b", PartKind.SINK),), ()))
    >>> job = Diagram("Job", boxes, (Arrow(1, 2, ("HASH",)),))
    >>> for line in diagram_mermaid(job).splitlines()[:4]:
    ...     print(line)
    flowchart TB
    1["a"]:::source
    2["b"]:::sink
    1 -- "HASH" --> 2
    """
    return "\n".join(_lines(diagram))


def _lines(diagram: Diagram) -> Iterator[str]:
    yield "flowchart TB"
    for box in diagram.boxes:
        yield f'{box.number}["{_label(box)}"]:::{box.parts[-1].kind.name.lower()}'
    for arrow in diagram.arrows:
        line, tip = ("==", "==>") if arrow.is_kept else ("--", "-->")
        label = ", ".join(map(_shown, arrow.labels))
        between = f'{line} "{label}" {tip}' if label else tip
        yield f"{arrow.source} {between} {arrow.target}"
    for kind, fill in _FILLS.items():
        yield f"classDef {kind.name.lower()} fill:{fill},stroke:#64748b,color:#0f172a"


def _label(box: Box) -> str:
    names = (_shown(part.name) for part in box.parts)
    return "<br>".join((*names, *map(_shown, box.facts)))


def _shown(text: str) -> str:
    """No longer than a box may be wide, and nothing that means anything to Mermaid or HTML."""
    shown = printable(text)
    if len(shown) > _MOST_CHARACTERS:
        shown = f"{shown[: _MOST_CHARACTERS - 1]}…"
    return "".join(
        each if each.isalnum() or each in " .,:…" else f"#{ord(each)};" for each in shown
    )

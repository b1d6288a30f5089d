"""A diagram as lines of text, for a terminal."""

from __future__ import annotations

from collections import defaultdict

from holdfast.graph.diagram.diagram import Arrow, Box, Diagram, printable


def diagram_text(diagram: Diagram) -> str:
    """Each box on a line, each arrow on a line below the box that it enters.

    Args:
        diagram: what to show.

    >>> from holdfast.graph.diagram.diagram import Part, PartKind
    >>> source = Box(1, (Part("Source", PartKind.SOURCE),), ("parallelism 2",))
    >>> sink = Box(2, (Part("Map", PartKind.OPERATOR), Part("Sink", PartKind.SINK)), ())
    >>> print(diagram_text(Diagram("Job", (source, sink), (Arrow(1, 2, ("HASH",)),))))
    Job
    [1] Source (parallelism 2)
    [2] Map -> Sink
        <- [1] HASH
    """
    entering: defaultdict[int, list[Arrow]] = defaultdict(list)
    for arrow in diagram.arrows:
        entering[arrow.target].append(arrow)
    lines = [printable(diagram.title)]
    for box in diagram.boxes:
        lines.append(_box_line(box))
        lines.extend(_arrow_line(arrow) for arrow in entering[box.number])
    return "\n".join(lines)


def _box_line(box: Box) -> str:
    names = " -> ".join(printable(part.name) for part in box.parts)
    facts = f" ({', '.join(map(printable, box.facts))})" if box.facts else ""
    return f"[{box.number}] {names}{facts}"


def _arrow_line(arrow: Arrow) -> str:
    return f"    <- [{arrow.source}] {', '.join(map(printable, arrow.labels))}".rstrip()

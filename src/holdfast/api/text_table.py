"""Tables of text, for a terminal and for a notebook."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def as_text(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str]
) -> str:
    """A title, below it the columns side by side, and notes.

    Args:
        title: one line.
        headings: one for each column.
        rows: as many cells each.
        notes: a line each.

    Example:
        >>> print(as_text("Two fruits", ("fruit", "n"), [("apple", "2"), ("fig", "12")], ["fresh"]))
        Two fruits
          fruit  n
          apple  2
          fig    12
          fresh
    """
    cells = [tuple(headings), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [title]
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  " + "  ".join(padded).rstrip())
    return "\n".join([*lines, *(f"  {note}" for note in notes)])


def as_html(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str]
) -> str:
    """The same for a notebook.

    Args:
        title: one line.
        headings: one for each column.
        rows: as many cells each.
        notes: a paragraph each.

    Example:
        >>> as_html("One", ("a",), [("<1>",)], []).partition('</thead>')[2]
        '<tbody><tr><td>&lt;1&gt;</td></tr></tbody></table></div>'
    """
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    below = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    return (
        f"<div><p><b>{html.escape(title)}</b></p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{below}</div>"
    )

"""How the commands that list things show them to people."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from datetime import datetime

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.cli.datasets.printable import printable

UNKNOWN = "-"
_FAILED = 1
_INTERRUPTED = 130
_WIDEST = 100_000
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def printing(show: Callable[[], int]) -> int:
    """Runs what prints to this process's output.

    Args:
        show: prints, and gives the exit code.

    Returns:
        that code; 1 where whoever reads has seen enough, 130 after Ctrl-C.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names may hold what the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="replace")
    try:
        code = show()
        sys.stdout.flush()
    except BrokenPipeError:
        # Nothing must be flushed to it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def output() -> Console:
    """This process's output; a pipe gets a line for each row, however long, unless COLUMNS is set.

    Returns:
        a console that takes nothing for markup.
    """
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDEST
    return console


def age(created: datetime | None, now: datetime) -> str:
    """How long ago something was, in its largest unit."""
    if created is None:
        return UNKNOWN
    return duration((now - created).total_seconds())


def duration(seconds: float) -> str:
    """How long something takes, in its largest unit.

    >>> duration(7_300), duration(59.9)
    ('2 h', '59 s')
    """
    whole = max(0, int(seconds))
    return next(
        (f"{whole // length} {unit}" for unit, length in _UNITS if whole >= length), f"{whole} s"
    )


def plain_table() -> Table:
    """A table without lines."""
    return Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")


def show(console: Console, what: RenderableType) -> None:
    """Shows something, without the spaces that a table is filled up with."""
    with console.capture() as drawn:
        console.print(what)
    lines = (line.rstrip(" ") for line in drawn.get().splitlines())
    console.file.write("".join(f"{line}\n" for line in lines))


def as_text(text: str) -> Text:
    """Text that comes from files and other machines, fit for a terminal."""
    return Text(printable(text))

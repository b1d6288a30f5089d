"""Where the demo shows itself: a terminal with bars and colours, or plain lines in a pipe."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

_WIDTH = 100


class Stage:
    """Shows text, tables and progress.

    Args:
        console: where to; by default this process's output, at most 100 columns wide.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or _standard_console()
        self._is_animated = self.console.is_terminal and not self.console.is_dumb_terminal

    def headline(self, text: str) -> None:
        """Begins a part of the demo."""
        self.console.print()
        self.console.print(_printable(text), style="bold cyan")

    def say(self, text: str, style: str = "") -> None:
        """Shows a paragraph."""
        for line in text.splitlines():
            # A pipe has no width to wrap at.
            self.console.print(_printable(line), style=style, soft_wrap=not self._is_animated)

    def show(self, renderable: RenderableType) -> None:
        """Shows a table or anything else that rich can draw."""
        if self._is_animated:
            self.console.print(renderable)
            return
        with self.console.capture() as drawn:
            self.console.print(renderable)
        lines = (line.rstrip() for line in drawn.get().splitlines())
        self.console.print(Text("\n".join(lines)), soft_wrap=True)

    @contextmanager
    def progress(self, title: str, total: float) -> Iterator[StageProgress]:
        """A bar in a terminal; in a pipe a line for each thing that is done.

        Args:
            title: what goes on.
            total: how much there is to do.
        """
        bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[now]}", markup=False, style="dim"),
            console=self.console,
            disable=not self._is_animated,
        )
        with bar:
            task = bar.add_task(f"{title:<12}", total=total, now="")
            yield StageProgress(self, bar, task, title)
            bar.update(task, completed=total, now="")

    @contextmanager
    def log_lines(self) -> Iterator[None]:
        """Shows what Holdfast logs in the block."""
        logger = logging.getLogger("holdfast")
        handler = _StageHandler(self)
        propagated, logger.propagate = logger.propagate, False
        logger.addHandler(handler)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.propagate = propagated


class StageProgress:
    """Tells a bar how far things are, see `Stage.progress`."""

    def __init__(self, stage: Stage, bar: Progress, task: TaskID, title: str) -> None:
        self._stage = stage
        self._bar = bar
        self._task = task
        self._title = title

    def now(self, what: str) -> None:
        """Something begins."""
        self._bar.update(self._task, now=_printable(what).plain)

    def advance(self, amount: float = 1) -> None:
        """So much more of the total is done."""
        self._bar.advance(self._task, amount)

    def reached(self, completed: float) -> None:
        """So much of the total is done."""
        self._bar.update(self._task, completed=completed)

    def note(self, what: str) -> None:
        """Something has ended; a pipe gets a line about it."""
        if self._bar.disable:
            self._stage.say(f"{self._title}: {what}")


class _StageHandler(logging.Handler):
    def __init__(self, stage: Stage) -> None:
        super().__init__(logging.WARNING)
        self._stage = stage

    def emit(self, record: logging.LogRecord) -> None:
        self._stage.say(f"  log: {record.getMessage()}", style="yellow")


def _standard_console() -> Console:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names of files and columns may hold what the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="replace")
    console = Console(markup=False, highlight=False, emoji=False)
    console.width = min(console.width, _WIDTH) if console.is_terminal else _WIDTH
    return console


def _printable(text: str) -> Text:
    # A file's name may hold control characters, which a terminal would obey.
    return Text("".join(letter if letter.isprintable() else "?" for letter in text))

"""Prints what was measured, and writes it down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figure import Figure


def write(figures: Sequence[Figure], path: Path) -> None:
    """A table on the standard output, and JSON in a file.

    Args:
        figures: what was measured.
        path: the file.
    """
    table = Table()
    for heading in ("what", "median", "from", "to", "unit", "target", "reached", "made from"):
        numeric = heading in ("median", "from", "to", "target")
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for figure in figures:
        numbers = (figure.value, min(figure.values), max(figure.values))
        table.add_row(
            figure.what,
            *(_shown(number, figure.unit) for number in numbers),
            figure.unit,
            f"{'≥' if figure.at_least else '≤'} {_shown(figure.target, figure.unit)}",
            "yes" if figure.reached else "NO",
            figure.sides,
        )
    Console(width=150).print(table)
    document = [
        {**asdict(figure), "median": figure.value, "reached": figure.reached} for figure in figures
    ]
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _shown(number: float, unit: str) -> str:
    if unit == "ratio":
        return f"{number:,.3f}"
    # Of a few of them a rounded number would not say whether the target was reached.
    return f"{number:,.2f}" if unit in ("ms", "s") and abs(number) < 100 else f"{number:,.0f}"

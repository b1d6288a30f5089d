"""What a kept result is called, so that people recognize it."""

from __future__ import annotations

import re

_LONGEST_STEP = 80
# Spark numbers columns, and marks those that are bigints.
_ID = re.compile(r"#\d+L?")


def result_label(
    summary: str, step: str | None, name: str | None = None, place: str | None = None
) -> str:
    """A name that tells a result from others over the same sources.

    Args:
        summary: what the plan does, and what it reads, see `holdfast.plan.summary`.
        step: its last step, as Spark shows it; None where nothing is known of it.
        name: what the program calls the result, if anything.
        place: where the program has asked for it, if that is known.

    Example:
        >>> step = "Aggregate [day#3], [day#3, count(1) AS n#7L]"
        >>> result_label("Aggregate, Join over flights", step, "by_day", "report.py:12")
        'by_day: Aggregate [day], [day, count(1) AS n], Join over flights (report.py:12)'
        >>> result_label("Join over flights, weather", "Project [day#3, wind#9]")
        'Project [day, wind]; Join over flights, weather'
    """
    label = summary
    if step:
        # A name is one line, whatever a literal has.
        shown = " ".join(_ID.sub("", step).split())
        short = shown if len(shown) <= _LONGEST_STEP else shown[: _LONGEST_STEP - 3] + "..."
        operator = re.match(r"\w*", shown)
        first = operator[0] if operator else ""
        is_first = bool(first) and re.match(rf"{first}\b", summary) is not None
        label = f"{short}{summary[len(first) :]}" if is_first else f"{short}; {summary}"
    if name is not None:
        label = f"{name}: {label}"
    return label if place is None else f"{label} ({place})"

"""The times as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from holdfast import VertexOutcome
from holdfast.cli.amounts import seconds
from holdfast.cli.demo.comparison import AnswerComparison, totals

_PLAIN, _CACHED, _GREY = "#b8c0cc", "#12805c", "#5b6470"
_BAR = 0.38


def draw_chart(comparisons: Sequence[AnswerComparison], title: str, path: Path) -> None:
    """Draws the times of both sides as bars, question by question.

    Args:
        comparisons: the questions with their answers.
        title: what data they are about.
        path: the PNG file to write.
    """
    figure = Figure(figsize=(10, 1.9 + 0.62 * len(comparisons)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = range(len(comparisons))
    plain = [each.plain.seconds for each in comparisons]
    cached = [each.cached.seconds for each in comparisons]
    before, after = totals(comparisons)
    for offset, times, color, label in (
        (-_BAR / 2, plain, _PLAIN, f"plain Spark, {seconds(before)} in all"),
        (_BAR / 2, cached, _CACHED, f"cache(), {seconds(after)} in all"),
    ):
        bars = axes.barh(
            [place + offset for place in places], times, height=_BAR, color=color, label=label
        )
        axes.bar_label(bars, [seconds(each) for each in times], padding=4, color=_GREY, fontsize=9)
    titles = [
        f"{each.question.title}\n(computed and kept)"
        if each.kept == VertexOutcome.PRODUCED.value
        else each.question.title
        for each in comparisons
    ]
    # A column's name may hold a dollar sign, which would begin a formula.
    axes.set_yticks(list(places), titles, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel("seconds from the question to the last row of its answer", color=_GREY)
    axes.margins(x=0.12)
    axes.tick_params(left=False, colors=_GREY)
    axes.tick_params(axis="y", labelcolor="black")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_title(title, loc="left", fontsize=13, fontweight="bold", parse_math=False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, frameon=False)
    figure.savefig(path, dpi=150)

"""A question with its answers from both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from holdfast.cli.amounts import seconds
from holdfast.cli.demo.answer import Answer, agree
from holdfast.cli.demo.story import Question


@dataclass(frozen=True)
class AnswerComparison:
    """A question, answered by plain Spark and by Holdfast.

    Attributes:
        question: what was asked.
        plain: the answer of plain Spark.
        cached: the answer of a Holdfast job.
        kept: what that job did with the kept data, in its own words.
    """

    question: Question
    plain: Answer
    cached: Answer
    kept: str

    @property
    def agrees(self) -> bool:
        """Whether both answers are the same."""
        return agree(self.question, self.plain, self.cached)


def totals(comparisons: Sequence[AnswerComparison]) -> tuple[float, float]:
    """The seconds of all questions together, on plain Spark and with cache().

    Args:
        comparisons: the questions of a session.
    """
    return (
        sum(each.plain.seconds for each in comparisons),
        sum(each.cached.seconds for each in comparisons),
    )


def comparison_table(comparisons: Sequence[AnswerComparison]) -> RichTable:
    """The times side by side, one question a line.

    Args:
        comparisons: the questions of a session.
    """
    table = RichTable(box=box.SIMPLE_HEAD, show_footer=True, padding=(0, 1, 0, 0))
    plain, cached = totals(comparisons)
    agreed = sum(each.agrees for each in comparisons)
    table.add_column("question", "all questions", overflow="ellipsis", no_wrap=True)
    table.add_column("rows", "", justify="right", no_wrap=True)
    table.add_column("plain Spark", seconds(plain), justify="right", no_wrap=True)
    table.add_column("cache()", seconds(cached), justify="right", style="green", no_wrap=True)
    table.add_column("speed-up", _ratio(plain, cached), justify="right", no_wrap=True)
    table.add_column("kept data", "", no_wrap=True)
    table.add_column("agree", f"{agreed} of {len(comparisons)}", no_wrap=True)
    for each in comparisons:
        table.add_row(
            Text(each.question.title),
            f"{len(each.cached.rows):,}",
            seconds(each.plain.seconds),
            seconds(each.cached.seconds),
            _ratio(each.plain.seconds, each.cached.seconds),
            each.kept,
            Text("yes") if each.agrees else Text("NO", style="bold red"),
        )
    return table


def _ratio(plain: float, cached: float) -> str:
    return f"{plain / cached:.1f} x"

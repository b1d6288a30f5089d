"""What `holdfast advise` shows to people."""

from __future__ import annotations

from collections import Counter

from rich.console import Console

from holdfast.advice.proposal import Proposal
from holdfast.cli.advice.advice import Advice
from holdfast.cli.amounts import size
from holdfast.cli.terminal import as_text, plain_table, show

_MOST_CALLS = 3
_COMPARED = " Plans are compared by their text: Python functions by name."


def show_advice(console: Console, advice: Advice) -> None:
    """Shows a row for each proposal, and what all of them come to.

    Args:
        console: where to.
        advice: what to show.
    """
    if advice.proposals:
        table = plain_table()
        for name in ("SAVES", "READS", "COMPUTE", "SIZE"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("CACHE", overflow="fold")
        table.add_column("ASKED FOR BY", overflow="fold")
        for each in advice.proposals:
            row = (
                f"{each.saved_seconds:,.1f} s",
                f"{each.reads:,}",
                f"{each.seconds:,.1f} s",
                size(each.bytes),
                each.what,
                _asked_by(each),
            )
            table.add_row(*map(as_text, row))
        show(console, table)
    for line in _summary(advice):
        show(console, as_text(line))


def _summary(advice: Advice) -> list[str]:
    queries = f"{len(advice.queries):,} queries of {advice.applications:,} applications"
    if not advice.queries:
        where = "in these event logs" if advice.is_of_logs else "on record"
        lines = [f"There are no completed SQL queries {where}."]
    elif not advice.proposals:
        lines = [f"Nothing in {queries} was computed twice and is worth caching."]
    else:
        share = advice.saved_seconds / max(advice.task_seconds, 1e-9)
        lines = [
            f"cache() would have saved {advice.saved_seconds:,.1f} s of "
            f"{advice.task_seconds:,.1f} s of task time ({share:.0%}) in {queries}, "
            f"and kept {size(advice.bytes)}.",
            "SAVES and COMPUTE are task time." + (_COMPARED if advice.is_of_logs else ""),
        ]
    if advice.reads:
        lines.append(
            f"What was kept unasked was read {advice.reads:,} times; {advice.wrong_reads:,} of "
            "these took longer than computing it."
        )
    if advice.cut_short:
        lines.append(
            f"{advice.cut_short:,} operators have so many columns that Spark shortened them, and "
            "were not compared: set spark.sql.debug.maxToStringFields to 10000 for later programs."
        )
    if advice.unreadable:
        lines.append(f"{advice.unreadable:,} lines are not events of Spark's, and were skipped.")
    return lines


def _asked_by(proposal: Proposal) -> str:
    calls = Counter(f"{query.what} [{query.program}]" for query in proposal.queries)
    shown = [
        call if times == 1 else f"{call} {times:,}x"
        for call, times in calls.most_common(_MOST_CALLS)
    ]
    more = len(calls) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")

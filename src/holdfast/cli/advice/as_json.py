"""The format of `--json`, which is stable: keys may be added, but never change their meaning.

The command prints an object. Numbers are plain, times are in ISO 8601. It has

    queries               how many completed SQL queries the event logs have
    applications          how many applications ran them
    task_seconds          what their tasks took, added up
    saved_seconds         how much of it `cache()` would have saved, writing and reading counted
    bytes                 of all that would have been kept
    operators_cut_short   how many operators Spark shortened in the logs, which were not compared
    unreadable_lines      how many lines are not events
    reads                 how often what was kept unasked was read, where it is known what that took
    wrong_reads           how often of these computing it would have taken less
    proposals             objects, what saves most first, of
        plan              64 digits: the same for the same plan over the same files
        what              what it computes
        bytes             of its rows
        seconds           of tasks, to compute it: the median
        reads             how often it would have been read
        saved_seconds     of tasks
        queries           objects of application, program, number (Spark's execution id), what,
                          started and seconds (elapsed), in order: the first one computes it
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from holdfast.advice.past_query import PastQuery
from holdfast.advice.proposal import Proposal
from holdfast.cli.advice.advice import Advice


def described(advice: Advice) -> dict[str, Any]:
    """The object that is printed."""
    return {
        "queries": len(advice.queries),
        "applications": advice.applications,
        "task_seconds": advice.task_seconds,
        "saved_seconds": advice.saved_seconds,
        "bytes": advice.bytes,
        "operators_cut_short": advice.cut_short,
        "unreadable_lines": advice.unreadable,
        "reads": advice.reads,
        "wrong_reads": advice.wrong_reads,
        "proposals": [_proposal(each) for each in advice.proposals],
    }


def _proposal(proposal: Proposal) -> dict[str, Any]:
    return {
        "plan": proposal.key,
        "what": proposal.what,
        "bytes": proposal.bytes,
        "seconds": proposal.seconds,
        "reads": proposal.reads,
        "saved_seconds": proposal.saved_seconds,
        "queries": [_query(each) for each in proposal.queries],
    }


def _query(query: PastQuery) -> dict[str, Any]:
    return {
        "application": query.application,
        "program": query.program,
        "number": query.number,
        "what": query.what,
        "started": datetime.fromtimestamp(query.started, timezone.utc).isoformat(),
        "seconds": query.elapsed,
    }

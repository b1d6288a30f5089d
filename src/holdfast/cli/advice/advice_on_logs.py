"""The advice on Spark's event logs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.advice.event_log_files import event_logs
from holdfast.advice.logged_queries import logged_queries
from holdfast.cli.advice.advice import Advice, AdviceLimits
from holdfast.errors import EventLogError


def advice_on_logs(paths: Iterable[Path], limits: AdviceLimits) -> Advice:
    """Reads event logs, and says what would have been worth keeping.

    Logs of a directory that can't be read are left out.

    Args:
        paths: logs, and directories of them.
        limits: what is not proposed.

    Raises:
        EventLogError: when there is nothing at a path.
    """
    logs, failures = [], []
    for log in [log for path in paths for log in event_logs(path)]:
        try:
            logs.append(logged_queries(log.lines()))
        except EventLogError as error:
            failures.append(str(error))
    queries = [query for each in logs for query in each.queries]
    queries.sort(key=lambda query: query.started)
    return Advice(
        tuple(queries),
        limits.chosen(queries),
        sum(each.cut_short for each in logs),
        sum(each.unreadable for each in logs),
        tuple(failures),
    )

"""What a task executor holds for the catalog, and what is wrong with it."""

from __future__ import annotations

from holdfast.cli.upkeep.held_result import HeldPart
from holdfast.errors import UnknownApplicationError, UnknownDataSetError
from holdfast.ids import CATALOG_APPLICATION
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor


def held_by(executor: RemoteTaskExecutor) -> tuple[str, list[HeldPart]]:
    """Which executor it is, and what it holds.

    Args:
        executor: the one that is asked.

    Raises:
        HoldfastError: when it doesn't respond, or refuses.
    """
    # A sign of life comes soon or never; a report may take its time.
    executor_id, parts = executor.describe().executor_id, []
    try:
        reports = executor.report(CATALOG_APPLICATION)
    except UnknownApplicationError:
        # It was started without a catalog.
        return executor_id, []
    for report in reports:
        try:
            wrong = executor.damage(CATALOG_APPLICATION, report.output)
        except UnknownDataSetError:
            # Released since the report.
            continue
        parts.append(HeldPart(report, wrong))
    return executor_id, parts

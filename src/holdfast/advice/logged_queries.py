"""The queries that an event log of Spark's tells of."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.advice.executed_plan import Measured, executed_plan
from holdfast.advice.past_query import PastQuery

_SQL = "org.apache.spark.sql.execution.ui.SparkListener"
_EVENT = b'{"Event":"'
# Most lines of a log are of tasks, which add up to what is said of their stages.
_NEEDED = tuple(
    _EVENT + name.encode() + b'"'
    for name in (
        "SparkListenerApplicationStart",
        "SparkListenerJobStart",
        "SparkListenerStageCompleted",
        f"{_SQL}SQLExecutionStart",
        f"{_SQL}SQLAdaptiveExecutionUpdate",
        f"{_SQL}DriverAccumUpdates",
        f"{_SQL}SQLExecutionEnd",
    )
)
_EXECUTION = "spark.sql.execution.id"
_TASK_TIME = "internal.metrics.executorRunTime"
_RESULT_SIZE = "internal.metrics.resultSize"
_MILLISECONDS = 1000.0


@dataclass(frozen=True, slots=True)
class LoggedQueries:
    """What a log tells of.

    Attributes:
        queries: those that have ended well, in the order in which they ended.
        cut_short: how many operators the log has cut short, so that what they are part of is like
            nothing else.
        unreadable: how many lines aren't events, or hold plans that are too deep.
    """

    queries: tuple[PastQuery, ...]
    cut_short: int = 0
    unreadable: int = 0


def logged_queries(lines: Iterable[bytes]) -> LoggedQueries:
    """The queries of one application.

    Args:
        lines: its event log.
    """
    log = _Log()
    unreadable = 0
    for line in lines:
        if not line.startswith(_NEEDED):
            unreadable += bool(line.strip()) and not line.startswith(_EVENT)
            continue
        try:
            log.hear(json.loads(line))
        # A plan may be thousands of operators deep.
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            unreadable += 1
    return LoggedQueries(tuple(log.ended), log.cut_short, unreadable)


@dataclass
class _Execution:
    """A query that runs."""

    what: str
    started: float
    plan: Mapping[str, Any]
    values: dict[int, int] = field(default_factory=dict)
    stages: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    seconds: dict[int, float] = field(default_factory=dict)
    result_bytes: dict[int, int] = field(default_factory=dict)


class _Log:
    def __init__(self) -> None:
        self.ended: list[PastQuery] = []
        self.cut_short = 0
        self._application = self._program = ""
        self._running: dict[int, _Execution] = {}
        self._execution_of_stage: dict[int, int] = {}

    def hear(self, event: Mapping[str, Any]) -> None:
        match str(event["Event"]).removeprefix(_SQL):
            case "SparkListenerApplicationStart":
                self._application = str(event.get("App ID", ""))
                self._program = str(event.get("App Name", ""))
            case "SQLExecutionStart":
                self._running[int(event["executionId"])] = _Execution(
                    str(event["description"]), float(event["time"]), event["sparkPlanInfo"]
                )
            case "SQLAdaptiveExecutionUpdate":
                running = self._running.get(int(event["executionId"]))
                if running is not None:
                    running.plan = event["sparkPlanInfo"]
            case "DriverAccumUpdates":
                running = self._running.get(int(event["executionId"]))
                if running is not None:
                    for key, value in event["accumUpdates"]:
                        running.values[int(key)] = int(value)
            case "SparkListenerJobStart":
                execution = (event.get("Properties") or {}).get(_EXECUTION)
                if execution is not None:
                    for stage in event["Stage IDs"]:
                        # The first job to name a stage runs it; later ones may find it done.
                        self._execution_of_stage.setdefault(int(stage), int(execution))
            case "SparkListenerStageCompleted":
                self._stage_completed(event["Stage Info"])
            case "SQLExecutionEnd":
                self._end(int(event["executionId"]), event)

    def _stage_completed(self, stage: Mapping[str, Any]) -> None:
        number = int(stage["Stage ID"])
        running = self._running.get(self._execution_of_stage.get(number, -1))
        if running is None:
            return
        for each in stage.get("Accumulables", ()):
            name, value = each.get("Name"), each.get("Value")
            if name == _TASK_TIME:
                spent = int(value) / _MILLISECONDS
                running.seconds[number] = running.seconds.get(number, 0.0) + spent
            elif name == _RESULT_SIZE:
                running.result_bytes[number] = int(value)
            elif each.get("Metadata") == "sql":
                running.stages[int(each["ID"])].add(number)
                running.values[int(each["ID"])] = int(value)

    def _end(self, number: int, event: Mapping[str, Any]) -> None:
        running = self._running.pop(number, None)
        if running is None or event.get("errorMessage"):
            return
        measured = Measured(
            running.values,
            {key: frozenset(stages) for key, stages in running.stages.items()},
            running.seconds,
            running.result_bytes,
        )
        plan = executed_plan(running.plan, measured)
        self.cut_short += plan.cut_short
        self.ended.append(
            PastQuery(
                self._application,
                self._program,
                number,
                running.what,
                running.started / _MILLISECONDS,
                (float(event["time"]) - running.started) / _MILLISECONDS,
                plan.root,
            )
        )

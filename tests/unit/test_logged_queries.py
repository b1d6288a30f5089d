"""Queries of event logs: which parts of them are alike, and what each has cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.advice.logged_queries import LoggedQueries, logged_queries
from holdfast.advice.past_query import PastQuery

_SQL = "org.apache.spark.sql.execution.ui.SparkListener"
Plan = dict[str, Any]


class Log:
    """Writes what Spark would."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.event("SparkListenerApplicationStart", **{"App ID": "local-1", "App Name": "report"})

    def event(self, name: str, **fields: Any) -> None:
        self.lines.append(json.dumps({"Event": name, **fields}, separators=(",", ":")).encode())

    def sql(self, name: str, number: int, **fields: Any) -> None:
        self.event(f"{_SQL}{name}", executionId=number, **fields)

    def begin(self, plan: Plan, number: int = 0) -> None:
        start = {"description": "count at report.py:1", "sparkPlanInfo": plan}
        self.sql("SQLExecutionStart", number, time=1_000 * number, **start)

    def end(self, number: int = 0, error: str = "") -> None:
        self.sql("SQLExecutionEnd", number, time=1_000 * number + 500, errorMessage=error)

    def job(self, execution: int | None, *stages: int) -> None:
        properties = {} if execution is None else {"spark.sql.execution.id": str(execution)}
        job = {"Job ID": 0, "Stage IDs": [*stages], "Properties": properties}
        self.event("SparkListenerJobStart", **job)

    def stage(self, number: int, seconds: float, metrics: Mapping[int, int]) -> None:
        run_time = int(1000 * seconds)
        noted = [
            {"ID": 10_000, "Name": "internal.metrics.executorRunTime", "Value": run_time},
            {"ID": 10_001, "Name": "internal.metrics.resultSize", "Value": 700},
            *(
                {"ID": key, "Name": "a metric", "Value": str(value), "Metadata": "sql"}
                for key, value in metrics.items()
            ),
        ]
        stage = {"Stage ID": number, "Accumulables": noted}
        self.event("SparkListenerStageCompleted", **{"Stage Info": stage})

    def run(self, plan: Plan, number: int) -> None:
        """A query as adaptive execution runs it, over `aggregated(…, 100)`."""
        self.begin(node("AdaptiveSparkPlan", "AdaptiveSparkPlan isFinalPlan=false"), number)
        self.job(number, 2 * number)
        self.stage(2 * number, 3.0, {100: 10, 101: 5, 102: 640, 103: 99})
        self.job(number, 2 * number, 2 * number + 1)
        self.stage(2 * number + 1, 0.5, {104: 10, 105: 4})
        self.sql(
            "SQLAdaptiveExecutionUpdate", number, physicalPlanDescription="", sparkPlanInfo=plan
        )
        self.end(number)

    def read(self) -> LoggedQueries:
        return logged_queries(self.lines)


def node(name: str, text: str, *children: Any, **metrics: int) -> Plan:
    noted = [
        {"name": key.replace("_", " "), "accumulatorId": number, "metricType": "sum"}
        for key, number in metrics.items()
    ]
    plan = {"nodeName": name, "simpleString": text, "children": [*children]}
    return {**plan, "metadata": {}, "metrics": noted}


def scan(
    ids: int, rows: int, table: str = "lineitem", where: str = "[]", columns: str = "", **more: int
) -> Plan:
    columns = columns or f"[k#{ids}L,x#{ids + 1}]"
    text = f"FileScan parquet {columns} Location: InMemoryFileIndex(1 paths)"
    found = node("Scan parquet ", text, number_of_output_rows=rows, **more)
    location = f"InMemoryFileIndex(1 paths)[file:/data/{table}]"
    found["metadata"] = {"Location": location, "DataFilters": where, "ReadSchema": columns}
    return found


def aggregated(
    ids: int, first: int, top: str = "Filter", project: str = "", **scanned: Any
) -> Plan:
    """An aggregate over a shuffle, as adaptive execution has run it."""
    keys = f"HashAggregate(keys=[k#{ids}L], functions"
    source = scan(ids, first, **scanned)
    if project:
        source = node("Project", f"Project {project}", source)
    partial = node("HashAggregate", f"{keys}=[partial_sum(x#{ids + 1})])", source)
    exchange = node(
        "Exchange",
        f"Exchange hashpartitioning(k#{ids}L, 4), ENSURE_REQUIREMENTS, [plan_id={ids}]",
        node("WholeStageCodegen (1)", "WholeStageCodegen (1)", partial, duration=first + 1),
        data_size=first + 2,
        shuffle_bytes_written=first + 3,
        records_read=first + 4,
    )
    stage = node("ShuffleQueryStage", "ShuffleQueryStage 0", exchange)
    final = node(
        *("HashAggregate", f"{keys}=[sum(x#{ids + 1})])", stage), number_of_output_rows=first + 5
    )
    above = node(top, f"{top} (k#{ids}L > 1)", final)
    return node("AdaptiveSparkPlan", "AdaptiveSparkPlan isFinalPlan=true", above)


def ran(plan: Plan) -> PastQuery:
    log = Log()
    log.run(plan, 1)
    [query] = log.read().queries
    return query


def keys(plan: Plan) -> tuple[str | None, str | None]:
    """Those of a query and of the part below its top."""
    log = Log()
    log.begin(plan)
    log.end()
    [query] = log.read().queries
    return query.root.key, query.root.inputs[0].key


def test_a_part_costs_what_its_stages_and_its_share_of_the_last_one_took() -> None:
    query = ran(aggregated(5, 100))
    assert (query.application, query.program, query.number) == ("local-1", "report", 1)
    assert (query.what, query.started, query.elapsed) == ("count at report.py:1", 1.0, 0.5)
    [below] = query.root.inputs
    # A program never has the rows of a partial aggregate.
    assert below.what == "Aggregate(keys=[k], functions=[sum(x)]) over lineitem"
    assert below.inputs == ()
    assert 3.0 < below.seconds < 3.5
    assert query.root.seconds == pytest.approx(3.5)
    # Ten rows of 64 bytes each are shuffled, of which the aggregate makes four.
    assert (below.bytes, query.root.bytes) == (256, 700)


GROUPED = aggregated(5, 100)


@pytest.mark.parametrize(
    ("other", "same_part", "same_query"),
    [
        pytest.param(aggregated(77, 200), True, True, id="other numbers"),
        pytest.param(aggregated(77, 200, "GlobalLimit"), True, False, id="another operator above"),
        pytest.param(aggregated(77, 200, table="orders"), False, False, id="other files"),
        pytest.param(aggregated(77, 200, where="[(k#77L > 6)]"), False, False, id="filtered"),
        pytest.param(aggregated(77, 200, columns="[k#77L,y#78]"), True, True, id="other columns"),
        pytest.param(aggregated(77, 200, project="[k#77L, x#78]"), True, True, id="projected"),
        pytest.param(
            aggregated(77, 200, project="[k#77L, (x#9 + 1) AS x#78]"), False, False, id="computed"
        ),
    ],
)
def test_parts_are_the_same_where_their_rows_are(
    other: Plan, same_part: bool, same_query: bool
) -> None:
    (top, part), (other_top, other_part) = keys(GROUPED), keys(other)
    assert None not in (top, part, other_top, other_part)
    assert ((part == other_part), (top == other_top)) == (same_part, same_query)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("LocalTableScan", "LocalTableScan [k#1, x#2]"),
        ("Scan ExistingRDD", "Scan ExistingRDD[k#1, x#2]"),
        ("InMemoryTableScan", "InMemoryTableScan [k#1]"),
        ("Filter", "Filter (a#1 = 1) AND ... 30 more fields"),
    ],
)
def test_what_a_log_leaves_open_is_like_nothing(name: str, text: str) -> None:
    log = Log()
    exchange = node("Exchange", "Exchange rr(2)", node(name, text), data_size=1)
    log.begin(node("Project", "Project", exchange))
    log.end()
    found = log.read()
    assert {part.key for query in found.queries for part in query.root.walk()} == {None}
    assert found.cut_short == ("more fields" in text)


def test_a_reused_exchange_costs_nothing_again() -> None:
    text = "ReusedExchange [k#9L, sum#10], Exchange hashpartitioning(k#5L, 4), [plan_id=5]"
    reused = node("ReusedExchange", text, records_read=300)
    other = node("HashAggregate", "HashAggregate(keys=[k#9L], functions=[sum(x#10)])", reused)
    both = (aggregated(5, 100), other)
    join = node("SortMergeJoin", "SortMergeJoin [k#5L], [k#9L], Inner", *both)
    computed, again = ran(join).root.inputs
    assert computed.key is not None and again.key is not None
    # Of the aggregate's second half there is one for each.
    assert computed.seconds > 3.0 and again.seconds < 0.5
    unknown = node("ReusedExchange", "ReusedExchange [k#9L], Exchange rr(4), [plan_id=99]")
    assert ran(node("Union", "Union", aggregated(5, 100), unknown)).root.key is None


def test_only_queries_that_have_ended_well_count() -> None:
    log = Log()
    log.begin(aggregated(5, 100), 1)
    log.end(1, "java.lang.OutOfMemoryError")
    log.begin(aggregated(5, 100), 2)
    log.job(None, 7)
    log.stage(7, 9.0, {})
    assert log.read().queries == ()


DEEP = (
    b'{"Event":"%sSQLExecutionStart","executionId":1,"description":"","time":1,"sparkPlanInfo":'
    % _SQL.encode()
    + b'{"nodeName":"Filter","simpleString":"Filter","children":[' * 20_000
    + b"]}" * 20_000
    + b"}"
)
UNREADABLE = [
    *(DEEP, b"not JSON", b'{"Event":"SparkListenerStageCompleted","Stage In'),
    b'{"Event":"SparkListenerStageCompleted","Stage Info":[]}',
]
OTHERS = [
    b'{"Event":"SparkListenerJobStart","Job ID":1}',
    *(b'{"Event":"SparkListenerSomethingNew","Job ID":1}', b""),
]


def test_lines_that_can_not_be_read_cost_nothing_else() -> None:
    log = Log()
    log.lines += [*UNREADABLE, *OTHERS]
    log.end(1)
    log.run(aggregated(5, 100), 2)
    found = log.read()
    assert (len(found.queries), found.unreadable) == (1, len(UNREADABLE))

"""Queries of event logs: which parts of them are alike, and what each has cost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from holdfast.advice.logged_queries import LoggedQueries, logged_queries
from holdfast.advice.past_query import PastQuery

_SQL = "org.apache.spark.sql.execution.ui.SparkListener"


class Log:
    """Writes what Spark would."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.event("SparkListenerApplicationStart", **{"App ID": "local-1", "App Name": "report"})

    def event(self, name: str, **fields: Any) -> None:
        self.lines.append(json.dumps({"Event": name, **fields}, separators=(",", ":")).encode())

    def begin(self, plan: Mapping[str, Any], number: int = 0) -> None:
        start = {"description": "count at report.py:1", "sparkPlanInfo": plan}
        self.event(f"{_SQL}SQLExecutionStart", executionId=number, time=1_000 * number, **start)

    def job(self, execution: int | None, stages: Iterable[int]) -> None:
        properties = {} if execution is None else {"spark.sql.execution.id": str(execution)}
        job = {"Job ID": 0, "Stage IDs": [*stages], "Properties": properties}
        self.event("SparkListenerJobStart", **job)

    def stage(self, number: int, seconds: float, metrics: Mapping[int, int] | None = None) -> None:
        run_time = int(1000 * seconds)
        noted = [
            {"ID": 10_000, "Name": "internal.metrics.executorRunTime", "Value": run_time},
            {"ID": 10_001, "Name": "internal.metrics.resultSize", "Value": 700},
            *(
                {"ID": key, "Name": "a metric", "Value": str(value), "Metadata": "sql"}
                for key, value in (metrics or {}).items()
            ),
        ]
        stage = {"Stage ID": number, "Accumulables": noted}
        self.event("SparkListenerStageCompleted", **{"Stage Info": stage})

    def end(self, number: int = 0, error: str = "") -> None:
        time = 1_000 * number + 500
        self.event(f"{_SQL}SQLExecutionEnd", executionId=number, time=time, errorMessage=error)

    def read(self) -> LoggedQueries:
        return logged_queries(self.lines)


def queries(*plans: Mapping[str, Any]) -> list[PastQuery]:
    """Those of a log that says no more of them than their plans."""
    log = Log()
    for number, plan in enumerate(plans):
        log.begin(plan, number)
        log.end(number)
    return [*log.read().queries]


def node(name: str, text: str, *children: Any, **metrics: int) -> dict[str, Any]:
    return {
        "nodeName": name,
        "simpleString": text,
        "children": [*children],
        "metadata": {},
        "metrics": [
            {"name": key.replace("_", " "), "accumulatorId": number, "metricType": "sum"}
            for key, number in metrics.items()
        ],
    }


def scan(ids: int, metric: int, table: str = "lineitem", **metrics: int) -> dict[str, Any]:
    found = node(
        "Scan parquet ",
        f"FileScan parquet [k#{ids}L,x#{ids + 1}] Location: InMemoryFileIndex(1 paths)[file:/data",
        number_of_output_rows=metric,
        **metrics,
    )
    found["metadata"] = {"Location": f"InMemoryFileIndex(1 paths)[file:/data/{table}]"}
    return found


def aggregated(ids: int, first: int, top: str = "Filter", **scanned: Any) -> dict[str, Any]:
    """An aggregate over a shuffle, as adaptive execution has run it."""
    exchange = node(
        "Exchange",
        f"Exchange hashpartitioning(k#{ids}L, 4), ENSURE_REQUIREMENTS, [plan_id={ids}]",
        node(
            "WholeStageCodegen (1)",
            "WholeStageCodegen (1)",
            node(
                "HashAggregate",
                f"HashAggregate(keys=[k#{ids}L], functions=[partial_sum(x#{ids + 1})])",
                scan(ids, first, **scanned),
            ),
            duration=first + 1,
        ),
        data_size=first + 2,
        shuffle_bytes_written=first + 3,
        records_read=first + 4,
    )
    return node(
        "AdaptiveSparkPlan",
        "AdaptiveSparkPlan isFinalPlan=true",
        node(
            top,
            f"{top} (k#{ids}L > 1)",
            node(
                "HashAggregate",
                f"HashAggregate(keys=[k#{ids}L], functions=[sum(x#{ids + 1})])",
                node("ShuffleQueryStage", "ShuffleQueryStage 0", exchange),
                number_of_output_rows=first + 5,
            ),
        ),
    )


def run(log: Log, plan: Mapping[str, Any], number: int, first: int) -> None:
    log.begin(node("AdaptiveSparkPlan", "AdaptiveSparkPlan isFinalPlan=false"), number)
    log.job(number, [2 * number])
    log.stage(2 * number, 3.0, {first: 10, first + 1: 5, first + 2: 640, first + 3: 99})
    log.job(number, [2 * number, 2 * number + 1])
    log.stage(2 * number + 1, 0.5, {first + 4: 10, first + 5: 4})
    log.event(
        f"{_SQL}SQLAdaptiveExecutionUpdate",
        executionId=number,
        physicalPlanDescription="",
        sparkPlanInfo=plan,
    )
    log.end(number)


def ran(plan: Mapping[str, Any]) -> PastQuery:
    log = Log()
    run(log, plan, 1, 100)
    [query] = log.read().queries
    return query


def keys(plan: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Those of a query and of the part below its top."""
    [query] = queries(plan)
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


def test_the_same_parts_are_the_same_under_other_numbers_and_steps() -> None:
    (top, part), again, other_top, other_files = map(
        keys,
        (
            aggregated(5, 100),
            aggregated(77, 200),
            aggregated(77, 200, "GlobalLimit"),
            aggregated(77, 200, table="orders"),
        ),
    )
    assert again == (top, part) and None not in again
    assert other_top[0] != top and other_top[1] == part
    assert other_files[1] != part


def test_other_columns_of_the_same_rows_are_the_same_part() -> None:
    def joined(ids: int, columns: str, condition: str, project: str = "") -> str | None:
        left, right = scan(ids, 1), scan(ids + 10, 2, "orders")
        left["simpleString"] = f"FileScan parquet [k#{ids}L,{columns}] Batched: true"
        left["metadata"] |= {"DataFilters": condition, "ReadSchema": columns}
        projected = node("Project", project or f"Project [k#{ids}L, {columns}]", left)
        sides = [
            node("Sort", f"Sort [k#{each}L ASC]", node("Exchange", "Exchange h", side, data_size=3))
            for each, side in ((ids, projected), (ids + 10, right))
        ]
        join = node("SortMergeJoin", f"SortMergeJoin [k#{ids}L], [k#{ids + 10}L], Inner", *sides)
        top = node("HashAggregate", f"HashAggregate(keys=[], functions=[max({columns})])", join)
        return keys(top)[1]

    one = joined(1, "x#2", "[(k#1L > 5)]")
    assert one is not None
    assert joined(31, "y#32", "[(k#31L > 5)]") == one
    assert joined(31, "y#32", "[(k#31L > 6)]") != one
    assert joined(1, "x#2", "[(k#1L > 5)]", "Project [k#1L, (x#9 + 1) AS x#2]") != one


@pytest.mark.parametrize("way", ["BroadcastHashJoin", "ShuffledHashJoin"])
def test_a_join_is_the_same_in_every_way_it_is_run(way: str) -> None:
    def joined(name: str, more: str) -> dict[str, Any]:
        join = node(name, f"{name} [k#1L], [k#3L], Inner{more}", scan(1, 1), scan(3, 2, "orders"))
        return node("Project", "Project [k#1L]", join)

    one, other = queries(joined("SortMergeJoin", ""), joined(way, ", BuildRight"))
    assert one.root.key == other.root.key is not None


def test_more_files_of_one_directory_are_another_part() -> None:
    log = Log()
    for number in (1, 2, 3):
        listed = 100 * number + 90
        log.begin(aggregated(5, 100 * number, size_of_files_read=listed), number)
        updates = [[listed, number // 2]]
        log.event(f"{_SQL}DriverAccumUpdates", executionId=number, accumUpdates=updates)
        log.end(number)
    found = [query.root.inputs[0].key for query in log.read().queries]
    assert found[0] != found[1] == found[2]


@pytest.mark.parametrize(
    "leaf",
    [
        node("LocalTableScan", "LocalTableScan [k#1, x#2]"),
        node("Scan ExistingRDD", "Scan ExistingRDD[k#1, x#2]"),
        node("InMemoryTableScan", "InMemoryTableScan [k#1]"),
        node("Filter", "Filter (a#1 = 1) AND ... 30 more fields"),
    ],
    ids=lambda leaf: str(leaf["nodeName"]),
)
def test_what_a_log_leaves_open_is_like_nothing(leaf: Mapping[str, Any]) -> None:
    log = Log()
    log.begin(node("Project", "Project", node("Exchange", "Exchange rr(2)", leaf, data_size=1)))
    log.end()
    found = log.read()
    assert {part.key for query in found.queries for part in query.root.walk()} == {None}
    assert found.cut_short == ("more fields" in leaf["simpleString"])


def test_a_reused_exchange_costs_nothing_again() -> None:
    reused = node(
        "ReusedExchange",
        "ReusedExchange [k#9L, sum#10], Exchange hashpartitioning(k#5L, 4), [plan_id=5]",
        records_read=300,
    )
    other = node("HashAggregate", "HashAggregate(keys=[k#9L], functions=[sum(x#10)])", reused)
    both = (aggregated(5, 100), other)
    join = node("SortMergeJoin", "SortMergeJoin [k#5L], [k#9L], Inner", *both)
    computed, again = ran(join).root.inputs
    assert computed.key is not None and again.key is not None
    # Of the aggregate's second half there is one for each.
    assert computed.seconds > 3.0 and again.seconds < 0.5
    unknown = node("ReusedExchange", "ReusedExchange [k#9L], Exchange rr(4), [plan_id=99]")
    assert ran(node("Union", "Union", aggregated(5, 100), unknown)).root.key is None


def test_writes_are_not_proposed_but_what_they_read() -> None:
    name = "Execute InsertIntoHadoopFsRelationCommand"
    one, other = (keys(node(name, "Execute x", aggregated(ids, 100))) for ids in (5, 6))
    assert one[0] is other[0] is None
    assert one[1] == other[1] is not None


def test_only_queries_that_have_ended_well_count() -> None:
    log = Log()
    log.begin(aggregated(5, 100), 1)
    log.end(1, "java.lang.OutOfMemoryError")
    log.begin(aggregated(5, 100), 2)
    log.job(None, [7])
    log.stage(7, 9.0)
    assert log.read().queries == ()


DEEP = (
    b'{"Event":"%sSQLExecutionStart","executionId":1,"description":"","time":1,"sparkPlanInfo":'
    % _SQL.encode()
    + b'{"nodeName":"Filter","simpleString":"Filter","children":[' * 20_000
    + b"]}" * 20_000
    + b"}"
)
DAMAGED = [
    b"not JSON",
    b'{"Event":"SparkListenerStageCompleted","Stage In',
    b'{"Event":"SparkListenerStageCompleted","Stage Info":[]}',
]
OTHERS = [
    b'{"Event":"SparkListenerJobStart","Job ID":1}',
    b'{"Event":"SparkListenerSomethingNew","Job ID":1}',
    b"",
]


@pytest.mark.parametrize("lines", [[DEEP], [*DAMAGED, *OTHERS]], ids=["too deep", "damaged"])
def test_lines_that_can_not_be_read_cost_nothing_else(lines: list[bytes]) -> None:
    log = Log()
    log.lines += lines
    log.end(1)
    run(log, aggregated(5, 100), 2, 100)
    found = log.read()
    assert (len(found.queries), found.unreadable) == (1, len(lines) - 3 * (len(lines) > 1))

"""Queries as event logs tell of them: which parts are alike, and what each has cost."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from holdfast.advice.logged_queries import LoggedQueries, logged_queries
from holdfast.advice.past_query import PastQuery

_SQL = "org.apache.spark.sql.execution.ui.SparkListener"


class Log:
    """Writes what Spark would."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.numbers = itertools.count(1)
        self.event("SparkListenerApplicationStart", **{"App ID": "local-1", "App Name": "report"})

    def event(self, name: str, **fields: Any) -> None:
        self.lines.append(json.dumps({"Event": name, **fields}, separators=(",", ":")).encode())

    def begin(self, plan: Mapping[str, Any], number: int = 0) -> None:
        self.event(
            f"{_SQL}SQLExecutionStart",
            executionId=number,
            description="count at report.py:1",
            sparkPlanInfo=plan,
            time=1_000 * number,
        )

    def job(self, execution: int | None, stages: Iterable[int]) -> None:
        properties = {} if execution is None else {"spark.sql.execution.id": str(execution)}
        self.event(
            "SparkListenerJobStart",
            **{"Job ID": 0, "Stage IDs": [*stages], "Properties": properties},
        )

    def stage(self, number: int, seconds: float, metrics: Mapping[int, int] | None = None) -> None:
        told = [
            {
                "ID": 10_000,
                "Name": "internal.metrics.executorRunTime",
                "Value": int(1000 * seconds),
            },
            {"ID": 10_001, "Name": "internal.metrics.resultSize", "Value": 700},
            *(
                {"ID": key, "Name": "a metric", "Value": str(value), "Metadata": "sql"}
                for key, value in (metrics or {}).items()
            ),
        ]
        self.event(
            "SparkListenerStageCompleted",
            **{"Stage Info": {"Stage ID": number, "Accumulables": told}},
        )

    def end(self, number: int = 0, error: str = "") -> None:
        self.event(
            f"{_SQL}SQLExecutionEnd",
            executionId=number,
            time=1_000 * number + 500,
            errorMessage=error,
        )

    def read(self) -> LoggedQueries:
        return logged_queries(self.lines)


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


def two(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[PastQuery, PastQuery]:
    log = Log()
    run(log, one, 1, 100)
    run(log, other, 2, 200)
    first, second = log.read().queries
    return first, second


def test_a_part_costs_what_its_stages_and_its_share_of_the_last_one_took() -> None:
    log = Log()
    run(log, aggregated(5, 100), 1, 100)
    [query] = log.read().queries
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


def test_the_same_plan_under_other_numbers_is_the_same() -> None:
    one, other = two(aggregated(5, 100), aggregated(77, 200))
    assert one.root.key == other.root.key is not None
    assert one.root.inputs[0].key == other.root.inputs[0].key


def test_another_step_above_is_another_query_over_the_same_part() -> None:
    one, other = two(aggregated(5, 100), aggregated(77, 200, "GlobalLimit"))
    assert one.root.key != other.root.key
    assert one.root.inputs[0].key == other.root.inputs[0].key is not None


def test_other_columns_of_the_same_rows_are_the_same_part() -> None:
    def joined(ids: int, columns: str, condition: str) -> dict[str, Any]:
        left, right = scan(ids, 1), scan(ids + 10, 2, "orders")
        left["simpleString"] = f"FileScan parquet [k#{ids}L,{columns}] Batched: true"
        left["metadata"] |= {"DataFilters": condition, "ReadSchema": columns}
        projected = node("Project", f"Project [k#{ids}L, {columns}]", left)
        sides = [
            node("Sort", f"Sort [k#{each}L ASC]", node("Exchange", "Exchange h", side, data_size=3))
            for each, side in ((ids, projected), (ids + 10, right))
        ]
        join = node("SortMergeJoin", f"SortMergeJoin [k#{ids}L], [k#{ids + 10}L], Inner", *sides)
        return node("HashAggregate", f"HashAggregate(keys=[], functions=[max({columns})])", join)

    def join_of(plan: Mapping[str, Any]) -> str | None:
        log = Log()
        log.begin(plan)
        log.end()
        [query] = log.read().queries
        [join] = query.root.inputs
        assert "Join" in join.what
        return join.key

    one = join_of(joined(1, "x#2", "[(k#1L > 5)]"))
    assert one is not None
    assert join_of(joined(31, "y#32", "[(k#31L > 5)]")) == one
    assert join_of(joined(31, "y#32", "[(k#31L > 6)]")) != one
    computed = joined(1, "x#2", "[(k#1L > 5)]")
    computed["children"][0]["children"][0]["children"][0]["children"][0]["simpleString"] = (
        "Project [k#1L, (x#9 + 1) AS x#2]"
    )
    assert join_of(computed) != one


@pytest.mark.parametrize("way", ["BroadcastHashJoin", "ShuffledHashJoin"])
def test_a_join_is_the_same_in_whichever_way_it_is_run(way: str) -> None:
    def joined(name: str, more: str) -> dict[str, Any]:
        join = node(name, f"{name} [k#1L], [k#3L], Inner{more}", scan(1, 1), scan(3, 2, "orders"))
        return node("Project", "Project [k#1L]", join)

    log = Log()
    for number, plan in enumerate((joined("SortMergeJoin", ""), joined(way, ", BuildRight"))):
        log.begin(plan, number)
        log.end(number)
    one, other = log.read().queries
    assert one.root.key == other.root.key is not None


def test_other_files_are_another_part() -> None:
    one, other = two(aggregated(5, 100), aggregated(77, 200, table="orders"))
    assert one.root.inputs[0].key != other.root.inputs[0].key


def test_more_files_of_one_directory_are_another_part() -> None:
    log = Log()
    for number in (1, 2, 3):
        first = 100 * number
        listed = first + 90
        log.begin(aggregated(5, first, size_of_files_read=listed), number)
        log.event(
            f"{_SQL}DriverAccumUpdates", executionId=number, accumUpdates=[[listed, number // 2]]
        )
        log.end(number)
    keys = [query.root.inputs[0].key for query in log.read().queries]
    assert keys[0] != keys[1] == keys[2]


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
def test_what_a_log_does_not_tell_is_like_nothing(leaf: Mapping[str, Any]) -> None:
    plan = node("Project", "Project [k#1]", node("Exchange", "Exchange rr(2)", leaf, data_size=1))
    log = Log()
    for number in (1, 2):
        log.begin(plan, number)
        log.end(number)
    found = log.read()
    assert {part.key for query in found.queries for part in query.root.walk()} == {None}
    assert found.cut_short == (2 if "more fields" in leaf["simpleString"] else 0)


def test_a_reused_exchange_costs_nothing_again() -> None:
    reused = node(
        "ReusedExchange",
        "ReusedExchange [k#9L, sum#10], Exchange hashpartitioning(k#5L, 4), [plan_id=5]",
        records_read=300,
    )
    other = node("HashAggregate", "HashAggregate(keys=[k#9L], functions=[sum(x#10)])", reused)
    both = (aggregated(5, 100), other)
    log = Log()
    run(log, node("SortMergeJoin", "SortMergeJoin [k#5L], [k#9L], Inner", *both), 1, 100)
    [query] = log.read().queries
    computed, again = query.root.inputs
    assert computed.key is not None and again.key is not None
    assert computed.seconds > 3.0
    # Of the aggregate's second half there is one for each.
    assert again.seconds < 0.5
    unknown = node("ReusedExchange", "ReusedExchange [k#9L], Exchange rr(4), [plan_id=99]")
    log = Log()
    run(log, node("Union", "Union", aggregated(5, 100), unknown), 1, 100)
    assert log.read().queries[0].root.key is None


def test_writes_are_not_proposed_but_what_they_read() -> None:
    one, other = two(
        node("Execute InsertIntoHadoopFsRelationCommand", "Execute x", aggregated(5, 100)),
        node("Execute InsertIntoHadoopFsRelationCommand", "Execute x", aggregated(6, 200)),
    )
    assert one.root.key is other.root.key is None
    assert one.root.inputs[0].key == other.root.inputs[0].key is not None


def test_only_queries_that_have_ended_well_count() -> None:
    log = Log()
    log.begin(aggregated(5, 100), 1)
    log.end(1, "java.lang.OutOfMemoryError")
    log.begin(aggregated(5, 100), 2)
    log.job(None, [7])
    log.stage(7, 9.0)
    assert log.read().queries == ()


def test_a_plan_that_is_too_deep_costs_its_query_alone() -> None:
    log = Log()
    log.lines.append(
        b'{"Event":"%sSQLExecutionStart","executionId":1,"description":"","time":1,"sparkPlanInfo":'
        % _SQL.encode()
        + b'{"nodeName":"Filter","simpleString":"Filter","children":[' * 20_000
        + b"]}" * 20_000
        + b"}"
    )
    log.end(1)
    run(log, aggregated(5, 100), 2, 100)
    found = log.read()
    assert (len(found.queries), found.unreadable) == (1, 1)


def damaged() -> Iterator[bytes]:
    yield b"not JSON"
    yield b'{"Event":"SparkListenerStageCompleted","Stage In'
    yield b'{"Event":"SparkListenerJobStart","Job ID":1}'
    yield b'{"Event":"SparkListenerSomethingNew","Job ID":1}'
    yield b""
    yield b'{"Event":"SparkListenerStageCompleted","Stage Info":[]}'


def test_lines_that_are_no_events_are_counted() -> None:
    log = Log()
    log.lines += damaged()
    run(log, aggregated(5, 100), 1, 100)
    found = log.read()
    assert (len(found.queries), found.unreadable) == (1, 3)

"""What functions of Python compute from: code, what it refers to, their kind, their tasks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast import VertexOutcome
from holdfast.testing import assert_computes, assert_differ, assert_reads, assert_same
from tests.spark.asking import assert_apart
from tests.spark.conftest import Probe
from tests.spark.frame_functions import (
    batch_sizes,
    doubled,
    each_doubled,
    each_tripled,
    names_of_columns,
    names_of_group,
    tripled,
)

pytest_plugins = ["tests.spark.asking"]

# pandas_udf and arrow_udf have no overload for functions without annotations.
pandas_udf: Any = F.pandas_udf
arrow_udf: Any = F.arrow_udf
Make = Callable[[], Any]


def of(function: Any, kind: str = "string") -> Callable[[Probe], DataFrame]:
    called = function if hasattr(function, "returnType") else F.udf(function, kind)
    return lambda p: p.env.table("riders").select(called("e").alias("x"))


def long(function: Any) -> Any:
    return F.udf(function, "long")


def plus(step: Any) -> Any:
    return lambda x: str(x + step)


# What counts of a function: tests/unit/test_function_digest.py.
OTHER: dict[str, tuple[Make, ...]] = {
    "the body": (lambda: lambda x: x + 1, lambda: lambda x: x + 2, lambda: lambda x: x * 2),
    "the closure": (lambda: plus(1), lambda: plus(2), lambda: plus(1.0)),
    "what it returns": (
        lambda: F.udf(lambda x: x, "bigint"),
        lambda: F.udf(lambda x: x, "int"),
        lambda: F.udf(lambda x: (x,), "struct<p: bigint>"),
        lambda: F.udf(lambda x: (x,), "struct<q: bigint>"),
    ),
    "its kind": (
        lambda: F.udf(lambda x: x, "long", useArrow=False),
        lambda: F.udf(lambda x: x, "long", useArrow=True),
        lambda: pandas_udf(lambda x: x, "long"),
        lambda: arrow_udf(lambda x: x, "long"),
    ),
}


@pytest.mark.parametrize("what", OTHER)
def test_a_function_differs_in(asked: Probe, what: str) -> None:
    assert_apart(asked, [of(make()) for make in OTHER[what]])


def test_a_function_that_differs_is_called(probe: Probe) -> None:
    probe.keep(of(plus(1)))
    probe.assert_reads(of(plus(1)))
    probe.assert_computes(of(plus(2)))


OFFSET = 1


def test_what_a_function_refers_to_counts(asked: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    class Steps:
        by = 1

    def of_global() -> DataFrame:
        return asked.table(of(long(lambda x: x + OFFSET)))

    def of_class() -> DataFrame:
        return asked.table(of(long(lambda x: x + Steps.by)))

    one, other = of_global(), of_class()
    assert_same(one, of_global())
    assert_same(other, of_class())
    monkeypatch.setitem(globals(), "OFFSET", 2)
    Steps.by = 5
    assert_differ(one, of_global())
    assert_differ(other, of_class())
    # Looking at it leaves it alone.
    assert Steps.by == 5
    lists = [asked.spark.sparkContext.broadcast([each]) for each in (1, 2)]
    assert_apart(asked, [of(long(lambda x, each=each: x + each.value[0])) for each in lists])
    both = F.udf(lambda x, y: f"{x} {y}", "string")
    columns = [("a", "e"), ("e", "a"), ("a", "a")]
    assert_apart(asked, [lambda p, c=c: p.env.table("riders").select(both(*c)) for c in columns])


# -- what can't be known ---------------------------------------------------------------------------


def scaled_by(path: str) -> Any:
    def scaled(x: int) -> int:
        with open(path) as file:
            return x * int(file.read())

    return scaled


def batches(frames: Any) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield pd.DataFrame({"x": [os.environ.get("HF_TEST", "-")] * len(frame)})


def property_of_the_job(x: int) -> str | None:
    context = TaskContext.get()
    return context.getLocalProperty("hf.test") if context is not None else None


UNKNOWN: dict[str, Callable[[Path], Callable[[Probe], DataFrame]]] = {
    "a file": lambda path: of(scaled_by(str(path)), "long"),
    "a file by its path": lambda path: of(lambda x: x * int(path.read_text()), "long"),
    "a variable": lambda _: (
        lambda p: p.env.table("riders").select("e").mapInPandas(batches, "x string")
    ),
    "a property of the job": lambda _: of(property_of_the_job),
    "that it is not deterministic": lambda _: of(long(lambda x: x + 1).asNondeterministic()),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_a_function_matches_only_itself_that_sees(asked: Probe, tmp_path: Path, what: str) -> None:
    query = UNKNOWN[what](tmp_path / "factor")
    assert_differ(asked.table(query), asked.table(query), "reason")


def test_a_file_that_a_function_reads_may_change(probe: Probe, tmp_path: Path) -> None:
    path = tmp_path / "factor"
    path.write_text("2")
    probe.keep(of(scaled_by(str(path)), "long"))
    path.write_text("3")
    probe.assert_computes(of(scaled_by(str(path)), "long"))


def test_files_that_a_function_only_writes_raise_no_doubt(asked: Probe, tmp_path: Path) -> None:
    place = str(tmp_path / "log")

    def logged(x: int) -> int:
        with open(place, "a") as log:
            log.write(".")
        return x

    assert_same(*(asked.table(of(logged, "long")) for _ in range(2)))


# -- where they run --------------------------------------------------------------------------------


def test_the_time_zone_of_python_s_workers_counts(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Moments are handed over in it, whatever zone the session and Java have."""

    def moments(p: Probe) -> DataFrame:
        moment = F.timestamp_seconds(F.lit(0))
        return p.env.table("riders").select(F.udf(lambda t: str(t), "string")(moment).alias("x"))

    probe.keep(moments)
    monkeypatch.setitem(probe.spark.sparkContext.environment, "TZ", "Asia/Kathmandu")
    probe.assert_computes(moments)
    monkeypatch.undo()
    assert_reads(probe.table(moments))
    try:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", "Asia/Kathmandu")
            time.tzset()
            assert_computes(probe.table(moments))
    finally:
        time.tzset()
    assert_reads(probe.table(moments))


def test_a_function_in_batches_may_see_how_they_are_cut(probe: Probe) -> None:
    numbers = probe.env.range(0, 8, 1, 2)
    kept = probe.keep(lambda p: numbers.select(pandas_udf(batch_sizes, "bigint")("id").alias("n")))
    assert {row.n for row in kept.collect()} == {4}
    with probe.settings({"spark.sql.execution.arrow.maxRecordsPerBatch": "3"}):
        assert {row.n for row in kept.collect()} == {3, 1}
        assert VertexOutcome.READ not in probe.outcomes()


# -- whole rows, groups, tables --------------------------------------------------------------------


def renamed(p: Probe, name: str) -> DataFrame:
    return p.env.table("riders").select("a", F.col("e").alias(name))


def grouped(p: Probe, schema: str, function: Any = doubled) -> DataFrame:
    return p.env.table("riders").select("a", "e").groupBy("a").applyInPandas(function, schema)


def steps(by: int) -> DataFrame:
    @F.udtf(returnType="n: int")
    class Steps:
        def eval(self, x: int) -> Iterator[tuple[int]]:
            yield (x + by,)

    return Steps.asDeterministic()(F.lit(1))  # type: ignore[attr-defined, no-any-return]


WHOLE: dict[str, list[Callable[[Probe], DataFrame]]] = {
    "names of columns": [
        lambda p: renamed(p, "x").mapInPandas(names_of_columns, "names string"),
        lambda p: renamed(p, "y").mapInPandas(names_of_columns, "names string"),
    ],
    "names of columns of groups": [
        lambda p: renamed(p, "x").groupBy("x").applyInPandas(names_of_group, "names string"),
        lambda p: renamed(p, "y").groupBy("y").applyInPandas(names_of_group, "names string"),
    ],
    "code and schemas of rows": [
        lambda p: renamed(p, "e").mapInPandas(each_doubled, "a long, e long"),
        lambda p: renamed(p, "e").mapInPandas(each_tripled, "a long, e long"),
        lambda p: renamed(p, "e").mapInPandas(each_doubled, "e long, a long"),
        lambda p: renamed(p, "e").mapInPandas(each_doubled, "a long, e double"),
    ],
    "code and schemas of groups": [
        lambda p: grouped(p, "a long, e long"),
        lambda p: grouped(p, "a long, e long", tripled),
        lambda p: grouped(p, "a long, e int"),
        lambda p: grouped(p, "e long, a long"),
    ],
    "functions that give tables": [lambda _: steps(1), lambda _: steps(2)],
}


@pytest.mark.parametrize("what", WHOLE)
def test_functions_of_whole_rows_differ_in(asked: Probe, what: str) -> None:
    assert_apart(asked, WHOLE[what])
    first = WHOLE[what][0]
    assert_same(asked.table(first), asked.table(first))


def test_a_deep_value_ends_in_no_recursion_error(asked: Probe) -> None:
    deep: list[Any] = []
    for _ in range(250):
        deep = [deep]
    query = of(lambda x: x + len(deep), "long")
    assert_same(asked.table(query), asked.table(query))

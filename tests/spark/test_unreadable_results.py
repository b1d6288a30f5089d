"""Kept results that can't be read although nothing is missing of them."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast.api.table import Table
from holdfast.plan.reasons import Why
from holdfast.runtime.vertex_outcome import VertexOutcome
from tests.spark.conftest import Probe

pytestmark = pytest.mark.usefixtures("interpreted")

QUERY = "SELECT a, count(*) AS n FROM trips GROUP BY a"


class Reader:
    """An action that fails as long as its plan reads files.

    Args:
        error: what it fails with.
    """

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.calls = 0

    def __call__(self, dataframe: DataFrame) -> int:
        self.calls += 1
        if "FileScan" in dataframe._jdf.queryExecution().toString():  # type: ignore[operator]
            raise self._error
        return dataframe.count()


def of_the_jvm(probe: Probe, name: str) -> Py4JJavaError:
    """An error of a class of Java's."""
    jvm: Any = probe.spark.sparkContext._jvm
    throwable = getattr(jvm.java.lang, name)("odd")
    return Py4JJavaError("An error occurred.\n", throwable)


def test_the_query_is_answered_as_it_was_written_and_the_result_goes(probe: Probe) -> None:
    probe.keep(QUERY)
    kept = probe.env.list_cached()[0].location
    assert kept is not None
    reader = Reader(of_the_jvm(probe, "ClassCastException"))
    table = probe.table(QUERY)
    assert probe.env.run_action(table, "read", reader) == table.count()
    assert reader.calls == 2
    assert probe.env.list_cached() == []
    assert not kept.exists()
    probe.assert_computes(QUERY)
    # What could not be read is not kept again in this program.
    probe.table(QUERY).cache().collect()
    assert probe.outcomes() == [VertexOutcome.RUN]
    (listed,) = probe.env.list_cached()
    assert listed.reasons == (Why.DISTRUSTED.of(),)


def test_what_fails_without_kept_results_as_well_is_not_their_fault(probe: Probe) -> None:
    probe.keep(QUERY)

    def fails(dataframe: DataFrame) -> int:
        raise of_the_jvm(probe, "IllegalStateException")

    with pytest.raises(Py4JJavaError, match="odd"):
        probe.env.run_action(probe.table(QUERY), "read", fails)
    probe.assert_reads(QUERY)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda hot: hot.select(F.raise_error(F.concat(F.lit("no "), "a"))),
        lambda hot: hot.selectExpr("assert_true(n > 100)"),
        lambda hot: hot.selectExpr("n / (n - n)"),
        lambda hot: hot.selectExpr("CAST(concat('x', n) AS INT)"),
        lambda hot: hot.select(F.udf(lambda n: 1 // 0, "int")("n")),
        lambda hot: hot.mapInPandas(lambda batches: ({}["x"] for each in batches), "x INT"),
    ],
    ids=["raised", "asserted", "divided", "cast", "function", "batches"],
)
@pytest.mark.sampled(3)
def test_the_user_s_own_error_is_raised_at_once(probe: Probe, wrong: Any) -> None:
    probe.keep(QUERY)
    table = wrong(probe.table(QUERY))
    assert isinstance(table, Table)
    with pytest.raises(PySparkException) as expected:
        ClassicDataFrame(table._jdf, probe.spark).collect()
    calls = []

    def collected(dataframe: DataFrame) -> object:
        calls.append(dataframe)
        return dataframe.collect()

    with pytest.raises(type(expected.value)) as raised:
        probe.env.run_action(table, "collect", collected)
    assert raised.value.getCondition() == expected.value.getCondition()
    assert len(calls) == 1
    probe.assert_reads(QUERY)

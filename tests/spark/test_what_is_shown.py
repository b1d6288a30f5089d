"""What lists of cached results, jobs' results, plans, Spark's UI and observations show."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, JobExecutionResult, Table, VertexOutcome
from holdfast.testing import outcomes

PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
READ = [VertexOutcome.READ, VertexOutcome.RUN]


@pytest.fixture
def numbers(env: Environment) -> Table:
    """Ids from 0 to 9 with k = id % 3, in two partitions."""
    return env.from_dataframe(env.spark.range(0, 10, 1, 2).withColumn("k", F.col("id") % 3))


def last(env: Environment) -> JobExecutionResult:
    assert env.last_job_result is not None
    return env.last_job_result


# --- what is cached -------------------------------------------------------------------------------


def test_what_is_cached_is_listed(env: Environment, numbers: Table) -> None:
    assert env.list_cached() == []
    hot = numbers.where("k = 1").cache()
    again = env.from_dataframe(numbers).where("k = 1").cache()
    salted = numbers.select(F.uuid().alias("u")).cache()
    waiting, other = env.list_cached()
    said = r"hot: Filter \(k = .*\) over a range \(test_what_is_shown.py:\d+\)"
    assert re.fullmatch(said, waiting.computes) and re.fullmatch("[0-9a-f]{64}", waiting.digest)
    assert waiting.dataset_id is waiting.location is waiting.since is None
    assert (waiting.partitions, waiting.rows, waiting.bytes, waiting.hits) == (0, 0, 0, 0)
    assert other.matches_only_itself and not waiting.matches_only_itself

    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    hot.count()
    listed, still = env.list_cached()
    assert still == other
    assert listed.location is not None and listed.dataset_id is not None
    files = [*listed.location.glob("*.parquet")]
    assert listed.partitions == len(files)
    assert listed.rows == sum(pq.read_metadata(file).num_rows for file in files) == 3
    assert listed.bytes == sum(file.stat().st_size for file in files)
    assert listed.since is not None and before <= listed.since <= datetime.now(timezone.utc)
    again.count()
    numbers.where("k = 1").limit(1).collect()
    assert env.list_cached()[0].hits == listed.hits + 2
    salted.count()
    assert len({entry.location for entry in env.list_cached()}) == 2


def test_what_is_cached_is_shown_as_a_table(env: Environment, numbers: Table) -> None:
    assert repr(env.list_cached()) == "Nothing is cached"
    assert "Nothing is cached" in env.list_cached()._repr_html_()
    by_rest = numbers.groupBy("k").count().cache()
    numbers.where("k < 2").cache(name="the <small> ones")
    numbers.select(F.uuid()).cache()
    by_rest.count()
    head, headings, first, second, third, note = repr(env.list_cached()).splitlines()
    assert re.fullmatch(r"3 cached, 1 kept: [\d,]+ bytes", head)
    assert headings.split()[:3] == ["cached", "dataset", "partitions"]
    assert "by_rest: Aggregate [k], [k, count(1) AS count]" in first and "1 job" in first
    assert "the <small> ones: Filter (k < " in second and "not kept yet" in second
    assert "uuid(" in third and "only this very table reads it" in note
    assert "<td>the &lt;small&gt; ones: Filter (k &lt; " in env.list_cached()._repr_html_()
    assert re.fullmatch(r"<Environment: 3 cached, 1 kept: [\d,]+ bytes>", repr(env))


def test_what_was_saved_is_shown(env: Environment, numbers: Table) -> None:
    hot = numbers.groupBy("k").count().cache()
    hot.count()
    (listed,) = env.list_cached()
    assert (listed.hits, listed.saved_seconds) == (1, 0)
    hot.count()
    (once,) = env.list_cached()
    hot.where("k > 1").count()
    (twice,) = env.list_cached()
    assert 0 < once.saved_seconds < twice.saved_seconds
    # Of the second query a filter leaves out rows of what it would have computed.
    assert twice.saved_seconds < 2 * once.saved_seconds
    assert env.list_cached().summary().endswith(f", about {twice.saved_seconds:,.1f} s saved")
    assert f"{twice.saved_seconds:,.1f} s" in repr(env.list_cached()).splitlines()[2]


# --- what a job did -------------------------------------------------------------------------------


def test_a_job_s_result_has_what_it_produced_and_read(
    env: Environment, numbers: Table, tmp_path: Path
) -> None:
    assert env.last_job_result is None
    numbers.count()
    plain = last(env)
    assert (plain.name, outcomes(env)) == ("count", [VertexOutcome.RUN])
    assert not plain.persistent_result_partitions.descriptors

    hot = numbers.where("k < 2").cache()
    assert last(env) is plain
    hot.collect()
    produced = last(env)
    assert produced.job_id != plain.job_id and produced.net_runtime > 0
    assert (produced.name, produced.losses) == ("collect", ())
    assert not produced.persistent_result_partitions.incomplete
    keeping, answering = produced.vertices
    assert outcomes(env) == PRODUCED
    assert (keeping.attempts, keeping.rows, keeping.partitions) == (1, 7, 2)
    assert (answering.attempts, answering.rows, answering.dataset_id) == (1, None, None)
    ((dataset_id, partitions),) = produced.persistent_result_partitions.descriptors.items()
    assert dataset_id == keeping.dataset_id == env.list_cached()[0].dataset_id
    assert [partition.index for partition in partitions] == [0, 1]
    for partition in partitions:
        file = Path(partition.location)
        assert partition.dataset_id == dataset_id and partition.bytes == file.stat().st_size
        assert partition.rows == pq.read_table(file).num_rows
    assert keeping.bytes == sum(partition.bytes for partition in partitions)

    actions: dict[str, Callable[[], object]] = {
        "first": hot.first,
        "toLocalIterator": lambda: [*hot.toLocalIterator()],
        "rdd": lambda: hot.rdd,
        "write.save": hot.write.format("noop").mode("append").save,
    }
    for name, act in actions.items():
        act()
        result = last(env)
        assert (result.name, outcomes(env), result.vertices[0].attempts) == (name, READ, 0)
        located = result.persistent_result_partitions.descriptors
        assert located == produced.persistent_result_partitions.descriptors
    with pytest.raises(Exception, match="USER_RAISED_EXCEPTION"):
        hot.select(F.raise_error(F.lit("mine"))).collect()
    assert last(env) is result  # that of the last job that gave an answer


def test_nested_caches_are_vertices_of_their_own(env: Environment, numbers: Table) -> None:
    inner = numbers.where("k > 0").cache()
    outer = inner.groupBy("k").count().cache()

    def kept_vertices() -> dict[Any, VertexOutcome]:
        assert sorted(outer.collect()) == [Row(k=1, count=3), Row(k=2, count=3)]
        *kept, answering = last(env).vertices
        assert answering.outcome is VertexOutcome.RUN
        return {vertex.dataset_id: vertex.outcome for vertex in kept}

    both = kept_vertices()
    assert [*both.values()] == [VertexOutcome.PRODUCED] * 2
    assert [vertex.rows for vertex in last(env).vertices] == [6, 2, None]
    assert last(env).persistent_result_partitions.descriptors.keys() == both.keys()
    inner_id, outer_id = both
    assert kept_vertices() == {outer_id: VertexOutcome.READ}
    outer.invalidate_cache()
    assert kept_vertices() == {
        inner_id: VertexOutcome.READ,
        outer_id: VertexOutcome.PRODUCED,
    }
    inner.invalidate_cache()
    assert kept_vertices() == {outer_id: VertexOutcome.READ}
    assert sorted(inner.union(inner).join(outer, "k").collect())[0] == Row(k=1, id=1, count=3)
    assert sorted(each.value for each in outcomes(env)) == ["produced", "read from cache", "run"]


# --- what Spark shows -----------------------------------------------------------------------------


def test_spark_s_ui_says_what_jobs_are_for(
    spark: SparkSession, env: Environment, numbers: Table
) -> None:
    def descriptions() -> dict[int, str]:
        context: Any = spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
        context.listenerBus().waitUntilEmpty()
        jobs = context.statusStore().jobsList(None)
        listed = [jobs.apply(each) for each in range(jobs.size())]
        described = [job for job in listed if job.description().isDefined()]
        return {job.jobId(): str(job.description().get()) for job in reversed(described)}

    context: Any = spark.sparkContext
    before = descriptions().keys()
    context._jsc.setLocalProperty("spark.job.description", None)
    hot = numbers.where("k > 1").cache()
    hot.collect()
    (cached,) = env.list_cached()
    hot.collect()
    context.setJobDescription("the nightly report")
    try:
        hot.groupBy("k").count().collect()
        assert context.getLocalProperty("spark.job.description") == "the nightly report"
        numbers.collect()
    finally:
        context._jsc.setLocalProperty("spark.job.description", None)
    shown = [text for job, text in descriptions().items() if job not in before]
    assert [*dict.fromkeys(shown)] == [
        f"Holdfast keeps {cached.dataset_id}: {cached.computes}",
        f"Holdfast answers collect, reads {cached.dataset_id}",
        f"the nightly report (Holdfast answers collect, reads {cached.dataset_id})",
        "the nightly report",
    ]


def test_explain_says_what_the_next_job_does(
    env: Environment, numbers: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    def explained(table: DataFrame) -> str:
        table.explain()
        return capsys.readouterr().out

    hot = numbers.where("k > 0").cache()
    query = hot.groupBy("k").count()
    shown = explained(query)
    (cached,) = env.list_cached()
    will = f"== Holdfast ==\nto be kept by the next job: {cached.computes}\n\n== Physical Plan ==\n"
    assert shown.startswith(will) and "FileScan parquet" not in shown
    assert env.last_job_result is None  # it runs nothing
    query.collect()
    (cached,) = env.list_cached()
    shown = explained(query)
    assert shown.startswith(
        f"== Holdfast ==\nread: {cached.computes}\n  from {cached.location}: 2 partitions, "
        f"6 rows, {cached.bytes:,} bytes\n\n== Physical Plan ==\n"
    )
    assert "Range" not in shown and "FileScan parquet" in shown
    missed = f"nothing that is cached is part of this plan\n  not part of it: {cached.computes}"
    assert missed in explained(numbers)
    hot.invalidate_cache()
    assert "to be kept by the next job" in explained(query)


# --- observations ---------------------------------------------------------------------------------


def observe(df: DataFrame, observation: Observation) -> DataFrame:
    return df.observe(observation, F.count(F.lit(1)).alias("n"), F.sum("id").alias("s"))


def seen(observation: Observation) -> dict[str, Any]:
    """What an observation has seen; Spark waits for it, if need be for ever."""
    answer: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: answer.append(observation.get), daemon=True)
    waiting.start()
    waiting.join(20)
    assert answer, "the observation still waits"
    return answer[0]


@pytest.mark.timeout(120)
def test_an_observation_of_a_kept_table_sees_its_rows(env: Environment, numbers: Table) -> None:
    hot = numbers.where("k = 1").cache()
    for outcome in (PRODUCED, READ):
        above = Observation()
        assert observe(hot, above).groupBy("k").count().first() == Row(k=1, count=3)
        assert outcomes(env) == outcome
        assert seen(above) == {"n": 3, "s": 12}


OBSERVED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "a cache": lambda observed: observed.where("k = 1").cache().groupBy("k").count(),
    "nothing": lambda observed: observed,
    "an aggregate": lambda observed: observed.groupBy("k").count(),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("above", OBSERVED)
@pytest.mark.sampled(3)
def test_an_observation_in_what_is_cached_sees_the_rows_once(
    env: Environment, numbers: Table, above: str
) -> None:
    below = Observation("seen")
    hot = OBSERVED[above](observe(numbers, below)).cache()
    for outcome in (VertexOutcome.PRODUCED, VertexOutcome.READ):
        hot.toPandas()
        assert outcome in outcomes(env)
        assert seen(below) == {"n": 10, "s": 45}

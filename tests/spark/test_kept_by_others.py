"""A job reads what the book of kept results has, whoever wanted it to be kept."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from holdfast import Environment, Table
from holdfast.runtime.vertex_outcome import VertexOutcome


@pytest.fixture
def env(env: Environment, spark: SparkSession) -> Environment:
    """One in which somebody else has kept what `hot` computes."""
    env.from_dataframe(spark.range(3)).cache()
    held = hot(env, spark).cache()
    held.collect()
    digests = {each.digest: each for each in env._manager.wanted.all()}
    result = next(iter(env._manager.results.find().values()))
    del digests[result.digest]
    env._manager.wanted.clear()
    for computation in digests.values():
        env._manager.wanted.register(computation, held)
    return env


def hot(env: Environment, spark: SparkSession) -> Table:
    return env.from_dataframe(spark.range(0, 40, 1, 2).selectExpr("id", "id % 7 AS k"))


def outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def test_what_is_kept_is_read_though_nobody_here_wants_it(
    env: Environment, spark: SparkSession
) -> None:
    rows = hot(env, spark).groupBy("k").count().collect()
    assert Counter((row.k, row["count"]) for row in rows) == Counter(
        (k, len(range(k, 40, 7))) for k in range(7)
    )
    assert outcomes(env) == [VertexOutcome.READ, VertexOutcome.RUN]


def test_what_is_lost_and_not_wanted_is_computed_and_not_kept_again(
    env: Environment, spark: SparkSession
) -> None:
    (result,) = env._manager.results.find().values()
    for directory in result.kept.directories:
        shutil.rmtree(directory)
    assert hot(env, spark).count() == 40
    assert outcomes(env) == [VertexOutcome.RUN]
    assert env.last_job_result is not None
    assert len(env.last_job_result.losses) == 1
    assert not env._manager.results.find()


def test_what_depends_on_it_is_kept_over_it(env: Environment, spark: SparkSession) -> None:
    above = hot(env, spark).where("k = 3").cache()
    assert above.count() == 6
    assert sorted(each.value for each in outcomes(env)) == ["produced", "read from cache", "run"]

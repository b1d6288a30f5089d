"""How streams run on Spark: what is recognized, what is shared, where records end up."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast import (
    DataStream,
    Environment,
    MapFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    VertexOutcome,
)
from holdfast.config import INTERMEDIATE_RESULT_DIRECTORY
from holdfast.spark.batch_settings import settings_of_batches

DEEP = OutputTag("deep")


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as records:
        return list(records)


def outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
READ = [VertexOutcome.READ, VertexOutcome.RUN]


class Where(MapFunction):
    """Tells of each record in which subtask it is."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.where = (
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_number_of_parallel_subtasks(),
        )

    def map(self, value: Any) -> Any:
        return value, self.where


@pytest.mark.parametrize("size", [3, 200_000], ids=["in the plan", "broadcast"])
def test_a_collection_is_recognized_by_its_content(env: Environment, size: int) -> None:
    def stream(end: int) -> DataStream:
        return env.from_collection([f"{number:06}" for number in range(end)]).map(str.upper)

    assert len(collected(stream(size).cache())) == size
    assert outcomes(env) == PRODUCED
    assert len(collected(stream(size).cache())) == size
    assert outcomes(env) == READ
    assert len(collected(stream(size + 1).cache())) == size + 1
    assert outcomes(env) == PRODUCED
    assert not any(listed.matches_only_itself for listed in env.list_cached())


def test_what_was_kept_is_read_in_as_many_subtasks_and_in_their_order(env: Environment) -> None:
    env.set_parallelism(5)
    kept = env.from_collection(range(50)).map(lambda n: n).cache()
    for expected in (PRODUCED, READ):
        told = collected(kept.map(Where()))
        assert outcomes(env) == expected
        # Subtasks that are late are not waited for, so only the order within each is sure.
        by_subtask = sorted(told, key=lambda record: record[1])
        assert by_subtask == [(number, (number // 10, 5)) for number in range(50)]


def test_what_several_need_is_computed_once_and_released(
    env: Environment, tally: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    class Deeper(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Any]:
            if value % 2:
                yield DEEP, value
            else:
                yield value

    source = env.from_collection(range(6)).map(tally.counting(lambda n: n))
    even = source.process(Deeper())
    odd = even.get_side_output(DEEP)
    even.print("even")
    odd.print("odd")
    odd.union(even).key_by(lambda n: 0).reduce(lambda a, b: a + b).print("sum")
    result = env.execute("share")
    printed = capsys.readouterr().out.split("\n")[:-1]
    assert sorted(printed) == sorted(
        [f"even> {n}" for n in (0, 2, 4)] + [f"odd> {n}" for n in (1, 3, 5)] + ["sum> 15"]
    )
    assert tally.count() == 6
    assert not result.persistent_result_partitions.descriptors
    assert not env.list_cached()
    root = Path(env.configuration.get(INTERMEDIATE_RESULT_DIRECTORY))
    assert not list(root.glob("application-*/datasets/*"))


def test_sinks_that_have_ended_are_not_run_again_after_a_loss(
    env: Environment, tally: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = env.from_collection(range(4)).map(tally.counting(lambda n: n)).cache()
    collected(kept)
    root = str(env.configuration.get(INTERMEDIATE_RESULT_DIRECTORY))

    def losing(record: Any) -> Any:
        for dataset in Path(root).glob("application-*/datasets/*"):
            shutil.rmtree(dataset)
        return record

    env.from_collection(["first"]).map(losing).print()
    kept.map(lambda n: 10 * n).print()
    result = env.execute("lose")
    assert capsys.readouterr().out.split() == ["first", "0", "10", "20", "30"]
    assert len(result.losses) == 1
    assert tally.count() == 8
    assert collected(kept) == [0, 1, 2, 3]
    assert outcomes(env) == READ


def test_plans_of_passes_alone_are_not_planned_like_tables(
    env: Environment, spark: SparkSession
) -> None:
    def settings(stream: DataStream) -> Any:
        table = env.from_data_stream(stream, "n long")
        return settings_of_batches(env._bridge.query(table).root)

    numbers = env.from_collection(range(4)).key_by(lambda n: n).reduce(lambda a, b: a)
    assert settings(numbers)["spark.sql.adaptive.enabled"] == "false"
    rows = env.from_dataframe(spark.range(9).groupBy("id").count()).to_data_stream()
    assert "spark.sql.adaptive.enabled" not in settings(rows.map(lambda row: row[0]))

"""What is kept of streams of records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import DataStream, Environment, FileSink, OutputTag, VertexOutcome
from holdfast.errors import StreamNotShareableError
from holdfast.testing import outcomes
from tests.promises.functions import Odd

PRODUCED, READ = VertexOutcome.PRODUCED, VertexOutcome.READ


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as records:
        return sorted(records)


def pairs(env: Environment) -> DataStream:
    words = env.from_collection(["to be or not", "to be"]).flat_map(str.split)
    return words.map(lambda word: (word, 1))


STEPS: dict[str, tuple[Callable[[DataStream], DataStream], list[Any]]] = {
    "a filter": (lambda s: s.filter(lambda pair: pair[0] < "c"), [("be", 1), ("be", 1)]),
    "sums by key": (
        lambda s: s.key_by(lambda pair: pair[0]).sum(1),
        [("be", 2), ("not", 1), ("or", 1), ("to", 2)],
    ),
    "a reduction": (
        lambda s: s.key_by(lambda pair: len(pair[0])).reduce(lambda a, b: (min(a, b)[0], 0)),
        [("be", 0), ("not", 1)],
    ),
    "a union": (lambda s: s.union(s).filter(lambda pair: pair[0] == "or"), [("or", 1)] * 2),
}


@pytest.mark.parametrize("step", STEPS)
def test_what_one_job_keeps_the_next_one_reads(env: Environment, step: str) -> None:
    above, expected = STEPS[step]
    assert collected(above(pairs(env).cache())) == expected
    assert PRODUCED in outcomes(env)
    assert collected(above(pairs(env).cache())) == expected
    assert READ in outcomes(env) and PRODUCED not in outcomes(env)


def test_another_function_is_another_stream(env: Environment) -> None:
    for factor in (2, 3):
        scaled = env.from_collection([1, 2]).map(lambda n: n * factor).cache()  # noqa: B023
        assert collected(scaled) == [factor, 2 * factor]
        assert PRODUCED in outcomes(env)


def test_side_outputs_and_files(env: Environment, tmp_path: Path) -> None:
    split = env.from_collection(range(6)).process(Odd())
    kept = split.map(lambda n: n * 10).cache()
    kept.map(str).sink_to(FileSink(str(tmp_path / "even")))
    split.get_side_output(OutputTag("odd")).map(str).sink_to(FileSink(str(tmp_path / "odd")))
    env.execute("both")
    written = {
        name: sorted("".join(file.read_text() for file in (tmp_path / name).glob("part*")).split())
        for name in ("even", "odd")
    }
    assert written == {"even": ["0", "20", "40"], "odd": ["1", "3", "5"]}
    assert collected(kept) == [0, 20, 40]
    assert READ in outcomes(env)


def test_between_tables_and_streams(env: Environment) -> None:
    stream = env.range(5).to_data_stream().map(lambda row: (row.id, str(row.id))).cache()
    table = env.from_data_stream(stream, "n LONG, s STRING")
    assert [table.where("n > 2").count() for _ in range(2)] == [2, 2]
    assert READ in outcomes(env)


def test_nothing_is_unpickled_without_its_seal(env: Environment, tmp_path: Path) -> None:
    kept = pairs(env).cache()
    expected = collected(kept)
    (location,) = [each.location for each in env.list_cached() if each.location]
    other = env.from_collection([b"evil"] * 5).cache()
    collected(other)
    strange = next(
        each.location for each in env.list_cached() if each.location not in (None, location)
    )
    for part in location.glob("part-*"):
        part.write_bytes(next(strange.glob("part-*")).read_bytes())
    assert collected(kept) == expected


def test_a_function_that_raises_fails_its_job(env: Environment) -> None:
    failing = env.from_collection([1, 0]).map(lambda n: 1 // n).cache()
    with pytest.raises(Exception, match="ZeroDivisionError"):
        collected(failing)
    assert collected(env.from_collection([1, 2]).map(lambda n: 2 // n).cache()) == [1, 2]


def test_streams_are_shared_with_their_user_alone(spark: Any, tmp_path: Path) -> None:
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "intermediate-result-storage.sharing": "all",
    }
    with (
        Environment(spark, config=config) as env,
        pytest.raises(StreamNotShareableError, match="sharing"),
    ):
        pairs(env).cache(lifetime="1 d")


def test_the_plan_is_drawn(env: Environment) -> None:
    pairs(env).cache().key_by(lambda pair: pair[0]).sum(1).print()
    plan = env.get_execution_plan()
    assert "flowchart" in plan.mermaid and "cache" in repr(plan).lower()

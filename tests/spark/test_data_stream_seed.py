"""FLIP-205's own two programs run, the second after the first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Environment, KeySelector, MapFunction, ReduceFunction, Source, VertexOutcome

PRODUCED, READ, RUN = VertexOutcome.PRODUCED, VertexOutcome.READ, VertexOutcome.RUN

# "Create Cache" and "Use Cache", where `...` stands for what a program says in its place. Python
# asks for the parentheses.
CREATE_CACHE = """
cached_src = (env.from_source(source)
    .cache())

cached_map = (cached_src.map(mapper)
    .cache())

(cached_map.key_by(key_selector)
    .reduce(reducer)
    .print())

env.execute()
"""
USE_CACHE = """
cached_src.print()

(cached_map.key_by(key_selector)
    .reduce(reducer)
    .print())

env.execute()
"""


def test_create_cache_and_use_cache(
    env: Environment, tmp_path: Path, tally: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = str(tmp_path / "reads")

    class Words(Source):
        def enumerate_splits(self, parallelism: int) -> list[str]:
            return ["to be or", "not to be"]

        def read(self, split: str) -> Iterator[str]:
            with open(marks, "a") as file:
                file.write(".")
            yield from split.split()

    counting = tally.counting(lambda word: (word, 1))

    class Pair(MapFunction):
        def map(self, value: str) -> Any:
            return counting(value)

    class Word(KeySelector):
        def get_key(self, value: Any) -> Any:
            return value[0]

    class Add(ReduceFunction):
        def reduce(self, value1: Any, value2: Any) -> Any:
            return value1[0], value1[1] + value2[1]

    names = {
        "env": env,
        "source": Words(),
        "mapper": Pair(),
        "key_selector": Word(),
        "reducer": Add(),
    }
    counts = ["('be', 2)", "('not', 1)", "('or', 1)", "('to', 2)"]

    exec(CREATE_CACHE, names)
    assert sorted(capsys.readouterr().out.splitlines()) == counts
    created = env.last_job_result
    assert created is not None
    assert [vertex.outcome for vertex in created.vertices] == [PRODUCED, PRODUCED, RUN]
    assert len(created.persistent_result_partitions.descriptors) == 2

    exec(USE_CACHE, names)
    printed = Counter(capsys.readouterr().out.splitlines())
    assert printed == Counter([*counts, "to", "be", "or", "not", "to", "be"])
    used = env.last_job_result
    assert used is not None
    assert sorted(vertex.outcome.value for vertex in used.vertices) == sorted(
        [READ.value, READ.value, RUN.value]
    )
    assert used.persistent_result_partitions == created.persistent_result_partitions

    assert (tmp_path / "reads").read_text() == ".."
    assert tally.count() == 6

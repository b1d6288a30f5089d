"""What `holdfast ls`, `show` and `rm` in another process see and do of a running environment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast import Environment, VertexOutcome

PRODUCED, READ, RUN = VertexOutcome.PRODUCED, VertexOutcome.READ, VertexOutcome.RUN


@pytest.fixture
def command(tmp_path: Path) -> Any:
    """Runs the command in a process of its own, over the directory of the fixture `env`."""

    def run(*arguments: str) -> list[dict[str, Any]]:
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "holdfast.cli.main", *arguments),
                *("--json", "--directory", str(tmp_path / "kept")),
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        found = json.loads(ended.stdout)
        assert isinstance(found, list)
        return found

    return run


def outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def test_what_another_process_releases_is_computed_again(env: Environment, command: Any) -> None:
    numbers = env.spark.range(0, 60, 1, 3).select(
        "id", (F.col("id") % 7).alias("k"), F.array(F.col("id").cast("int")).alias("a b")
    )
    hot = env.from_dataframe(numbers).cache()
    other = env.from_dataframe(env.spark.range(5)).cache()
    assert command("ls") == []
    other.count()

    def ask() -> list[Any]:
        return sorted(tuple(row) for row in hot.groupBy("k").agg(F.sum("id")).collect())

    expected = sorted(
        tuple(row)
        for row in ClassicDataFrame(numbers._jdf, env.spark).groupBy("k").agg(F.sum("id")).collect()
    )
    assert ask() == expected and outcomes(env) == [PRODUCED, RUN]
    assert ask() == expected and outcomes(env) == [READ, RUN]

    cached = {str(each.location): each for each in env.list_cached()}
    listed = {each["places"][0]["directory"]: each for each in command("ls")}
    assert listed.keys() == cached.keys()
    for directory, kept in cached.items():
        found = listed[directory]
        assert (found["computes"], found["state"]) == (kept.computes, "complete")
        assert (found["rows"], found["bytes"]) == (kept.rows, kept.bytes)
        assert found["hits"] == kept.hits
    mine = next(each for each in listed.values() if each["rows"] == 60)
    assert (mine["hits"], mine["partitions_found"], mine["number_of_partitions"]) == (2, 3, 3)

    (shown,) = command("show", mine["id"])
    assert shown["spark_version"] == env.spark.version
    assert [(each["name"], each["type"]) for each in shown["columns"]] == [
        ("id", "bigint"),
        ("k", "bigint"),
        ("a b", "array<int>"),
    ]
    assert [each["index"] for each in shown["partitions"]] == [0, 1, 2]
    assert sum(each["rows"] for each in shown["partitions"]) == 60

    (released,) = command("rm", mine["dataset"])
    assert (released["id"], released["bytes"]) == (mine["id"], mine["bytes"])
    assert not any(Path(each["location"]).exists() for each in shown["partitions"])
    assert len(command("ls")) == 1

    assert ask() == expected and outcomes(env) == [PRODUCED, RUN]
    (again,) = [each for each in command("ls") if each["rows"] == 60]
    assert again["dataset"] == mine["dataset"] and again["id"] != mine["id"]
    assert (again["hits"], again["state"]) == (1, "complete")
    assert ask() == expected and outcomes(env) == [READ, RUN]
    assert other.count() == 5 and READ in outcomes(env)
    env.close()
    assert command("ls") == []

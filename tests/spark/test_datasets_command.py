"""What `holdfast ls`, `show` and `rm` in another process see and do of a running environment."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes

PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
READ = [VertexOutcome.READ, VertexOutcome.RUN]
Command = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs the command in a process of its own, over the directory of the fixture `env`."""

    def run(*arguments: str) -> list[dict[str, Any]]:
        given = [*arguments, "--json", "--directory", str(tmp_path / "kept")]
        ended = subprocess.run(
            [sys.executable, "-m", "holdfast.cli.main", *given],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (ended.returncode, ended.stderr) == (0, "")
        found: list[dict[str, Any]] = json.loads(ended.stdout)
        return found

    return run


def test_what_another_process_releases_is_computed_again(
    env: Environment, command: Command
) -> None:
    numbers = env.spark.range(0, 60, 1, 3).select(
        "id", (F.col("id") % 7).alias("k"), F.array(F.col("id").cast("int")).alias("a b")
    )
    hot = env.from_dataframe(numbers).cache()
    other = env.from_dataframe(env.spark.range(5)).cache()
    assert other.count() == 5

    def ask() -> list[VertexOutcome]:
        assert hot.agg(F.sum("id"), F.max("k")).first() == (sum(range(60)), 6)
        return outcomes(env)

    assert (ask(), ask()) == (PRODUCED, READ)
    cached = {str(each.location): each for each in env.list_cached()}
    listed = {each["places"][0]["directory"]: each for each in command("ls")}
    assert listed.keys() == cached.keys()
    for directory, kept in cached.items():
        found = listed[directory]
        assert (found["computes"], found["state"]) == (kept.computes, "complete")
        assert (found["rows"], found["bytes"], found["hits"]) == (kept.rows, kept.bytes, kept.hits)
    (mine,) = [each for each in listed.values() if each["rows"] == 60]
    assert (mine["hits"], mine["partitions_found"], mine["number_of_partitions"]) == (2, 3, 3)

    (shown,) = command("show", mine["id"])
    assert shown["spark_version"] == env.spark.version
    columns = [("id", "bigint"), ("k", "bigint"), ("a b", "array<int>")]
    assert [(each["name"], each["type"]) for each in shown["columns"]] == columns
    assert [each["index"] for each in shown["partitions"]] == [0, 1, 2]
    assert sum(each["rows"] for each in shown["partitions"]) == 60

    (released,) = command("rm", mine["dataset"])
    assert (released["id"], released["bytes"]) == (mine["id"], mine["bytes"])
    assert not any(Path(each["location"]).exists() for each in shown["partitions"])
    assert ask() == PRODUCED
    (again,) = [each for each in command("ls") if each["rows"] == 60]
    assert again["dataset"] == mine["dataset"] and again["id"] != mine["id"]
    assert (again["hits"], again["state"]) == (1, "complete")
    assert ask() == READ
    assert other.count() == 5 and outcomes(env) == READ
    env.close()
    assert command("ls") == []

"""What a terminal and the page show of what is kept, and what they do with it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.cli.main import main

Command = Callable[..., str]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def env(spark: SparkSession, files: Path, home: Path) -> Iterator[Environment]:
    """Has kept two results, of which one goes with it."""
    config = {"intermediate-result-storage.directory": str(home)}
    with Environment(spark.newSession(), config=config) as environment:
        trips = environment.read.parquet(str(files / "trips"))
        trips.groupBy("a").count().cache(lifetime="1 d").count()
        trips.selectExpr("uuid() AS u").cache().count()
        trips.groupBy("a").count().collect()
        yield environment


@pytest.fixture
def command(home: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command on the storage directory, and gives what it prints."""

    def run(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main([*words, "--directory", str(home)]) == code
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("by", ["saved", "size", "used"])
def test_ls_shows_what_is_kept_and_why_few_find_it(
    env: Environment, command: Command, by: str
) -> None:
    shown = command("ls", "--by", by)
    assert "Aggregate [a]" in shown and "Uuid, which is not deterministic" in shown
    listed = json.loads(command("ls", "--by", by, "--json"))
    assert sorted(each["rows"] for each in listed) == [5, 40]


def test_show_shows_all_of_one(env: Environment, command: Command) -> None:
    (counts,) = [each for each in env.list_cached() if each.rows == 5]
    shown = command("show", str(counts.dataset_id)[:8])
    assert all(each in shown for each in ("count", "bigint", ".parquet", "trips"))
    (document,) = json.loads(command("show", str(counts.dataset_id), "--json"))
    assert document["rows"] == 5
    command("show", "0000000000", code=2)


def test_rm_releases_it_for_all(env: Environment, command: Command) -> None:
    (counts,) = [each for each in env.list_cached() if each.rows == 5]
    command("rm", str(counts.dataset_id))
    assert "Aggregate [a]" not in command("ls")


def test_gc_removes_what_crashes_have_left(env: Environment, command: Command, home: Path) -> None:
    (left := home / f"application-{'0' * 32}" / "datasets").mkdir(parents=True)
    (left.parent / "lock").touch()
    assert left.parent.name in command("gc") and left.exists()
    command("gc", "--yes")
    assert not left.exists() and len(env.list_cached()) == 2


def test_verify_finds_a_damaged_file(env: Environment, command: Command, home: Path) -> None:
    command("verify")
    (part,) = (home / "shared").rglob("part-*.parquet")
    changed = bytearray(part.read_bytes())
    changed[len(changed) // 3] ^= 1
    part.write_bytes(changed)
    assert "damaged" in command("verify", code=1)


def test_a_lost_catalog_is_made_again(
    spark: SparkSession, env: Environment, command: Command, home: Path, files: Path
) -> None:
    env.close()
    for file in (home / "catalog").iterdir():
        file.unlink()
    command("catalog", "rebuild")
    config = {"intermediate-result-storage.directory": str(home)}
    with Environment(spark.newSession(), config=config) as later:
        counts = later.read.parquet(str(files / "trips")).groupBy("a").count()
        assert len(counts.collect()) == 5
        assert "kept by" in repr(later.last_job_result)


def test_why_says_who_finds_it(env: Environment, command: Command) -> None:
    assert "Uuid, which is not deterministic" in command("why")


def test_the_page_shows_the_same(env: Environment) -> None:
    with env.ui(read_only=True) as page:
        with urllib.request.urlopen(f"{page.url.rstrip('/')}/results.json") as answer:
            listed = json.load(answer)
        assert "Aggregate [a]" in str(listed)


def test_bad_input_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["ls", "--directory", str(tmp_path / "nowhere")]) in (0, 2)
    with pytest.raises(SystemExit) as ended:
        main(["ls", "--by", "colour"])
    assert ended.value.code == 2 and "colour" in capsys.readouterr().err

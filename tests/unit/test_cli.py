"""The `holdfast` command: its arguments, and what the demo makes of folders and answers."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row

import holdfast
from holdfast.cli import amounts
from holdfast.cli import main as cli
from holdfast.cli.demo import arguments, tpch_data
from holdfast.cli.demo.answer import Answer, agree
from holdfast.cli.demo.command import DemoOptions
from holdfast.cli.demo.errors import BadDemoInputError, DemoError
from holdfast.cli.demo.parquet_folder import tables_of
from holdfast.cli.demo.stage import Stage
from holdfast.cli.demo.story import Question


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[DemoOptions]:
    """The options of the demos that would have been played."""
    options: list[DemoOptions] = []

    def play(given: DemoOptions) -> int:
        options.append(given)
        return 0

    monkeypatch.setattr(arguments, "run_demo", play)
    return options


def write(path: Path, **columns: list[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)
    return path


# -- arguments


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"holdfast {holdfast.__version__}\n"


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(option in shown for option in ("--scale", "--data", "--output"))


def test_the_demo_has_defaults(played: list[DemoOptions]) -> None:
    assert cli.main(["demo"]) == 0
    assert played == [DemoOptions(0.1, None, Path.cwd() / "holdfast-demo")]


def test_the_demos_options_arrive(played: list[DemoOptions], tmp_path: Path) -> None:
    assert cli.main(["demo", "--scale", "0.5", "--output", str(tmp_path)]) == 0
    assert cli.main(["demo", "--data", "mine", "--output", "~/out"]) == 0
    assert played == [
        DemoOptions(0.5, None, tmp_path),
        DemoOptions(0.1, Path.cwd() / "mine", Path.home() / "out"),
    ]


def test_arguments_default_to_the_processs(
    played: list[DemoOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["holdfast", "demo", "--scale", "3"])
    assert cli.main() == 0
    assert played[0].scale == 3


@pytest.mark.parametrize("scale", ["0", "-1", "much", "", "nan", "inf", "1,5"])
def test_a_scale_is_a_number_above_zero(
    scale: str, played: list[DemoOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", f"--scale={scale}"])
    assert ended.value.code == 2
    assert f"expected a number above 0, such as 0.01, 1 or 10; found {scale!r}" in (
        capsys.readouterr().err
    )
    assert not played


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to do"),
        (["dance"], "invalid choice: 'dance'"),
        (["demo", "--loud"], "unrecognized arguments: --loud"),
        (["demo", "--scale", "1", "--data", "mine"], "not allowed with argument"),
        (["demo", "--data", ""], "expected a path on this machine, or file:///path; found ''"),
        (["demo", "--output", " "], "expected a path on this machine, or file:///path; found ' '"),
    ],
)
def test_bad_arguments_end_with_code_2(
    arguments: list[str],
    message: str,
    played: list[DemoOptions],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not played


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (BadDemoInputError("no such folder"), 2, "no such folder"),
        (DemoError("no Java"), 1, "no Java"),
        (KeyboardInterrupt(), 130, "interrupted, all processes were stopped"),
    ],
)
def test_why_a_demo_ended_is_said_in_a_line(
    raised: BaseException,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(options: DemoOptions) -> int:
        raise raised

    monkeypatch.setattr(arguments, "run_demo", fail)
    assert cli.main(["demo"]) == code
    assert capsys.readouterr().err == f"holdfast demo: {message}\n"


# What installers write into the `holdfast` command.
_COMMAND = "import sys; from holdfast_command import main; sys.exit(main())"


def begin(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """A command that tells on its standard error what it has imported."""
    return subprocess.Popen(
        [sys.executable, "-X", "importtime", "-c", _COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, list[str]]:
    """Its code, its output, and its standard error without the imports."""
    out, err = process.communicate(timeout=60)
    said = [line for line in err.splitlines() if not line.startswith("import time:")]
    return process.returncode, out, said


@pytest.mark.parametrize("module", ["py4j", "pyspark", "holdfast.api.table"])
def test_an_interrupt_during_the_imports_is_said_in_a_line(module: str) -> None:
    process = begin("demo", "--help")
    assert process.stderr is not None
    assert any(line.split()[-1] == module for line in process.stderr)
    process.send_signal(signal.SIGINT)
    assert end(process) == (130, "", ["holdfast: interrupted"])


def test_the_command_does_what_is_asked_for() -> None:
    assert end(begin("--version")) == (0, f"holdfast {holdfast.__version__}\n", [])
    code, _, said = end(begin("dance"))
    assert (code, "invalid choice: 'dance'" in said[-1]) == (2, True)


def test_an_interrupt_that_the_shell_has_ignored_stays_ignored() -> None:
    process = begin("--help", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert process.stderr is not None
    assert any(line.split()[-1] == "pyspark" for line in process.stderr)
    process.send_signal(signal.SIGINT)
    code, out, said = end(process)
    assert (code, out.startswith("usage: holdfast"), said) == (0, True, [])


def test_a_command_does_not_wait_for_what_others_import() -> None:
    process = begin("jobs", "--help")
    imported = {line.split()[-1] for line in process.communicate(timeout=60)[1].splitlines()}
    assert "holdfast.cli.jobs.as_table" in imported
    assert imported.isdisjoint({"pyspark", "aiohttp", "pandas", "matplotlib", "rich.live"})


# -- generated data


@pytest.mark.parametrize(
    ("scale", "name"), [(1.0, "1"), (0.01, "0.01"), (30.0, "30"), (0.1234567, "0.1234567")]
)
def test_each_scale_has_its_own_name(scale: float, name: str) -> None:
    assert tpch_data.scale_name(scale) == name


def test_a_scale_that_does_not_fit_on_the_disk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadDemoInputError, match="scale 1[0]+ needs about .* are free"):
        tpch_data.tpch_tables(Stage(), tmp_path, 1e15)
    assert list(tmp_path.iterdir()) == []


def test_a_generator_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = tmp_path / "bin" / "tpchgen-cli"
    generator.parent.mkdir()
    generator.write_text("#!/bin/sh\necho 'out of ideas' >&2\nexit 3\n")
    generator.chmod(generator.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(generator.parent / "python"))
    output = tmp_path / "output"
    output.mkdir()
    with pytest.raises(DemoError, match="failed with code 3: out of ideas"):
        tpch_data.tpch_tables(Stage(), output, 0.01)
    assert list(output.iterdir()) == []


def test_a_missing_generator_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DemoError, match=r"pip install 'holdfast\[demo\]'"):
        tpch_data.tpch_tables(Stage(), tmp_path, 0.01)


def test_a_missing_plotting_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in list(sys.modules):
        if name.startswith("matplotlib.") or name == "holdfast.cli.demo.chart":
            monkeypatch.delitem(sys.modules, name)
    assert cli.main(["demo", "--output", str(tmp_path / "out")]) == 1
    assert "install it with `pip install 'holdfast[demo]'`" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


# -- the user's folder


def test_files_and_folders_are_tables(tmp_path: Path) -> None:
    write(tmp_path / "orders.parquet", id=[1, 2, 3])
    write(tmp_path / "items" / "part-00000-a.parquet", item=[1])
    write(tmp_path / "items" / "part-00001-b.parquet", item=[2])
    write(tmp_path / "sales" / "year=2024" / "a.parquet", amount=[1])
    (tmp_path / "items" / "_SUCCESS").touch()
    (tmp_path / "notes.txt").write_text("not a table")
    (tmp_path / "pictures").mkdir()
    tables = tables_of(tmp_path)
    assert {name: table.rows for name, table in tables.items()} == {
        "items": 2,
        "orders": 3,
        "sales": 1,
    }
    assert tables["orders"].folder is None
    assert tables["sales"].folder == tmp_path / "sales"


def test_numbered_files_with_the_same_columns_are_one_table(tmp_path: Path) -> None:
    write(tmp_path / "trips_2024-01.parquet", fare=[1])
    write(tmp_path / "trips_2024-02.parquet", fare=[2])
    write(tmp_path / "zones.parquet", fare=[3])
    assert {name: table.rows for name, table in tables_of(tmp_path).items()} == {
        "trips": 2,
        "zones": 1,
    }


def test_a_table_of_sparks_is_one_table_named_after_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "flights"
    write(folder / "part-00000-0a1b.c000.snappy.parquet", id=[1])
    write(folder / "part-00001-0a1b.c000.snappy.parquet", id=[2])
    assert [(table.name, table.rows) for table in tables_of(folder).values()] == [("flights", 2)]


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadDemoInputError, match="nowhere: no such folder"):
        tables_of(tmp_path / "nowhere")


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    with pytest.raises(BadDemoInputError, match="is not a folder"):
        tables_of(write(tmp_path / "a.parquet", id=[1]))


def test_a_folder_without_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1")
    with pytest.raises(BadDemoInputError, match="contains no Parquet"):
        tables_of(tmp_path)


@pytest.mark.parametrize("content", [b"", b"noise" * 100, b"PAR1"])
def test_a_file_that_is_no_parquet_is_named(content: bytes, tmp_path: Path) -> None:
    write(tmp_path / "good.parquet", id=[1])
    (tmp_path / "bad.parquet").write_bytes(content)
    with pytest.raises(BadDemoInputError, match=r"bad\.parquet can't be read as Parquet"):
        tables_of(tmp_path)


def test_a_folder_of_folders_of_tables_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "tpch" / "orders.parquet", order=[1])
    write(tmp_path / "tpch" / "customer.parquet", customer=[1])
    with pytest.raises(BadDemoInputError, match="use .*tpch itself as --data"):
        tables_of(tmp_path)


def test_two_tables_of_one_name_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", id=[1])
    write(tmp_path / "a" / "x.parquet", id=[1])
    with pytest.raises(BadDemoInputError, match="two tables named 'a'"):
        tables_of(tmp_path)


def test_a_path_that_spark_takes_for_a_pattern_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a[1]" / "x.parquet", id=[1])
    with pytest.raises(BadDemoInputError, match="as a pattern"):
        tables_of(tmp_path / "a[1]")


# -- answers


def answer(*rows: Row, kind: str = "t") -> Answer:
    return Answer((("a", kind),), rows, 0.0)


SORTED = Question("sorted", lambda table: table, is_ordered=True)
UNSORTED = Question("unsorted", lambda table: table)


@pytest.mark.parametrize("question", [SORTED, UNSORTED])
@pytest.mark.parametrize("value", [1, None, "a", Decimal("1.10"), float("nan"), -0.5, True])
def test_the_same_rows_agree(question: Question, value: object) -> None:
    assert agree(question, answer(Row(value), Row(2)), answer(Row(value), Row(2)))


def test_order_counts_where_the_question_sorts() -> None:
    one, other = answer(Row(1), Row(2)), answer(Row(2), Row(1))
    assert not agree(SORTED, one, other)
    assert agree(UNSORTED, one, other)


@pytest.mark.parametrize("question", [SORTED, UNSORTED])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (answer(Row(1)), answer(Row(1), Row(1))),
        (answer(Row(1), Row(1), Row(2)), answer(Row(1), Row(2), Row(2))),
        (answer(Row(Decimal("1.0"))), answer(Row(Decimal("1.00")))),
        (answer(Row(Decimal("1.0001"))), answer(Row(Decimal("1.0002")))),
        (answer(Row(None)), answer(Row(0))),
        (answer(Row(float("nan"))), answer(Row(None))),
        (answer(Row(0.1 + 0.2)), answer(Row(0.3))),
        (answer(Row(1), kind="int"), answer(Row(1), kind="bigint")),
        (answer(), answer(Row(1))),
    ],
)
def test_other_rows_do_not_agree(question: Question, one: Answer, other: Answer) -> None:
    assert not agree(question, one, other)
    assert not agree(question, other, one)


# -- how things are written


def test_amounts_are_short() -> None:
    assert [amounts.seconds(s) for s in (0.123, 9.876, 12.34)] == ["0.12 s", "9.88 s", "12.3 s"]
    assert [amounts.size(b) for b in (12, 1500, 999_600, 361e6, 2e15)] == [
        "12 bytes",
        "2 kB",
        "1 MB",
        "361 MB",
        "2000.0 TB",
    ]
    assert [amounts.count(n, "row") for n in (0, 1, 1500)] == ["0 rows", "1 row", "1,500 rows"]
    assert amounts.shortened("a long name", 8) == "a lon..."


def test_a_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage()
    stage.headline("A [bold]name[/bold] with \x1b[31m in it")
    with stage.progress("asking", 1) as progress:
        progress.now("something")
        progress.advance()
        progress.note("done")
    assert capsys.readouterr().out == ("\nA [bold]name[/bold] with ?[31m in it\nasking: done\n")

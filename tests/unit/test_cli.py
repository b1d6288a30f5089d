"""The `holdfast` command and its arguments."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli import amounts
from tests.unit.listed_results import Command


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def test_the_version_and_the_options_are_shown(command: Command) -> None:
    assert command.shows("--version") == f"holdfast {holdfast.__version__}\n"
    assert all(each in command.shows("demo", "--help") for each in ("--rows", "--output"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to do"),
        (["dance"], "invalid choice: 'dance'"),
        (["demo", "--loud"], "unrecognized arguments: --loud"),
        (["demo", "--rows", "0"], "expected a number, 1 or more; found '0'"),
        (["demo", "--rows", "many"], "expected a number, 1 or more; found 'many'"),
        (["demo", "--output", " "], "expected a path on this machine, or file:///path; found ' '"),
    ],
)
def test_bad_arguments_end_with_code_2(
    command: Command, arguments: list[str], message: str
) -> None:
    assert message in command.refuses(*arguments)


def test_a_missing_plotting_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = command.refuses("demo", "--output", str(tmp_path / "out"), code=1)
    assert "install it with `pip install 'holdfast[demo]'`" in said
    assert not (tmp_path / "out").exists()


# What installers write into the `holdfast` command.
COMMAND = "import sys; from holdfast_command import main; sys.exit(main())"


def begin(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """A command that says on its standard error what it has imported."""
    return subprocess.Popen(
        [sys.executable, "-X", "importtime", "-c", COMMAND, *arguments],
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


@pytest.mark.soak
@pytest.mark.parametrize("module", ["py4j", "pyspark", "holdfast.api.table"])
def test_an_interrupt_during_the_imports_is_said_in_a_line(module: str) -> None:
    process = begin("run", "--help")
    assert process.stderr is not None
    assert any(line.split()[-1] == module for line in process.stderr)
    process.send_signal(signal.SIGINT)
    assert end(process) == (130, "", ["holdfast: interrupted"])


@pytest.mark.soak
def test_an_interrupt_that_the_shell_has_ignored_stays_ignored() -> None:
    process = begin("--help", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    assert process.stderr is not None
    assert any(line.split()[-1] == "pyspark" for line in process.stderr)
    process.send_signal(signal.SIGINT)
    code, out, said = end(process)
    assert (code, out.startswith("usage: holdfast"), said) == (0, True, [])


@pytest.mark.soak
def test_a_command_does_not_wait_for_what_others_import() -> None:
    process = begin("jobs", "--help")
    imported = {line.split()[-1] for line in process.communicate(timeout=60)[1].splitlines()}
    assert process.returncode == 0 and "holdfast.cli.jobs.as_table" in imported
    assert imported.isdisjoint({"pyspark", "aiohttp", "pandas", "matplotlib", "rich.live"})


def test_amounts_are_short() -> None:
    sizes = {12: "12 bytes", 1500: "2 kB", 999_600: "1 MB", 361e6: "361 MB", 2e15: "2000.0 TB"}
    assert {size: amounts.size(size) for size in sizes} == sizes
    assert [amounts.count(n, "row") for n in (0, 1, 1500)] == ["0 rows", "1 row", "1,500 rows"]

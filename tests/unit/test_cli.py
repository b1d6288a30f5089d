"""The `holdfast` command and its arguments."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast
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
        (["demo", "--rows", "many"], "expected a number, 1 or more; found 'many'"),
        (["demo", "--output", " "], "expected a path on this machine, or file:///path; found ' '"),
    ],
)
def test_bad_arguments_end_with_code_2(
    command: Command, arguments: list[str], message: str
) -> None:
    assert message in command.refuses(*arguments)


def test_a_missing_plotting_library_is_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = command.refuses("demo", "--output", str(tmp_path / "out"), code=1)
    assert "pip install 'holdfast[demo]'" in said and not (tmp_path / "out").exists()


# What installers write into the `holdfast` command, which says what it has imported.
MAIN = "import sys; from holdfast_command import main; sys.exit(main())"
COMMAND = [sys.executable, "-X", "importtime", "-c", MAIN]
PIPES: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


@pytest.mark.soak
@pytest.mark.parametrize("ignored", [False, True])
def test_an_interrupt_during_the_imports_is_said_in_a_line_unless_the_shell_ignores_it(
    ignored: bool,
) -> None:
    ignore = (lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignored else None
    process = subprocess.Popen([*COMMAND, "--help"], text=True, preexec_fn=ignore, **PIPES)
    assert process.stderr is not None
    assert any(line.split()[-1] == "pyspark" for line in process.stderr)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    said = [line for line in err.splitlines() if not line.startswith("import time:")]
    expected = (0, True, []) if ignored else (130, False, ["holdfast: interrupted"])
    assert (process.returncode, out.startswith("usage: holdfast"), said) == expected


@pytest.mark.soak
def test_a_command_does_not_wait_for_what_others_import() -> None:
    ended = subprocess.run([*COMMAND, "jobs", "--help"], text=True, timeout=60, **PIPES)
    imported = {line.split()[-1] for line in ended.stderr.splitlines()}
    assert ended.returncode == 0 and "holdfast.cli.jobs.as_table" in imported
    assert imported.isdisjoint({"pyspark", "aiohttp", "pandas", "matplotlib", "rich.live"})

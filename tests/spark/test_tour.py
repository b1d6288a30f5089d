"""`holdfast demo`, played as a person would start it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.short_lived_jvm import environment_of_program

_PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.timeout(900)
def test_the_tour_shows_what_it_promises(tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = ["-m", "holdfast", "demo", "--rows", "400000", "--output", str(output)]
    ended = subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        env=os.environ | environment_of_program(),
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    shown = ended.stdout
    assert "8 questions" in shown and "8 of 8 found" in shown and "bytes lost" in shown
    assert "went on" in shown and " NO " not in shown
    assert (output / "times.png").read_bytes().startswith(_PNG)

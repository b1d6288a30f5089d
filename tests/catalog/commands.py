"""The `holdfast` command, run in this process."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

from holdfast.cli.main import main


def run(*arguments: object) -> tuple[int, str]:
    """The exit code of a command, and all that it has said."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        code = main([*map(str, arguments)])
    return code, said.getvalue()

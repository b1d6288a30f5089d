"""The `holdfast` command, run in this process."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

from holdfast.cli.main import main


def run(*arguments: object) -> tuple[int, str]:
    """The exit code of a command, and all that it has said."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            code = main([*map(str, arguments)])
        except SystemExit as refused:
            code = int(refused.code or 0)
    return code, said.getvalue()

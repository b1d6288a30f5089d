"""Where the `holdfast` command starts: outside of `holdfast`, whose imports take a while."""

from __future__ import annotations

import importlib
import os
import signal
from types import FrameType
from typing import Any

_INTERRUPTED = 130
_LINE = b"holdfast: interrupted\n"


def main() -> int:
    """Runs `holdfast.cli.main`; Ctrl-C while it is still imported ends the process in one line.

    Returns:
        the exit code.
    """
    # Where the shell has it ignored, it stays so.
    listens = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listens:
        signal.signal(signal.SIGINT, _end_at_once)
    # Not at the top of the file, where nobody would be listening yet.
    module: Any = importlib.import_module("holdfast.cli.main")
    run = module.prepared()
    try:
        if listens:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return int(run())
    except KeyboardInterrupt:
        os.write(2, _LINE)
        return _INTERRUPTED


def _end_at_once(number: int, frame: FrameType | None) -> None:
    # An exception could end up in an `except` of whatever is being imported.
    os.write(2, _LINE)
    os._exit(_INTERRUPTED)

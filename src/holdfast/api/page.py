"""The page that shows what is kept, from inside of a program."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from html import escape

from holdfast.config import (
    CATALOG_URL,
    HIGH_AVAILABILITY_STORAGE_DIR,
    INTERMEDIATE_RESULT_DIRECTORY,
    TASK_EXECUTOR_ADDRESSES,
    TASK_EXECUTOR_TOKEN_FILE,
    Configuration,
)
from holdfast.errors import PageError

_URL = re.compile(r" at (http://\S+)$")
_PATIENCE_SECONDS = 5.0


class Page:
    """A page, served by a process of its own, which ends with the program at the latest.

    A notebook shows it inline.

    Attributes:
        url: where it is.

    Args:
        arguments: of `holdfast ui`.

    Raises:
        PageError: when it can't be served.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", "holdfast", "ui", "--until-end-of-input", *arguments]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A Ctrl-C is meant for the program.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        found = _URL.search(said)
        if found is None:
            rest = self._process.stdout.read()
            self.close()
            raise PageError(f"{said}\n{rest}".strip() or "its process has ended")
        self.url = found[1]

    @property
    def is_open(self) -> bool:
        """Whether it is served."""
        return self._process.poll() is None

    def close(self) -> None:
        """Serves it no longer. Does nothing the second time."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Page: {self.url if self.is_open else 'closed'}>"

    def _repr_html_(self) -> str:
        if not self.is_open:
            return "<p>The page is closed.</p>"
        url = escape(self.url, quote=True)
        return (
            f'<p><a href="{url}" target="_blank" rel="noopener">{url}</a></p>'
            f'<iframe src="{url}" title="Holdfast" width="100%" height="640"></iframe>'
        )


def page_of(configuration: Configuration, *, port: int = 0, is_read_only: bool = False) -> Page:
    """The page of what an environment keeps.

    Args:
        configuration: of the environment.
        port: on this machine; 0 for any that is free.
        is_read_only: whether nothing can be pinned, released or verified on it.

    Raises:
        PageError: when it can't be served.
    """
    arguments = ["--directory", str(configuration.get(INTERMEDIATE_RESULT_DIRECTORY))]
    executors: tuple[str, ...] = configuration.get(TASK_EXECUTOR_ADDRESSES)
    given = {
        # Empty: that of the directory.
        "--catalog-url": configuration.get(CATALOG_URL) or None,
        "--storage-dir": configuration.get(HIGH_AVAILABILITY_STORAGE_DIR),
        "--executors": ",".join(executors) or None,
        "--token-file": configuration.get(TASK_EXECUTOR_TOKEN_FILE),
        "--port": port,
    }
    for name, value in given.items():
        if value is not None:
            arguments += [name, str(value)]
    return Page([*arguments, *(["--read-only"] if is_read_only else [])])

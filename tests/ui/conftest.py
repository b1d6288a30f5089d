"""The page, served by a process of its own, and a browser to look at it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.ui.large_catalog import fill

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LARGE = 20_000
_PATIENCE = 15_000
# A page is drawn late where other tests keep the cores busy.
expect.set_options(timeout=_PATIENCE)


@dataclass
class Served:
    """A page that is served.

    Attributes:
        url: where it is, without a slash at its end.
        process: which serves it.
    """

    url: str
    process: subprocess.Popen[str]


Serve = Callable[..., Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts pages; arguments are those of `holdfast ui`."""
    with ExitStack() as stack:

        def start(*arguments: object, **environment: str) -> Served:
            process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", "ui", *map(str, arguments)],
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
            assert process.stdout is not None
            said = process.stdout.readline()
            return Served(said.rpartition(" at ")[2].strip().rstrip("/"), process)

        yield start


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A Chromium; tests are left out where there is none."""
    named = os.environ.get("HOLDFAST_CHROMIUM") or next(
        filter(None, map(shutil.which, _NAMES)), None
    )
    if named is None:
        pytest.skip("no Chromium: scripts/ensure_chromium.py installs one")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=named, args=_FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Storage directories: an empty one, one with a few results, and one with very many."""
    home = tmp_path_factory.mktemp("catalogs")
    found = {name: home / name for name in ("empty", "small", "large")}
    found["empty"].mkdir()
    fill(found["small"], 12)
    fill(found["large"], LARGE)
    return found


class Looking:
    """A person before the page, who sees what the browser complains of."""

    def __init__(self, browser: Browser, width: int = 1280, **options: Any) -> None:
        viewport = {"width": width, "height": 900}
        self.context = browser.new_context(viewport=viewport, **options)  # type: ignore[arg-type]
        self.page = self.context.new_page()
        self.page.set_default_timeout(_PATIENCE)
        self.complaints: list[str] = []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def fits(self) -> bool:
        """Whether nothing has to be moved sideways to be read."""
        width = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        return bool(self.page.evaluate(width))


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Looking]]:
    """Opens the browser; what it complained of fails the test."""
    made: list[Looking] = []

    def start(width: int = 1280, **options: Any) -> Looking:
        made.append(Looking(browser, width, **options))
        return made[-1]

    yield start
    for each in made:
        each.context.close()
    assert [complaint for each in made for complaint in each.complaints] == []

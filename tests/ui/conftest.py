"""The page, served by another process, and a browser to look at it."""

from __future__ import annotations

import os
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.harness.forked import Command
from tests.ui.large_catalog import fill

_FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LARGE = 2_000
TOKEN = "a-token-of-some-length"
_PATIENCE = 15_000
# A page is drawn late where other tests keep the cores busy.
expect.set_options(timeout=_PATIENCE)


class Client:
    """Asks a page like a browser: with cookies, and following redirects."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.jar = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))

    def ask(
        self, path: str, form: dict[str, str] | None = None, **headers: str
    ) -> tuple[int, str, Any]:
        data = None if form is None else urllib.parse.urlencode(form).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        try:
            with self._opener.open(request, timeout=30) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def text(self, path: str) -> str:
        return self.ask(path)[1]

    def csrf(self, path: str) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.text(path))
        assert found is not None
        return found[1]

    def press(self, page: str, action: str) -> str:
        """Presses a button of a result's page; what it says then."""
        status, text, _ = self.ask(f"{page}/{action}", {"csrf": self.csrf(page)})
        assert status == 200
        return text


Serve = Callable[..., str]


@contextmanager
def _serving() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(*arguments: object, **environment: str) -> str:
            process = Command("ui", *arguments, environment=environment)
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
            return process.stdout.readline().rpartition(" at ")[2].strip().rstrip("/")

        yield start


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts pages; takes the arguments of `holdfast ui`, gives where it is."""
    with _serving() as start:
        yield start


@pytest.fixture(scope="session")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Storage directories: an empty one, one with a few results, and one with very many."""
    home = tmp_path_factory.mktemp("catalogs")
    found = {name: home / name for name in ("empty", "small", "large")}
    found["empty"].mkdir()
    fill(found["small"], 12)
    fill(found["large"], LARGE)
    return found


@pytest.fixture(scope="session")
def pages(catalogs: dict[str, Path]) -> Iterator[dict[str, str]]:
    """Where the pages of these directories are, which no test changes."""
    with _serving() as start:
        yield {
            name: start("--directory", directory, "--storage-dir", catalogs["empty"])
            for name, directory in catalogs.items()
        }


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

"""The page over what task executors hold for the catalog: real processes, no Spark."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.taskexecutor.site import ROWS, Site, site_at
from tests.ui.conftest import Client
from tests.ui.conftest import serve as serve


@pytest.fixture
def site(start: Any, tmp_path: Path) -> Iterator[Site]:
    with site_at(start, tmp_path) as site:
        yield site


@pytest.fixture
def client(site: Site, serve: Any, tmp_path: Path) -> Client:
    token = tmp_path / "token"
    token.write_text(site.executor.token)
    arguments = ("--executors", site.executor.address, "--token-file", token)
    return Client(serve("--directory", tmp_path, "--catalog-url", site.url, *arguments))


def test_results_that_executors_hold_are_verified_pinned_and_released(
    site: Site, client: Client
) -> None:
    name = site.keep()
    assert "holds parts of 1 dataset" in client.ask("/")[1]
    assert "Verified: all files" in client.press(f"/results/{name}", "verify")
    assert "Pinned" in client.press(f"/results/{name}", "pin")
    assert site.program().read() == ROWS
    assert "Released" in client.press(f"/results/{name}", "release")
    assert site.program().read() is None
    [row] = json.loads(client.ask("/results.json?state=all")[1])
    assert (row["state"], row["why_gone"]) == ("gone", "it was removed by hand")


def test_what_is_damaged_is_said(site: Site, client: Client) -> None:
    name = site.keep()
    for file in site.files():
        file.write_bytes(file.read_bytes()[:-1])
    assert "Damaged: files are missing or changed" in client.press(f"/results/{name}", "verify")


def test_an_executor_that_does_not_answer_is_said(site: Site, client: Client) -> None:
    name = site.keep()
    address = site.executor.address
    site.executor.process.send_signal(signal.SIGKILL)
    site.executor.process.wait(20)
    assert f"task executor {address}" in client.ask("/")[1]
    assert "Not answering" in client.ask("/")[1]
    assert "Not verified" in client.press(f"/results/{name}", "verify")
    assert "Not wholly released" in client.press(f"/results/{name}", "release")

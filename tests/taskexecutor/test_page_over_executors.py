"""The page over what task executors hold for the catalog: real processes, no Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.ids import IntermediateDataSetID
from tests.taskexecutor.site import ROWS, site_at
from tests.ui.conftest import Client
from tests.ui.conftest import serve as serve


def test_results_that_executors_hold_are_verified_pinned_and_released(
    start: Any, serve: Any, tmp_path: Path
) -> None:
    with site_at(start, tmp_path) as site:
        (tmp_path / "token").write_text(site.executor.token)
        at = ("--executors", site.executor.address, "--token-file", tmp_path / "token")
        client = Client(serve("--directory", tmp_path, "--catalog-url", site.url, *at))
        name = site.keep()
        damaged = site.keep(dataset_id=IntermediateDataSetID("2" * 64))
        assert "holds parts of 2 datasets" in client.text("/")
        page = f"/results/{name}"
        assert "Verified: all files" in client.press(page, "verify")
        assert "Pinned" in client.press(page, "pin")
        assert site.read() == ROWS
        assert "Released" in client.press(page, "release")
        assert site.read() is None
        rows = json.loads(client.text("/results.json?state=all"))
        (row,) = (each for each in rows if each["id"] == name)
        assert (row["state"], row["why_gone"]) == ("gone", "it was removed by hand")
        site.damage(damaged)
        page = f"/results/{damaged}"
        assert "Damaged: files are missing or changed" in client.press(page, "verify")
        site.executor.kill()
        overview = client.text("/")
        assert f"task executor {site.executor.address}" in overview and "Not answering" in overview
        assert "Not verified" in client.press(page, "verify")
        assert "Not wholly released" in client.press(page, "release")

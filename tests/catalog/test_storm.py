"""Processes that are killed at any moment leave nothing wrong, and nothing that isn't found."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.catalog.results import STORAGE
from tests.catalog.storm import DATASETS, LEASE_SECONDS, nothing_is_left, rage

_BYTES = 8_000


@pytest.mark.parametrize(
    ("processes", "seconds"),
    [(6, 4.0), pytest.param(30, 300.0, marks=[pytest.mark.soak, pytest.mark.timeout(900)])],
)
def test_nothing_wrong_is_read_and_nothing_is_left(
    url: URL, tmp_path: Path, processes: int, seconds: float
) -> None:
    root = tmp_path / "kept"
    root.mkdir(mode=0o700)
    (root / "identity").write_text(STORAGE)
    seed = int(os.environ.get("STORM_SEED", "1"))
    text = url.render_as_string(hide_password=False)
    # About half of the results have room.
    limit = len(DATASETS) // 2 * _BYTES
    storm = rage(root, text, processes, seconds, seed, limit)
    assert (storm.wrong, storm.failed) == ([], [])
    assert min(storm.done[kind] for kind in ("killed", "read", "produced", "invalidated")) > 0, (
        storm
    )
    time.sleep(LEASE_SECONDS + 0.5)
    nothing_is_left(root, text, limit)

"""Processes that are killed at any moment leave nothing wrong, and nothing that isn't found."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from sqlalchemy import URL

from holdfast.cli.upkeep.garbage import find_garbage
from tests.catalog.programs import written
from tests.catalog.results import STORAGE
from tests.catalog.storm import (
    DATASETS,
    LEASE_SECONDS,
    Storm,
    partitions_of,
    rage,
    storm_book,
)

_BYTES = 8_000


@pytest.mark.parametrize(
    ("processes", "seconds"),
    [(6, 15.0), pytest.param(30, 300.0, marks=[pytest.mark.soak, pytest.mark.timeout(900)])],
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
    _nothing_is_left(root, text, limit, storm)


def _nothing_is_left(root: Path, url: str, limit: int, storm: Storm) -> None:
    time.sleep(LEASE_SECONDS + 0.5)
    book, storage, catalog = storm_book(root, url, limit)
    # Any program that goes on clears up after those that were killed.
    assert book.may_find(lambda digest: False) in (True, False)
    book._look_after(catalog)
    kept = catalog.search.all()
    assert sum(each.bytes for each in kept) <= limit
    for garbage in find_garbage(root, catalog):
        assert garbage.remove(), garbage
    assert list(find_garbage(root, catalog)) == []
    lying = {path.name for path in (root / "shared" / "datasets").iterdir()}
    assert lying == {each.name for each in kept if each.is_shared}
    assert not list((root / "shared" / "staging").iterdir())
    # All of it can be read, and what isn't there can be produced.
    for dataset_id in DATASETS:
        with book.reading() as lease:
            if lease.acquire(dataset_id) is None:
                storage.remove(written(storage, dataset_id, partitions_of(dataset_id)))
    book.close()
    storage.close()

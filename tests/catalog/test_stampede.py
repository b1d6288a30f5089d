"""Several processes that need one missing result at the same time."""

from __future__ import annotations

from sqlalchemy import URL

from benchmarks.catalog.stampede import measure


def test_one_process_alone_produces_what_all_need(url: URL) -> None:
    text = url.render_as_string(hide_password=False)
    for found in measure(text, processes=6, rounds=2, seconds=0.3):
        assert (found.producers, found.answers) == (1, 6)

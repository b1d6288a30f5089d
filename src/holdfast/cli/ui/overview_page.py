"""What was saved, what room that takes, and what happens right now."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from aiohttp import web

from holdfast.catalog.days import SECONDS, Counts
from holdfast.catalog.reading.activity import Happening
from holdfast.catalog.reading.overview import Overview
from holdfast.cli.ui.exports import exported
from holdfast.cli.ui.site import Site
from holdfast.highavailability.job_index import JobSummary

_SHOWN = 30
_EXPORTED = 1_000
_SHOWN_JOBS = 10
_NOTHING = Overview(Counts(), Counts(), Counts(), {}, 0, 0, 0)


class OverviewPage:
    """`/`, and what its chart is drawn from.

    Args:
        site: what all pages share.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    async def show(self, request: web.Request) -> web.Response:
        """The page."""
        return self._site.page(request, "overview", await self._site.aside(self._found))

    async def days(self, request: web.Request) -> web.Response:
        """A row for each of the last days, as CSV or JSON."""
        seen = await self._site.aside(self._overview)
        rows = [
            {
                "day": f"{datetime.fromtimestamp(day * SECONDS, timezone.utc):%F}",
                **asdict(counts),
                "hit_rate": counts.hit_rate,
            }
            for day, counts in seen.days.items()
        ]
        return exported(rows, request.match_info["form"], "days")

    async def lately(self, request: web.Request) -> web.Response:
        """What has happened last, as CSV or JSON."""
        happenings = await self._site.aside(self._lately, _EXPORTED)
        rows = [{**asdict(each), "kind": each.kind.value} for each in happenings]
        return exported(rows, request.match_info["form"], "lately")

    def _lately(self, most: int) -> list[Happening]:
        nothing: list[Happening] = []
        return self._site.place.ask(lambda catalog: catalog.reading.lately(most), nothing)

    def _overview(self) -> Overview:
        return self._site.place.ask(lambda catalog: catalog.reading.overview(), _NOTHING)

    def _found(self) -> dict[str, Any]:
        place = self._site.place
        seen = self._overview()
        budget = place.options.budget
        if budget is None and place.options.catalog_url is None:
            budget = _room(str(place.options.directory), seen.bytes)
        return {
            "seen": seen,
            "budget": budget,
            "is_limited": place.options.budget is not None,
            "happenings": self._lately(_SHOWN),
            "resumed": self._resumed(),
            "executors": place.executors(),
            "day_seconds": SECONDS,
        }

    def _resumed(self) -> list[JobSummary]:
        """The jobs that went on after a kill, the last ones first."""
        index = self._site.place.jobs
        try:
            jobs = [] if index is None else index.jobs()
        except OSError:
            # The page of jobs says why.
            return []
        resumed = [job for job in jobs if job.starts > 1]
        return sorted(resumed, key=lambda job: job.started, reverse=True)[:_SHOWN_JOBS]


def _room(directory: str, kept: int) -> int | None:
    """How much could be kept until the disk is full; None where that can't be told."""
    try:
        return shutil.disk_usage(directory).free + kept
    except OSError:
        return None

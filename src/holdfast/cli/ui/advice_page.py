"""What recurs and isn't kept, and what is kept and isn't used."""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Lock
from typing import Any

from aiohttp import web

from holdfast.advice.proposal import Proposal
from holdfast.catalog.reading.result_list import ResultFilter, ResultPage, ResultSort
from holdfast.cli.advice.advice import Advice, AdviceLimits, advice_on_history
from holdfast.cli.ui.exports import exported
from holdfast.cli.ui.results_pages import as_row
from holdfast.cli.ui.site import Site

_QUERIES = 5_000
_LIMITS = AdviceLimits(budget=None, least_seconds=1.0, most=20)
_FRESH_SECONDS = 15.0
_UNUSED_SECONDS = 3600.0
_SHOWN_UNUSED = 50
_NO_RESULTS = ResultPage((), 0, 0, 0.0)


@dataclass(frozen=True, slots=True)
class _Known:
    advice: Advice
    moment: float


class AdvicePage:
    """`/advice`.

    Args:
        site: what all pages share.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._lock = Lock()
        self._known: _Known | None = None

    async def show(self, request: web.Request) -> web.Response:
        """The page."""
        advice = await self._site.aside(self._advice)
        unused = await self._site.aside(self._unused)
        return self._site.page(request, "advice", {"advice": advice, "unused": unused})

    async def export(self, request: web.Request) -> web.Response:
        """What is proposed, as CSV or JSON."""
        advice = await self._site.aside(self._advice)
        rows = [_as_row(each) for each in advice.proposals]
        return exported(rows, request.match_info["form"], "advice")

    async def export_unused(self, request: web.Request) -> web.Response:
        """What is kept and isn't used, as CSV or JSON."""
        unused = await self._site.aside(self._unused)
        return exported(map(as_row, unused.results), request.match_info["form"], "unused")

    def _advice(self) -> Advice:
        # To choose among thousands of queries takes a moment.
        with self._lock:
            if self._known is None or time.monotonic() - self._known.moment > _FRESH_SECONDS:
                contents = self._site.place.past_queries(_QUERIES)
                self._known = _Known(advice_on_history(contents, _LIMITS), time.monotonic())
            return self._known.advice

    def _unused(self) -> ResultPage:
        which = ResultFilter(unused_since=time.time() - _UNUSED_SECONDS)
        return self._site.place.ask(
            lambda catalog: catalog.reading.results(which, ResultSort.SIZE, most=_SHOWN_UNUSED),
            _NO_RESULTS,
        )


def _as_row(proposal: Proposal) -> dict[str, Any]:
    return {
        "what": proposal.what,
        "saved_seconds": proposal.saved_seconds,
        "reads": proposal.reads,
        "seconds": proposal.seconds,
        "bytes": proposal.bytes,
        "asked_for_by": sorted({f"{each.what} [{each.program}]" for each in proposal.queries}),
    }

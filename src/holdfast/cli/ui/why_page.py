"""What of a past query was read, kept or not kept, and why."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from holdfast.advice.query_records import read
from holdfast.advice.ran_query import RanQuery
from holdfast.catalog.reading.result_list import ResultFilter, ResultPage, ResultSort
from holdfast.cli.advice.why import described, outcomes, reused
from holdfast.cli.ui.exports import exported
from holdfast.cli.ui.site import Site

_QUERIES = 5_000
_LISTED = 50
_SHORTEST = 4
_NO_RESULTS = ResultPage((), 0, 0, 0.0)


def _explained(catalog: Any) -> ResultPage:
    page: ResultPage = catalog.reading.results(
        ResultFilter(state=None, has_reasons=True), ResultSort.CREATED, most=_LISTED
    )
    return page


class WhyPage:
    """`/why`.

    Args:
        site: what all pages share.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    async def show(self, request: web.Request) -> web.Response:
        """The last queries, and the one that is asked for."""
        asked = request.query.get("query", "").strip().lower()
        last, chosen = await self._site.aside(self._found, asked)
        results = await self._site.aside(self._site.place.ask, _explained, _NO_RESULTS)
        values = {
            "asked": asked,
            "last": last,
            "results": results.results,
            "chosen": [(each, reused(each.query), list(outcomes(each))) for each in chosen],
            "is_short": 0 < len(asked) < _SHORTEST,
        }
        return self._site.page(request, "why", values)

    async def export(self, request: web.Request) -> web.Response:
        """The queries that are asked for, or the last ones, as CSV or JSON."""
        asked = request.query.get("query", "").strip().lower()
        last, chosen = await self._site.aside(self._found, asked)
        rows = map(described, chosen if asked else last)
        return exported(rows, request.match_info["form"], "queries")

    def _found(self, asked: str) -> tuple[list[RanQuery], list[RanQuery]]:
        """The last queries, and the last one that is asked for; the latest first."""
        most = _QUERIES if len(asked) >= _SHORTEST else _LISTED
        contents = self._site.place.past_queries(most)
        found = [ran for ran in map(read, reversed(contents)) if ran is not None]
        fitting = (
            [ran for ran in found if ran.digest.startswith(asked)][:1]
            if len(asked) >= _SHORTEST
            else []
        )
        return found[:_LISTED], fitting

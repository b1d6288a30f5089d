"""All results, and each of them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from aiohttp import web

from holdfast.catalog.cataloged_result import CatalogedResult, ResultState
from holdfast.catalog.reading.result_detail import ResultDetail
from holdfast.catalog.reading.result_list import ResultFilter, ResultPage, ResultSort
from holdfast.cli.datasets.directory_source import DirectorySource
from holdfast.cli.datasets.executor_source import ExecutorSource
from holdfast.cli.datasets.listed_dataset import DataSetState, ListedDataSet
from holdfast.cli.datasets.type_text import type_text
from holdfast.cli.ui.exports import drawn, exported
from holdfast.cli.ui.paging import ON_A_PAGE, page_number, paged
from holdfast.cli.ui.plan_drawing import plan_drawing
from holdfast.cli.ui.site import Site
from holdfast.cli.upkeep.verification import thorough_damage
from holdfast.plan.reasons import sentences

_IN_TREEMAP = 150
_MOST_EXPORTED = 100_000
_STATES = {
    "kept": ResultState.KEPT,
    "gone": ResultState.GONE,
    "not kept": ResultState.NOT_KEPT,
    "all": None,
}
_NO_RESULTS = ResultPage((), 0, 0, 0.0)


class ResultsPages:
    """`/results` and what is below it.

    Args:
        site: what all pages share.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    async def all(self, request: web.Request) -> web.Response:
        """A page of the table."""
        which, sort, descending = asked_results(request.query)
        number = page_number(request.query)

        def found(catalog: Any) -> ResultPage:
            offset = (number - 1) * ON_A_PAGE
            page: ResultPage = catalog.reading.results(
                which, sort, descending=descending, offset=offset, most=ON_A_PAGE
            )
            return page

        page = await self._site.aside(self._site.place.ask, found, _NO_RESULTS)
        values = {
            "page": page,
            **paged(number, page.total),
            "text": which.text,
            "owner": which.owner or "",
            "application": which.application,
            "state": request.query.get("state", "kept"),
            "sort": sort.value,
            "descending": descending,
        }
        return self._site.page(request, "results", values)

    async def export(self, request: web.Request) -> web.Response:
        """All rows of the table, as CSV or JSON."""
        which, sort, descending = asked_results(request.query)
        page = await self._site.aside(
            self._site.place.ask,
            lambda catalog: catalog.reading.results(
                which, sort, descending=descending, most=_MOST_EXPORTED
            ),
            _NO_RESULTS,
        )
        rows = await self._site.aside(lambda: [as_row(each) for each in page.results])
        return exported(rows, request.match_info["form"], "results")

    async def treemap(self, _: web.Request) -> web.Response:
        """What takes up the room, the largest results first."""
        nothing: tuple[tuple[CatalogedResult, ...], int, int] = ((), 0, 0)
        largest, others, size = await self._site.aside(
            self._site.place.ask, lambda catalog: catalog.reading.largest(_IN_TREEMAP), nothing
        )
        return web.json_response(
            {"results": [*map(as_row, largest)], "others": others, "bytes": size}
        )

    async def one(self, request: web.Request) -> web.Response:
        """Everything about a result."""
        detail = await self._site.aside(self._detail, request.match_info["name"])
        if detail is None:
            return self._missing(request)
        return self._site.page(request, "result", _shown(detail, request))

    async def drawing(self, request: web.Request) -> web.Response:
        """A result's plan as a picture."""
        detail = await self._site.aside(self._detail, request.match_info["name"])
        if detail is None or not detail.made_from.plan:
            return self._missing(request)
        return drawn(detail.result.computes, plan_drawing(detail.made_from.plan))

    async def part(self, request: web.Request) -> web.Response:
        """A table of a result's page, as CSV or JSON."""
        detail = await self._site.aside(self._detail, request.match_info["name"])
        if detail is None:
            return self._missing(request)
        table = request.match_info["table"]
        return exported(result_tables(detail)[table], request.match_info["form"], table)

    async def act(self, request: web.Request) -> web.Response:
        """Pins, unpins, releases or verifies a result, and shows it again."""
        action = request.match_info["action"]
        detail = await self._site.aside(self._detail, request.match_info["name"])
        if detail is None:
            return self._missing(request)
        if not detail.may_change:
            raise web.HTTPForbidden(text="The result is another user's.")
        said = await self._site.aside(_ACTIONS[action], self, detail)
        raise web.HTTPSeeOther(f"/results/{detail.result.name}?said={said}")

    def _missing(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return self._site.missing(request, f"There is no result {name}, or there are several.")

    def _detail(self, name: str) -> ResultDetail | None:
        def found(catalog: Any) -> ResultDetail | None:
            results = catalog.reading.named(name)
            chosen = (
                [each for each in results if each.name == name]
                or [each for each in results if each.state is ResultState.KEPT]
                or results
            )
            return catalog.reading.detail(chosen[0].number) if len(chosen) == 1 else None

        return self._site.place.ask(found, None)

    def _pin(self, detail: ResultDetail) -> str:
        number = detail.result.number
        pinned = self._site.place.ask(lambda catalog: catalog.holders.pin(number), False)
        return "pinned" if pinned else "not-pinned"

    def _unpin(self, detail: ResultDetail) -> str:
        number = detail.result.number
        self._site.place.ask(lambda catalog: catalog.holders.unpin(number), None)
        return "unpinned"

    def _release(self, detail: ResultDetail) -> str:
        options, name = self._site.place.options, detail.result.name
        self._unpin(detail)
        if not options.executors:
            source = DirectorySource(options.directory, may_be_missing=True)
            failures = source.release_named(name, *_directories(detail))
            return "not-released" if failures else "released"
        cluster = self._cluster()
        dataset = _of_cluster(cluster, name)
        if dataset is None or cluster.release(dataset).failures:
            return "not-released"
        return "released"

    def _verify(self, detail: ResultDetail) -> str:
        if self._site.place.options.executors:
            # They compare what they hold with what was published.
            dataset = _of_cluster(self._cluster(), detail.result.name)
            if dataset is None:
                return "not-verified"
            return "verified" if dataset.state is DataSetState.COMPLETE else "damaged"
        if detail.kept is None or not _directories(detail):
            return "not-verified"
        manifest = detail.kept.manifest
        damages = [thorough_damage(each, manifest) for each in _directories(detail)]
        return "verified" if damages == [None] else "damaged"

    def _cluster(self) -> ExecutorSource:
        options = self._site.place.options
        return ExecutorSource(
            options.executors, options.token or "", catalog_url=options.catalog_url
        )


def _of_cluster(cluster: ExecutorSource, name: str) -> ListedDataSet | None:
    """What task executors hold under a name; None where they don't, or don't answer."""
    return next((each for each in cluster.find().datasets if each.output.name == name), None)


def asked_results(query: Mapping[str, str]) -> tuple[ResultFilter, ResultSort, bool]:
    """What a URL asks for: which results, by what they are sorted, and whether from the greatest.

    What it says wrongly is left out.

    Args:
        query: of the URL.

    >>> asked_results({"text": "join", "sort": "size", "order": "up", "state": "gone"})[0].state
    <ResultState.GONE: 'gone'>
    """
    sort = ResultSort.USED
    with suppress(ValueError):
        sort = ResultSort(query.get("sort", "used"))
    which = ResultFilter(
        query.get("text", "").strip(),
        query.get("owner") or None,
        _STATES.get(query.get("state", "kept"), ResultState.KEPT),
        query.get("application") or None,
    )
    return which, sort, query.get("order", "down") != "up"


def as_row(result: CatalogedResult) -> dict[str, Any]:
    """A result as a row of a file."""
    return {
        "id": result.name,
        "computes": result.computes,
        "state": result.state.value,
        "owner": result.user,
        "host": result.host,
        "program": result.application.hex,
        "audience": result.audience.value,
        "created": _iso(result.created),
        "last_used": _iso(result.last_used),
        "lifetime_seconds": result.lifetime,
        "uses": result.uses,
        "rows": result.rows,
        "bytes": result.bytes,
        "partitions": result.partitions,
        "seconds": result.seconds,
        "saved_seconds": result.saved_seconds,
        "why_gone": result.why_gone,
        "reasons": "; ".join(sentences(result.reasons)),
    }


def result_tables(detail: ResultDetail) -> dict[str, list[dict[str, Any]]]:
    """The tables of a result's page: its columns, partitions, sources and uses.

    Args:
        detail: the result.
    """
    kept = detail.kept
    columns, partitions = [], []
    if kept is not None:
        for column in kept.manifest.dataset.columns:
            statistics = detail.statistics.get(column.kept_as) if detail.may_change else None
            columns.append(
                {
                    "name": column.name,
                    "type": type_text(column.type),
                    "nullable": column.nullable,
                    "nulls": statistics and statistics.nulls,
                    "least": statistics and statistics.least,
                    "greatest": statistics and statistics.greatest,
                }
            )
        partitions = [
            {"index": each.index, "rows": each.rows, "bytes": each.bytes, "location": location}
            for each, location in zip(kept.manifest.partitions, kept.locations, strict=True)
        ]
    sources = [
        {"path": file.path, "bytes": file.length, "modified": _iso(file.modified / 1000)}
        for file in detail.made_from.files
    ]
    uses = [
        {"used": _iso(use.moment), "user": use.user, "saved_seconds": use.seconds}
        for use in detail.uses
    ]
    return {"columns": columns, "partitions": partitions, "sources": sources, "uses": uses}


def _shown(detail: ResultDetail, request: web.Request) -> dict[str, Any]:
    kept = detail.kept
    return {
        "detail": detail,
        "result": detail.result,
        "tables": result_tables(detail),
        "spark_version": None if kept is None else kept.manifest.dataset.spark_version,
        "said": _SAID.get(request.query.get("said", "")),
        "timeline": _timeline(detail),
    }


def _timeline(detail: ResultDetail) -> list[tuple[float, Any]]:
    """Where each use is between the publication and the last use, from 0 to 1000."""
    begin = detail.result.created
    length = max((use.moment for use in detail.uses), default=begin) - begin
    return [
        (round(1000 * (use.moment - begin) / length, 1) if length > 0 else 0.0, use)
        for use in detail.uses
    ]


def _directories(detail: ResultDetail) -> list[Path]:
    """Where a result lies on this machine."""
    paths = map(Path, detail.result.directories)
    return [path for path in paths if path.is_absolute() and path.is_dir()]


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, timezone.utc).isoformat(timespec="seconds")


_ACTIONS = {
    "pin": ResultsPages._pin,
    "unpin": ResultsPages._unpin,
    "release": ResultsPages._release,
    "verify": ResultsPages._verify,
}
_SAID = {
    "pinned": "Pinned: it stays until you unpin or release it.",
    "not-pinned": "Not pinned: it is gone, or it ends with its program.",
    "unpinned": "Unpinned: its lifetime begins now.",
    "released": "Released: the next job that needs it computes it again.",
    "not-released": "Not wholly released: check owner and permissions, and the task executors.",
    "verified": "Verified: all files are as they were published.",
    "damaged": "Damaged: files are missing or changed. A job that reads it computes it again.",
    "not-verified": "Not verified: its files are neither here nor on the task executors.",
}

"""The page as an application of aiohttp."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Middleware

from holdfast.cli.ui.advice_page import AdvicePage
from holdfast.cli.ui.jobs_pages import JobsPages
from holdfast.cli.ui.live import Live
from holdfast.cli.ui.overview_page import OverviewPage
from holdfast.cli.ui.place import ShownPlace
from holdfast.cli.ui.results_pages import ResultsPages
from holdfast.cli.ui.security import Security, restrict
from holdfast.cli.ui.site import Site
from holdfast.cli.ui.why_page import WhyPage
from holdfast.errors import CatalogError, HoldfastError

_THREADS = 4
_STATIC = Path(__file__).with_name("static")
_FORMS = "{form:csv|json}"

logger = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(place: ShownPlace, security: Security) -> web.Application:
    """The page.

    Args:
        place: what it shows; closed with it.
        security: who may see it.
    """
    threads = ThreadPoolExecutor(_THREADS, "holdfast-ui")
    site = Site(place, security, threads)
    app = web.Application(middlewares=[restrict, _explaining(site), security.guard])
    overview, results, jobs = OverviewPage(site), ResultsPages(site), JobsPages(site)
    advice, why, live = AdvicePage(site), WhyPage(site), Live(site)
    app.add_routes(
        [
            web.get("/", overview.show),
            web.get(f"/days.{_FORMS}", overview.days),
            web.get(f"/lately.{_FORMS}", overview.lately),
            web.get("/results", results.all),
            web.get(f"/results.{_FORMS}", results.export),
            web.get("/treemap.json", results.treemap),
            web.get("/results/{name:[0-9a-f-]+}", results.one),
            web.get("/results/{name:[0-9a-f-]+}/plan", results.drawing),
            web.get(
                "/results/{name:[0-9a-f-]+}/{table:columns|partitions|sources|uses}." + _FORMS,
                results.part,
            ),
            web.post("/results/{name:[0-9a-f-]+}/{action:pin|unpin|release|verify}", results.act),
            web.get("/jobs", jobs.all),
            web.get(f"/jobs.{_FORMS}", jobs.export),
            web.get("/jobs/{id:[0-9a-f]+}", jobs.one),
            web.get("/jobs/{id:[0-9a-f]+}/graph", jobs.drawing),
            web.get("/jobs/{id:[0-9a-f]+}/vertices." + _FORMS, jobs.vertices),
            web.get("/advice", advice.show),
            web.get(f"/advice.{_FORMS}", advice.export),
            web.get(f"/unused.{_FORMS}", advice.export_unused),
            web.get("/why", why.show),
            web.get(f"/why.{_FORMS}", why.export),
            web.get("/events", live.stream),
            web.get("/login", _log_in_page(site)),
            web.post("/login", _log_in(site)),
            web.static("/static", _STATIC),
        ]
    )

    async def look_for_jobs(_: web.Application) -> None:
        if place.jobs is not None:
            # Nobody waits for it: the first one who looks at them doesn't either.
            threads.submit(place.jobs.jobs)

    app.on_startup.append(look_for_jobs)
    app.on_shutdown.append(live.close)

    async def close(_: web.Application) -> None:
        threads.shutdown(wait=False, cancel_futures=True)
        place.close()

    app.on_cleanup.append(close)
    return app


def _explaining(site: Site) -> Middleware:
    """What goes wrong is said on a page, in the words of whoever noticed it."""

    @web.middleware
    async def explain(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPRedirection:
            raise
        except web.HTTPException as error:
            values = {"title": error.reason, "why": error.text or ""}
            return site.page(request, "error", values, status=error.status)
        except CatalogError as error:
            values = {"title": "The catalog can't be read", "why": str(error)}
            return site.page(request, "error", values, status=503)
        except (HoldfastError, OSError) as error:
            logger.warning("%s can't be shown", request.path, exc_info=True)
            values = {"title": "This can't be shown", "why": str(error)}
            return site.page(request, "error", values, status=500)

    return explain


def _log_in_page(site: Site) -> Handler:
    async def show(request: web.Request) -> web.StreamResponse:
        if site.security.is_known(request):
            raise web.HTTPSeeOther("/")
        return site.page(request, "login", {"is_wrong": False})

    return show


def _log_in(site: Site) -> Handler:
    async def log_in(request: web.Request) -> web.StreamResponse:
        form = await request.post()
        given = form.get("token", "")
        session = await site.security.log_in(given if isinstance(given, str) else "")
        if session is None:
            return site.page(request, "login", {"is_wrong": True}, status=403)
        response = web.HTTPSeeOther("/")
        site.security.remember(response, session)
        return response

    return log_in

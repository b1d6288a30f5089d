"""What happens right now, sent to all who look at the page (server-sent events)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from contextlib import suppress
from typing import Any

from aiohttp import web

from holdfast.catalog.reading.activity import Happening
from holdfast.cli.amounts import size
from holdfast.cli.ui.place import ExecutorState
from holdfast.cli.ui.rendering import spent
from holdfast.cli.ui.site import Site
from holdfast.errors import CatalogError
from holdfast.highavailability.job_index import JobSummary
from holdfast.last_used import put

_LOOK_SECONDS = 0.25
_EXECUTORS_EACH = 3
_MOST = 50
_REMEMBERED = 5_000
_BEAT_SECONDS = 15.0

logger = logging.getLogger(__name__)


class Live:
    """Looks several times a second for as long as anybody looks at the page.

    Args:
        site: what all pages share.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._listeners: set[asyncio.Queue[tuple[str, dict[str, Any]]]] = set()
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._has_looked = asyncio.Event()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Sends what happens until the other side has enough."""
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        queue: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue(_MOST * 4)
        self._listeners.add(queue)
        if self._task is None or self._task.done():
            self._has_looked.clear()
            self._task = asyncio.create_task(self._look())
        try:
            # All that differs from what was seen so far is told to who sees an open connection.
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._has_looked.wait(), _BEAT_SECONDS)
            await response.prepare(request)
            await response.write(b"retry: 1000\n\n")
            while True:
                try:
                    kind, told = await asyncio.wait_for(queue.get(), _BEAT_SECONDS)
                except asyncio.TimeoutError:
                    # Who is gone without a word is noticed.
                    await response.write(b": still there\n\n")
                    continue
                await response.write(f"event: {kind}\ndata: {json.dumps(told)}\n\n".encode())
        except (ConnectionResetError, asyncio.CancelledError):
            pass
        finally:
            self._listeners.discard(queue)
        return response

    async def close(self, _: web.Application) -> None:
        """Looks no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _look(self) -> None:
        jobs: dict[str, str] | None = None
        executors: dict[str, str] | None = None
        is_first, turn = True, 0
        while self._listeners:
            for happening in await self._site.aside(self._lately):
                if self._is_new(happening.id) and not is_first:
                    self._send("happening", _told(happening))
            jobs = await self._jobs(jobs)
            if turn % _EXECUTORS_EACH == 0:
                executors = await self._executors(executors)
            is_first, turn = False, turn + 1
            self._has_looked.set()
            await asyncio.sleep(_LOOK_SECONDS)

    def _lately(self) -> list[Happening]:
        nothing: list[Happening] = []
        try:
            found = self._site.place.ask(lambda catalog: catalog.reading.lately(_MOST), nothing)
        except CatalogError as error:
            logger.debug("the catalog can't be read: %s", error)
            return []
        return list(reversed(found))

    def _is_new(self, happening_id: str) -> bool:
        is_new = happening_id not in self._seen
        put(self._seen, happening_id, None, _REMEMBERED)
        return is_new

    async def _jobs(self, before: dict[str, str] | None) -> dict[str, str] | None:
        index = self._site.place.jobs
        if index is None:
            return None
        try:
            found = await self._site.aside(index.jobs)
        except OSError as error:
            logger.debug("jobs can't be listed: %s", error)
            return before
        now = {job.id: _job_state(job) for job in found}
        for job in found:
            if before is not None and before.get(job.id) != now[job.id]:
                name = job.name or job.id[:8]
                self._send("job", {"id": job.id, "name": name, "text": now[job.id]})
        return now

    async def _executors(self, before: dict[str, str] | None) -> dict[str, str] | None:
        if not self._site.place.options.executors:
            return None
        found = await self._site.aside(self._site.place.executors)
        now = {each.address: _executor_state(each) for each in found}
        for address, state in now.items():
            if before is not None and before.get(address) != state:
                self._send("executor", {"address": address, "text": state})
        return now

    def _send(self, kind: str, told: dict[str, Any]) -> None:
        for queue in self._listeners:
            # Who doesn't take it in time sees it with the next page.
            with suppress(asyncio.QueueFull):
                queue.put_nowait((kind, told))


def _told(happening: Happening) -> dict[str, Any]:
    details = {
        "kept": f"{size(happening.bytes)}, produced in {spent(happening.seconds)}",
        "read": f"saved about {spent(happening.seconds)}",
    }
    return {
        "kind": happening.kind.value,
        "name": happening.name,
        "computes": happening.computes,
        "user": happening.user,
        "moment": happening.moment,
        "text": details.get(happening.kind.value, happening.why or ""),
    }


def _job_state(job: JobSummary) -> str:
    start = f", start {job.starts}" if job.starts > 1 else ""
    return f"{job.state.value}{start}, {job.done:,} partitions done"


def _executor_state(executor: ExecutorState) -> str:
    if executor.failure is not None:
        return executor.failure
    return f"task executor {executor.address} answers"

"""Jobs that are recorded for recovery, and what each start of one has done."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from aiohttp import web

from holdfast.cli.jobs.as_json import listed
from holdfast.cli.jobs.progress import Progress
from holdfast.cli.ui.exports import drawn, exported
from holdfast.cli.ui.job_drawing import VertexRow, job_drawing
from holdfast.cli.ui.paging import ON_A_PAGE, page_number, paged
from holdfast.cli.ui.site import Site
from holdfast.highavailability.job_directory import JobDirectory
from holdfast.highavailability.job_index import JobSummary
from holdfast.highavailability.job_listing import JobState, KnownJob, known_jobs
from holdfast.highavailability.job_timeline import JobTimeline, job_timeline


class JobsPages:
    """`/jobs` and what is below it.

    Args:
        site: what all pages share.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    async def all(self, request: web.Request) -> web.Response:
        """A page of the table."""
        state = request.query.get("state", "")
        text = request.query.get("text", "").strip().lower()
        jobs, failure = await self._site.aside(self._jobs, state, text)
        number = page_number(request.query)
        begin = (number - 1) * ON_A_PAGE
        shown = jobs[begin : begin + ON_A_PAGE]
        values = {
            "root": self._site.place.options.jobs,
            "failure": failure,
            "jobs": shown,
            "total": len(jobs),
            **paged(number, len(jobs)),
            "state": state,
            "states": [each.value for each in JobState],
            "text": request.query.get("text", ""),
        }
        return self._site.page(request, "jobs", values)

    async def export(self, request: web.Request) -> web.Response:
        """All jobs, as CSV or JSON."""
        text = request.query.get("text", "").strip().lower()
        jobs, _ = await self._site.aside(self._jobs, request.query.get("state", ""), text)
        rows = await self._site.aside(self._listed, {job.id for job in jobs})
        return exported(rows, request.match_info["form"], "jobs")

    async def drawing(self, request: web.Request) -> web.Response:
        """A job's vertices as a picture: what reads what."""
        found = await self._site.aside(self._found, request.match_info["id"])
        if found is None or not found[2]:
            return self._missing(request)
        job, _, vertices = found
        title = job.job_id.hex if job.record is None else job.record.name
        return drawn(title, job_drawing(vertices))

    async def vertices(self, request: web.Request) -> web.Response:
        """A job's vertices, as CSV or JSON."""
        found = await self._site.aside(self._found, request.match_info["id"])
        if found is None:
            return self._missing(request)
        rows = [asdict(each) for each in found[2]]
        return exported(rows, request.match_info["form"], "vertices")

    async def one(self, request: web.Request) -> web.Response:
        """A job, with a bar for each of its vertices."""
        found = await self._site.aside(self._found, request.match_info["id"])
        if found is None:
            return self._missing(request)
        job, timeline, vertices = found
        decided = [each.all for each in vertices]
        values = {
            "job": job,
            "whole": timeline.whole,
            "progress": await self._site.aside(Progress.of, job.record),
            "timeline": timeline,
            "vertices": vertices,
            "done": sum(each.done for each in vertices),
            "all": None if None in decided else sum(each or 0 for each in decided),
        }
        return self._site.page(request, "job", values)

    def _found(self, prefix: str) -> tuple[KnownJob, JobTimeline, list[VertexRow]] | None:
        index = self._site.place.jobs
        job = None if index is None else index.job(prefix)
        if job is None:
            return None
        timeline = job_timeline(JobDirectory(job.directory))
        return job, timeline, vertex_rows(job, timeline)

    def _missing(self, request: web.Request) -> web.Response:
        prefix = request.match_info["id"]
        return self._site.missing(request, f"No job {prefix} is recorded, or there are several.")

    def _listed(self, chosen: Collection[str]) -> list[dict[str, Any]]:
        root = self._site.place.options.jobs
        if root is None or not chosen:
            return []
        now = datetime.now(timezone.utc)
        return [listed(job, now) for job in known_jobs(root) if job.job_id.hex in chosen]

    def _jobs(self, state: str, text: str) -> tuple[list[JobSummary], str | None]:
        index = self._site.place.jobs
        if index is None:
            return [], None
        try:
            jobs = index.jobs()
        except OSError as error:
            return [], f"{index.root}: can't be listed: {error.strerror or error}"
        return [job for job in jobs if _fits(job, state, text)], None


def vertex_rows(job: KnownJob, timeline: JobTimeline) -> list[VertexRow]:
    """What is shown of each vertex of a job.

    Args:
        job: as it is recorded.
        timeline: what its events say.
    """
    known = {} if job.record is None else dict(job.record.vertices)
    by_dataset = {each.dataset: each for each in timeline.vertices if each.dataset is not None}
    rows = [
        VertexRow.of(dataset, vertex, by_dataset.pop(dataset, None))
        for dataset, vertex in known.items()
    ]
    unnamed = (
        each for each in timeline.vertices if each.dataset is None or each.dataset in by_dataset
    )
    return [*rows, *(VertexRow.of(each.dataset, None, each) for each in unnamed)]


def _fits(job: JobSummary, state: str, text: str) -> bool:
    if state and job.state.value != state:
        return False
    return not text or text in (job.name or "").lower() or job.id.startswith(text)

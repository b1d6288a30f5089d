"""What all pages share: what is looked at, who may do what, and how a page is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from aiohttp import web

from holdfast.cli.ui.place import ShownPlace
from holdfast.cli.ui.rendering import page
from holdfast.cli.ui.security import Security

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Site:
    """What all pages share.

    Attributes:
        place: what is looked at.
        security: who may see it, and press buttons.
        threads: where the catalog and files are read.
    """

    place: ShownPlace
    security: Security
    threads: ThreadPoolExecutor

    async def aside(self, work: Callable[..., T], *arguments: Any) -> T:
        """Does what may take a moment where it holds up nobody else."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, work, *arguments)

    def page(
        self, request: web.Request, name: str, values: Mapping[str, Any], *, status: int = 200
    ) -> web.Response:
        """A page, with what each of them has.

        Args:
            request: which is answered.
            name: of the template.
            values: what it shows.
            status: of the response.
        """
        common = {
            "section": name,
            "place": self.place.name,
            "csrf": self.security.csrf(request),
            "is_read_only": self.security.is_read_only,
            "query": dict(request.query),
        }
        return page(name, {**common, **values}, status=status)

    def missing(self, request: web.Request, what: str) -> web.Response:
        """A page that says that something isn't there."""
        return self.page(request, "error", {"title": "Not found", "why": what}, status=404)

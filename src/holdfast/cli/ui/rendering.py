"""Pages from templates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from functools import cache
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from holdfast.catalog.audience import Audience
from holdfast.cli.amounts import count, size
from holdfast.cli.terminal import duration
from holdfast.version import __version__

_SHORT = 12


@cache
def templates() -> Environment:
    """All templates. Whatever is put into them is text, never HTML."""
    made = Environment(
        loader=PackageLoader("holdfast.cli.ui"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "size": size,
        "duration": spent,
        "ago": ago,
        "moment": moment,
        "count": count,
        "number": lambda number: f"{number:,}",
        "percent": lambda share: "–" if share is None else f"{share:.0%}",
        "short": lambda text: text[:_SHORT],
        "readers": readers,
        "changed": changed,
    }
    made.globals["version"] = __version__
    return made


def page(name: str, values: Mapping[str, Any], *, status: int = 200) -> web.Response:
    """A page.

    Args:
        name: of its template, without `.html`.
        values: what it shows.
        status: of the response.
    """
    text = templates().get_template(f"{name}.html").render(values)
    return web.Response(text=text, content_type="text/html", status=status)


def spent(seconds: float | None) -> str:
    """How long something took.

    >>> spent(0.25), spent(75.0), spent(None)
    ('0.2 s', '1 min 15 s', '–')
    """
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    if seconds < 86_400:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"
    return f"{int(seconds // 86_400)} d {int(seconds % 86_400 // 3600)} h"


def ago(moment: float | datetime | None) -> str:
    """How long ago something was.

    >>> ago(None)
    '–'
    """
    if moment is None:
        return "–"
    if isinstance(moment, datetime):
        moment = moment.timestamp()
    return f"{duration(datetime.now(timezone.utc).timestamp() - moment)} ago"


def moment(when: float | datetime | None) -> str:
    """A time in ISO 8601, UTC.

    >>> moment(0.0)
    '1970-01-01 00:00:00 UTC'
    """
    if when is None:
        return "–"
    if not isinstance(when, datetime):
        when = datetime.fromtimestamp(when, timezone.utc)
    return f"{when.astimezone(timezone.utc):%F %T} UTC"


def readers(audience: Audience) -> str:
    """Who may read a result, for people."""
    return {
        Audience.NOBODY: "its program alone",
        Audience.USER: "its owner",
        Audience.GROUP: "its group, where they may read its sources",
        Audience.ALL: "all users who may read its sources",
    }[audience]


def changed(query: Mapping[str, str], **changes: object) -> str:
    """A query string with some of its values changed, or left out where they are None.

    >>> changed({"sort": "used", "page": "3"}, sort="size", page=None)
    '?sort=size'
    """
    whole = {**query, **changes}
    return "?" + urlencode({name: value for name, value in whole.items() if value is not None})

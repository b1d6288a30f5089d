"""Tables as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def exported(rows: Iterable[Mapping[str, Any]], form: str, name: str) -> web.Response:
    """Rows as a file.

    Args:
        rows: all with the same keys.
        form: `csv` or `json`.
        name: of the file, without its ending.
    """
    found = list(rows)
    if form == "json":
        return web.json_response(found, dumps=lambda each: json.dumps(each, indent=1))
    text = io.StringIO()
    if found:
        writer = csv.DictWriter(text, list(found[0]))
        writer.writeheader()
        writer.writerows({key: _cell(value) for key, value in row.items()} for row in found)
    disposition = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return web.Response(text=text.getvalue(), content_type="text/csv", headers=disposition)


def drawn(svg: str) -> web.Response:
    """A picture.

    Args:
        svg: an `<svg>` element.
    """
    policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return web.Response(text=svg, content_type="image/svg+xml", headers=policy)


def _cell(value: Any) -> Any:
    if isinstance(value, (list, tuple, dict)):
        value = json.dumps(value)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value

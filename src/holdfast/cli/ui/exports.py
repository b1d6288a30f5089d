"""Tables as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from aiohttp import web

from holdfast.cli.ui.security import FRAME_ANCESTORS

# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_DRAWS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
    f"style-src 'self' 'unsafe-inline'; {FRAME_ANCESTORS}"
}
_DRAWING = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<script src="/static/vendor/mermaid.tiny.js" defer></script>
<script src="/static/drawing.js" defer></script>
</head>
<body><pre class="mermaid">
{mermaid}
</pre></body>
</html>
"""


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


def drawn(title: str, mermaid: str) -> web.Response:
    """A picture, as a page of its own, as what draws it makes styles.

    Args:
        title: what it shows.
        mermaid: as Mermaid's text.
    """
    page = _DRAWING.format(title=escape(title), mermaid=escape(mermaid))
    return web.Response(text=page, content_type="text/html", headers=_DRAWS)


def _cell(value: Any) -> Any:
    if isinstance(value, (list, tuple, dict)):
        value = json.dumps(value)
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value

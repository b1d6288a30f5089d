"""Tables page by page."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

ON_A_PAGE = 50
_LAST = 10**9


def page_number(query: Mapping[str, str]) -> int:
    """Which page a URL asks for, from 1; the first one where it says that wrongly.

    Args:
        query: of the URL.

    >>> page_number({"page": "3"}), page_number({"page": "-1"}), page_number({"page": "x"})
    (3, 1, 1)
    """
    with suppress(ValueError):
        return max(1, min(int(query.get("page", "1")), _LAST))
    return 1


def paged(number: int, total: int) -> dict[str, Any]:
    """What is shown of a page's place among all.

    Args:
        number: of the page, from 1.
        total: how many rows there are on all pages.
    """
    return {"number": number, "pages": max(1, -(-total // ON_A_PAGE))}

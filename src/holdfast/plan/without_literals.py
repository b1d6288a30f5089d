"""Plans of which it doesn't count which literals they have."""

from __future__ import annotations

from typing import Any

from holdfast.plan.document import EXPRESSIONS

_LITERAL = EXPRESSIONS + "Literal"


def without_value(part: dict[str, Any]) -> dict[str, Any] | None:
    """A literal with nothing in the place of its value; its type stays. None for anything else.

    See `holdfast.plan.rewritten.rewritten`.

    >>> without_value({"c": _LITERAL, "f": [7, {"type": "integer"}], "o": []})["f"]
    [None, {'type': 'integer'}]
    """
    return {**part, "f": [None, *part["f"][1:]]} if part.get("c") == _LITERAL else None

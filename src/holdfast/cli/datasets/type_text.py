"""Spark's types, as people write them."""

from __future__ import annotations

from typing import Any

_IN_SQL = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def type_text(data_type: Any) -> str:
    """A type as Spark's SQL writes it.

    Args:
        data_type: Spark's JSON of it.

    >>> type_text({"type": "array", "elementType": "long", "containsNull": True})
    'array<bigint>'
    """
    match data_type:
        case str():
            return _IN_SQL.get(data_type, data_type)
        case {"type": "struct", "fields": [*fields]}:
            inner = (f"{field['name']}:{type_text(field['type'])}" for field in fields)
            return f"struct<{','.join(inner)}>"
        case {"type": "array", "elementType": element}:
            return f"array<{type_text(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{type_text(key)},{type_text(value)}>"
        case {"type": "udt", "sqlType": stored}:
            return type_text(stored)
    return str(data_type)

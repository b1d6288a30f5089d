"""Hashes of rows, as SQL: equal rows have equal ones, and others do not but by chance.

Spark's own `xxhash64` passes over nulls, takes -0.0 for 0.0, strings of a collation for what they
are equal to, and arrays for what is in them; it refuses maps. So each value is hashed by itself,
with what it would pass over: 64 bits that differ for other values with a chance of 1 in 2^64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Of a value that is null: any number will do that is not likely to be another one's hash.
_NULL = "-3074457345618258603L"
_FLOATS = frozenset({"float", "double"})
# Numbers are equal that differ by less than this share of themselves, or of 1 where that is more:
# what is left of large numbers that cancel each other out is not far from 0, and no more than that.
_STEPS = {"float": "1E5D", "double": "1E9D"}


def positional_type(data_type: Any) -> Any:
    """A type with the fields of structs called by their place, f0 and so on.

    Args:
        data_type: Spark's JSON of the type.

    Returns:
        what values can be cast to without being changed.

    >>> field = {"name": "a.b", "type": "long", "nullable": False, "metadata": {}}
    >>> positional_type({"type": "struct", "fields": [field]})["fields"][0]["name"]
    'f0'
    """
    if not isinstance(data_type, dict):
        return data_type
    match data_type["type"]:
        case "struct":
            return {
                "type": "struct",
                "fields": [
                    {
                        "name": f"f{index}",
                        "type": positional_type(field["type"]),
                        "nullable": True,
                        "metadata": {},
                    }
                    for index, field in enumerate(data_type["fields"])
                ],
            }
        case "array":
            element = positional_type(data_type["elementType"])
            return {"type": "array", "elementType": element, "containsNull": True}
        case "map":
            return {
                "type": "map",
                "keyType": positional_type(data_type["keyType"]),
                "valueType": positional_type(data_type["valueType"]),
                "valueContainsNull": True,
            }
    return data_type


def has_floats(data_type: Any) -> bool:
    """Whether there are floating-point numbers in values of a type.

    Args:
        data_type: Spark's JSON of the type.

    >>> has_floats({"type": "array", "elementType": "double", "containsNull": True})
    True
    """
    if isinstance(data_type, str):
        return data_type in _FLOATS
    match data_type["type"]:
        case "struct":
            return any(has_floats(field["type"]) for field in data_type["fields"])
        case "array":
            return has_floats(data_type["elementType"])
        case "map":
            return has_floats(data_type["keyType"]) or has_floats(data_type["valueType"])
    return False


def row_hash(columns: Sequence[tuple[str, Any]], rounding: float | None = None) -> str:
    """A SQL expression that hashes a row.

    Args:
        columns: the name, which needs no quotes, and the `positional_type` of each column.
        rounding: None where every bit of floating-point numbers counts; else they are rounded, and
            this, from 0 to 1, moves the bounds between those that are rounded up and down.

    >>> row_hash([("c0", "long")])
    'xxhash64(if(isnull(c0), -3074457345618258603L, xxhash64(c0)))'
    """
    return _joined([_value(name, data_type, rounding, 0) for name, data_type in columns])


def _joined(hashes: list[str]) -> str:
    return f"xxhash64({', '.join(hashes or [_NULL])})"


def _value(value: str, data_type: Any, rounding: float | None, depth: int) -> str:
    return f"if(isnull({value}), {_NULL}, {_not_null(value, data_type, rounding, depth)})"


def _not_null(value: str, data_type: Any, rounding: float | None, depth: int) -> str:
    if isinstance(data_type, str):
        return _simple(value, data_type, rounding)
    item = f"x{depth}"
    match data_type["type"]:
        case "struct":
            return _joined(
                [
                    _value(f"{value}.{field['name']}", field["type"], rounding, depth)
                    for field in data_type["fields"]
                ]
            )
        case "array":
            element = _value(item, data_type["elementType"], rounding, depth + 1)
            return f"xxhash64(size({value}), transform({value}, {item} -> {element}))"
        case "map":
            entry = _joined(
                [
                    _value(f"{item}.key", data_type["keyType"], rounding, depth + 1),
                    _value(f"{item}.value", data_type["valueType"], rounding, depth + 1),
                ]
            )
            # The order of a map's entries means nothing.
            entries = f"transform(map_entries({value}), {item} -> {entry})"
            return f"xxhash64(size({value}), sort_array({entries}))"
    return f"xxhash64({value})"


def _simple(value: str, data_type: str, rounding: float | None) -> str:
    if data_type in _FLOATS:
        if rounding is None:
            return f"xxhash64({value}, if({value} = 0, cast({value} as string), null))"
        # Steps that are even near 0, and a share of the number far from it.
        double = f"cast({value} as double)"
        scaled = f"signum({double}) * log1p(abs({double})) * {_STEPS[data_type]}"
        return f"xxhash64(rint({scaled} + {rounding:.6f}D))"
    if data_type.startswith(("string", "char", "varchar")):
        return f"xxhash64(cast({value} as binary))"
    if data_type == "variant":
        return f"xxhash64(cast(to_json({value}) as binary), schema_of_variant({value}))"
    return f"xxhash64({value})"

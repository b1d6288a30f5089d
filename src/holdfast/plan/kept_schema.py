"""How a table's columns are called, and what types they have, in the files that keep it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class KeptField:
    """A column in a file.

    Attributes:
        name: unique among the columns, whatever their case.
        data_type: its type as Spark's JSON, in which no struct has two fields whose names differ
            by case alone.
    """

    name: str
    data_type: Any


def kept_fields(columns: list[tuple[str, Any]], reserved: tuple[str, ...] = ()) -> list[KeptField]:
    """Names and types under which columns can be written to Parquet and read back.

    A column keeps its name where that is plain and unique whatever the case; else it is called by
    its place. The same goes for the fields of a struct, at any depth.

    Args:
        columns: name and type (Spark's JSON) of each column.
        reserved: names that no column may have.

    >>> [field.name for field in kept_fields([("a", "long"), ("A", "long"), ("b c", "long")])]
    ['a', 'c1', 'c2']
    """
    names = _unique_names([name for name, _ in columns], reserved)
    return [
        KeptField(name, kept_type(data_type))
        for name, (_, data_type) in zip(names, columns, strict=True)
    ]


def kept_type(data_type: Any) -> Any:
    """The type with the fields of structs renamed where their names clash.

    Args:
        data_type: Spark's JSON of the type.
    """
    if not isinstance(data_type, dict):
        return data_type
    match data_type["type"]:
        case "struct":
            fields = data_type["fields"]
            names = [field["name"] for field in fields]
            if len({name.casefold() for name in names}) < len(names):
                names = _unique_names(names, ())
            return {
                "type": "struct",
                "fields": [
                    {**field, "name": name, "type": kept_type(field["type"])}
                    for name, field in zip(names, fields, strict=True)
                ],
            }
        case "array":
            return {**data_type, "elementType": kept_type(data_type["elementType"])}
        case "map":
            return {
                **data_type,
                "keyType": kept_type(data_type["keyType"]),
                "valueType": kept_type(data_type["valueType"]),
            }
    # A user-defined type is written as the type that it stands for, by Spark.
    return data_type


def _unique_names(names: list[str], reserved: tuple[str, ...]) -> list[str]:
    taken = {name.casefold() for name in reserved}
    kept: list[str] = []
    # Plain names first, so that none of them is taken by a column that is called by its place.
    plain: set[int] = set()
    for index, name in enumerate(names):
        if _PLAIN.fullmatch(name) and name.casefold() not in taken:
            taken.add(name.casefold())
            plain.add(index)
    for index, name in enumerate(names):
        if index in plain:
            kept.append(name)
            continue
        replacement, suffix = f"c{index}", 0
        while replacement.casefold() in taken:
            suffix += 1
            replacement = f"c{index}_{suffix}"
        taken.add(replacement)
        kept.append(replacement)
    return kept

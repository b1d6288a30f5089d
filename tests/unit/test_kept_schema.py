"""Columns get names that are distinct for any Parquet reader."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.plan.kept_schema import kept_fields, kept_type

RESERVED = ("holdfast_position", "holdfast_filler")

# Names that are close to each other, to our own, and to those by place.
CLOSE = "a A c0 C0 c1 c1_1 a.b é É ß ss İ i̇ ſ s holdfast_position HOLDFAST_FILLER _metadata ` 0"
NAMES = st.one_of(st.sampled_from(["", " ", *CLOSE.split()]), st.text(max_size=4))


def struct(*fields: tuple[str, Any]) -> dict[str, Any]:
    rest = {"nullable": True, "metadata": {}}
    fields_of_it = [{"name": name, "type": data_type, **rest} for name, data_type in fields]
    return {"type": "struct", "fields": fields_of_it}


TYPES = st.recursive(
    st.sampled_from(["long", "string", {"type": "udt", "class": "x", "sqlType": "double"}]),
    lambda inner: st.one_of(
        st.lists(st.tuples(NAMES, inner), min_size=1, max_size=4).map(lambda each: struct(*each)),
        inner.map(lambda each: {"type": "array", "elementType": each, "containsNull": True}),
        inner.map(lambda each: {"type": "map", "keyType": each, "valueType": each}),
    ),
    max_leaves=12,
)


def structs_of(data_type: Any) -> list[list[str]]:
    """The field names of every struct in a type."""
    if not isinstance(data_type, dict):
        return []
    if data_type["type"] == "struct":
        names = [field["name"] for field in data_type["fields"]]
        return [names, *(each for f in data_type["fields"] for each in structs_of(f["type"]))]
    inner = ("elementType", "keyType", "valueType")
    return [each for key in inner if key in data_type for each in structs_of(data_type[key])]


def without_names(data_type: Any) -> Any:
    if isinstance(data_type, list):
        return [without_names(each) for each in data_type]
    if isinstance(data_type, dict):
        return {key: without_names(value) for key, value in data_type.items() if key != "name"}
    return data_type


def is_plain(name: str) -> bool:
    return name.isascii() and name[:1].isalpha() and name.replace("_", "").isalnum()


@given(st.lists(NAMES, max_size=12))
def test_names_are_plain_and_unique_in_any_case(names: list[str]) -> None:
    def kept_names(names: list[str]) -> list[str]:
        return [field.name for field in kept_fields([(name, "long") for name in names], RESERVED)]

    kept = kept_names(names)
    assert len(kept) == len(names) and all(map(is_plain, kept))
    # Names that have been made plain need no further change.
    assert kept_names(kept) == kept
    for fold in (str.lower, str.upper, str.casefold):
        assert len({fold(name) for name in (*kept, *RESERVED)}) == len(names) + len(RESERVED)
    # The first of a plain name keeps it.
    seen = {*RESERVED}
    for name, as_kept in zip(names, kept, strict=True):
        if is_plain(name) and name.lower() not in seen:
            assert as_kept == name
            seen.add(name.lower())
        else:
            assert as_kept.startswith("c")


@given(TYPES)
def test_no_struct_has_fields_that_differ_by_case_alone(data_type: Any) -> None:
    kept = kept_type(data_type)
    assert without_names(kept) == without_names(data_type)
    for before, after in zip(structs_of(data_type), structs_of(kept), strict=True):
        assert len({name.casefold() for name in after}) == len(after)
        # What is clear stays.
        if len({name.casefold() for name in before}) == len(before):
            assert after == before

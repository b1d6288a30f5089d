"""Pieces of what is computed over files fill it, each pair of files once."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.file_pieces import Box, box_of, pieces, share
from holdfast.plan.file_version import FileVersion

NAMES = "abcd"


def files(source: int, names: str) -> frozenset[FileVersion]:
    return frozenset(FileVersion(f"file:/{source}/{name}", 10, 1) for name in names)


def box(*sides: str) -> Box:
    return tuple(files(source, names) for source, names in enumerate(sides))


def cells(one: Box) -> list[tuple[FileVersion, ...]]:
    return list(product(*one))


sides = st.sets(st.sampled_from(NAMES), min_size=1).map("".join)
boxes = st.tuples(sides, sides, sides).map(lambda each: box(*each))


@given(boxes, st.lists(boxes, max_size=8))
def test_pieces_fill_the_whole_and_each_pair_once(whole: Box, kept: list[Box]) -> None:
    found = pieces(whole, kept)
    covered = [cell for piece in found for cell in cells(piece.box)]
    assert len(covered) == len({*covered}) and {*covered} == {*cells(whole)}
    for piece in found:
        assert piece.kept is None or kept[piece.kept] == piece.box
    # What fits as a whole is read as a whole.
    if whole in kept:
        assert len(found) == 1
    if any(all(a <= b for a, b in zip(each, whole, strict=True)) for each in kept):
        assert found[0].kept is not None


def test_as_little_as_may_be_is_computed_apart() -> None:
    # Files came to the first source, then to the second one.
    kept = [box("ab", "a"), box("c", "a")]
    found = pieces(box("abc", "ab"), kept)
    assert len(found) == 3 and {each.kept for each in found} == {0, 1, None}
    [computed] = [each.box for each in found if each.kept is None]
    assert computed == box("abc", "b")


def test_a_source_that_can_not_be_divided_is_read_as_a_whole() -> None:
    whole = box("ab", "ab")
    all_of_it = files(0, "ab") | files(1, "ab")
    assert box_of(all_of_it, whole, (False, False)) == whole
    assert box_of(all_of_it - files(1, "b"), whole, (True, False)) is None
    assert box_of(all_of_it - files(0, "b"), whole, (True, False)) == box("a", "ab")
    # Nothing of a source: then it is another computation.
    assert box_of(files(0, "ab"), whole, (True, True)) is None
    # A file that is not there any more.
    assert box_of(all_of_it | files(0, "c"), whole, (True, True)) is None


def test_the_same_files_in_two_places_are_divided_in_both() -> None:
    same = files(0, "abc")
    assert box_of(files(0, "ab"), (same, same), (True, True)) == (files(0, "ab"), files(0, "ab"))
    assert box_of(files(0, "ab"), (same, same), (True, False)) is None


def test_shares_are_of_bytes() -> None:
    assert share(box("a", "ab"), box("abcd", "ab")) == 0.25
    assert share((frozenset(),), (frozenset(),)) == 1.0

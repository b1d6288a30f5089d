"""Pieces of what is computed over files fill it, each pair of files once."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.file_pieces import Box, box_of, pieces, share
from holdfast.plan.file_version import FileVersion


def files(source: int, names: str) -> frozenset[FileVersion]:
    return frozenset(FileVersion(f"file:/{source}/{name}", 10, 1) for name in names)


def box(*sides: str) -> Box:
    return tuple(files(source, names) for source, names in enumerate(sides))


sides = st.sets(st.sampled_from("abcd"), min_size=1).map("".join)
boxes = st.tuples(sides, sides, sides).map(lambda each: box(*each))


@given(boxes, st.lists(boxes, max_size=8))
def test_pieces_fill_the_whole_and_each_pair_once(whole: Box, kept: list[Box]) -> None:
    found = pieces(whole, kept)
    covered = [cell for piece in found for cell in product(*piece.box)]
    assert len(covered) == len({*covered}) and {*covered} == {*product(*whole)}
    for piece in found:
        assert piece.kept is None or kept[piece.kept] == piece.box
    # What fits as a whole is read as a whole.
    assert whole not in kept or len(found) == 1
    if any(all(a <= b for a, b in zip(each, whole, strict=True)) for each in kept):
        assert found[0].kept is not None


def test_as_little_as_may_be_is_computed_apart() -> None:
    # Files came to the first source, then to the second one.
    found = pieces(box("abc", "ab"), [box("ab", "a"), box("c", "a")])
    assert len(found) == 3 and {each.kept for each in found} == {0, 1, None}
    assert [each.box for each in found if each.kept is None] == [box("abc", "b")]


def test_a_source_that_can_not_be_divided_is_read_as_a_whole() -> None:
    whole = box("ab", "ab")
    all_of_it = files(0, "ab") | files(1, "ab")
    assert box_of(all_of_it, whole, (False, False)) == whole
    assert box_of(all_of_it - files(1, "b"), whole, (True, False)) is None
    assert box_of(all_of_it - files(0, "b"), whole, (True, False)) == box("a", "ab")
    # Nothing of a source is another computation, and so is a file that has gone.
    for other in (files(0, "ab"), all_of_it | files(0, "c")):
        assert box_of(other, whole, (True, True)) is None
    # The same files in two places are divided in both.
    same, some = files(0, "abc"), files(0, "ab")
    assert box_of(some, (same, same), (True, True)) == (some, some)
    assert box_of(some, (same, same), (True, False)) is None


def test_shares_are_of_bytes() -> None:
    assert share(box("a", "ab"), box("abcd", "ab")) == 0.25
    assert share((frozenset(),), (frozenset(),)) == 1.0

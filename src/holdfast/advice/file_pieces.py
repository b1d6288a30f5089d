"""What is computed over some files, as pieces over fewer files each, of which some are kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, permutations

from holdfast.plan.file_version import FileVersion

# In which the sides of a box are divided: of three sides all.
_MOST_ORDERS = 6

Files = frozenset[FileVersion]
Box = tuple[Files, ...]
"""The files of each source that something is computed over: as a box, it has a side for each."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of what is computed.

    Attributes:
        box: over which files.
        kept: which of what is kept it is; None where it is to be computed.
    """

    box: Box
    kept: int | None


def box_of(files: Files, whole: Box, divisible: Sequence[bool]) -> Box | None:
    """Over which of some sources' files something was computed; None where that is no part of them.

    Args:
        files: all that it was computed over.
        whole: the files of the sources.
        divisible: for each source whether its files can be read in parts.

    >>> old, new, other = (FileVersion(f"file:/{name}", 1, 1) for name in ("old", "new", "other"))
    >>> whole = (frozenset({old, new}), frozenset({other}))
    >>> box_of(frozenset({old, other}), whole, (True, True)) == (whole[0] - {new}, whole[1])
    True
    >>> box_of(frozenset({old, other}), whole, (False, True)) is None
    True
    """
    box = tuple(side & files for side in whole)
    if frozenset[FileVersion]().union(*box) != files:
        return None
    for part, side, may_divide in zip(box, whole, divisible, strict=True):
        if part != side and not (part and may_divide):
            return None
    return box


def share(box: Box, whole: Box) -> float:
    """Which part of the pairs of bytes of a box's sources is in another one inside of it."""
    return math.prod(_bytes(part) / _bytes(side) for part, side in zip(box, whole, strict=True))


def pieces(whole: Box, kept: Sequence[Box]) -> tuple[Piece, ...]:
    """Boxes that fill another one, each once: those that are kept as far as they fit.

    Of the rest there are as few as may be, as each is computed by itself.

    Args:
        whole: the box.
        kept: what is kept.

    >>> a, b, c = (FileVersion(f"file:/{name}", 1, 1) for name in "abc")
    >>> found = pieces((frozenset({a, b}), frozenset({c})), [(frozenset({a}), frozenset({c}))])
    >>> [(sorted(file.path for side in each.box for file in side), each.kept) for each in found]
    [(['file:/a', 'file:/c'], 0), (['file:/b', 'file:/c'], None)]
    """
    inside = [
        number
        for number, box in enumerate(kept)
        if all(part <= side for part, side in zip(box, whole, strict=True))
    ]
    if not inside:
        return (Piece(whole, None),)
    largest = max(inside, key=lambda number: share(kept[number], whole))
    part = kept[largest]
    others = [place for place, side in enumerate(part) if side != whole[place]]
    orders = islice(permutations(others), _MOST_ORDERS)
    found = (_around(whole, part, order, kept) for order in orders)
    rest = min(found, key=lambda each: (sum(one.kept is None for one in each), len(each)))
    return (Piece(part, largest), *rest)


def _around(whole: Box, part: Box, order: Sequence[int], kept: Sequence[Box]) -> tuple[Piece, ...]:
    """What is in a box and not in a part of it, cut off side by side."""
    found: tuple[Piece, ...] = ()
    rest = [*whole]
    for place in order:
        cut = (*rest[:place], rest[place] - part[place], *rest[place + 1 :])
        found += pieces(cut, kept)
        rest[place] = part[place]
    return found


def _bytes(files: Files) -> int:
    return sum(file.length for file in files) or 1

"""Which results are worth least, and whether a new one is worth more: WATCHMAN's LNC-RA.

The profit of a result is λ·c/s: how often it is asked for, times what it costs to compute again,
by its size. Source: Scheuermann, Shim and Vingralek, "WATCHMAN: A Data Warehouse Intelligent Cache
Manager", VLDB 1996, sections 2.1 to 2.3.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

REFERENCES = 4
"""How many of a result's last uses count: WATCHMAN's K."""
_SHORTEST_SECONDS = 1e-3


@dataclass(frozen=True, slots=True)
class Valued(Generic[K]):
    """A result, as far as its worth goes.

    Attributes:
        key: tells it from others.
        bytes: its size.
        seconds: what it took to produce out of what it was made of.
        references: when it was asked for, its production included: the last few times, ascending,
            in seconds.
        inputs: the results that it was made of; those that aren't kept have to be made again.
    """

    key: K
    bytes: int
    seconds: float
    references: tuple[float, ...]
    inputs: tuple[K, ...] = ()


@dataclass(frozen=True, slots=True)
class Room(Generic[K]):
    """How there is room for a new result.

    Attributes:
        is_admitted: whether it is to be kept.
        evicted: what has to go for it.
    """

    is_admitted: bool
    evicted: tuple[K, ...] = ()


def rate(references: Sequence[float], now: float) -> float:
    """How often something is asked for, in times a second, by the last few times.

    >>> rate((0.0, 10.0), 20.0)
    0.1
    """
    if not references:
        return 0.0
    last = references[-REFERENCES:]
    return len(last) / max(now - last[0], _SHORTEST_SECONDS)


def make_room(
    newcomer: Valued[K],
    kept: Collection[Valued[K]],
    free_bytes: int,
    now: float,
    *,
    gone: Collection[Valued[K]] = (),
    must_be_kept: bool = False,
) -> Room[K]:
    """Chooses what goes so that a new result can be kept: what is worth least, if it is worth less.

    What a result was made of is worth nothing beside it, unless that is the larger one: it is the
    same with more rows, as a rule, and the coarser groups and fewer rows of something large are
    smaller.

    Args:
        newcomer: the new result. Asked for once, it is compared by what it costs for its size.
        kept: what may be evicted.
        free_bytes: how much room there is; negative where there is too much already.
        now: the time, in seconds.
        gone: what isn't kept any more, of which something that is kept was made.
        must_be_kept: whether it is to be kept even where what has to go for it is worth more.
    """
    lacking = newcomer.bytes - free_bytes
    if lacking <= 0:
        return Room(True)
    superseded = _superseded([*kept, newcomer])
    chosen = _least_worth(kept, lacking, now, _Costs(kept, gone), superseded)
    if sum(each.bytes for each in chosen) < lacking:
        return Room(False)
    room = Room(True, tuple(each.key for each in chosen))
    if must_be_kept:
        return room
    cost, afterwards = _Costs(kept, gone), _Costs(kept, gone)
    for each in chosen:
        afterwards.is_gone(each.key)
    times = len(newcomer.references) > 1
    of_others = sum(
        (rate(each.references, now) if times else 1.0) * cost.of(each)
        for each in chosen
        if each.key not in superseded
    ) / sum(each.bytes for each in chosen)
    own = (rate(newcomer.references, now) if times else 1.0) * afterwards.of(newcomer)
    return room if own / max(newcomer.bytes, 1) > of_others else Room(False)


def _superseded(results: Collection[Valued[K]]) -> set[K]:
    """Those that others were made of which are no smaller."""
    sizes = {each.key: each.bytes for each in results}
    return {
        key for each in results for key in each.inputs if sizes.get(key, math.inf) <= each.bytes
    }


def _least_worth(
    kept: Collection[Valued[K]],
    lacking: int,
    now: float,
    cost: _Costs[K],
    superseded: Collection[K],
) -> list[Valued[K]]:
    """The least profitable ones that free enough."""

    def worth(each: Valued[K]) -> float:
        of_all = rate(each.references, now) * cost.of(each) / max(each.bytes, 1)
        return 0.0 if each.key in superseded else of_all

    left = {each.key: each for each in kept}
    chosen: list[Valued[K]] = []
    while lacking > 0 and left:
        least = min(left.values(), key=worth)
        chosen.append(left.pop(least.key))
        cost.is_gone(least.key)
        lacking -= least.bytes
    # What was chosen early may be more than is needed by now.
    for each in sorted(chosen, key=worth, reverse=True):
        if lacking + each.bytes <= 0:
            chosen.remove(each)
            lacking += each.bytes
    return chosen


class _Costs(Generic[K]):
    """What it costs to compute results again, with what they are made of where that is gone.

    Args:
        kept: the results that are there.
        gone: those that are not.
    """

    def __init__(self, kept: Collection[Valued[K]], gone: Collection[Valued[K]]) -> None:
        self._known: Mapping[K, Valued[K]] = {each.key: each for each in (*kept, *gone)}
        self._gone = {each.key for each in gone}

    def is_gone(self, key: K) -> None:
        self._gone.add(key)

    def of(self, result: Valued[K]) -> float:
        seconds, seen, waiting = result.seconds, {result.key}, list(result.inputs)
        while waiting:
            key = waiting.pop()
            if key in seen or key not in self._gone:
                continue
            seen.add(key)
            seconds += self._known[key].seconds
            waiting.extend(self._known[key].inputs)
        return seconds

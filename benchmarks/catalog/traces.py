"""Synthetic traces of queries, and caches of a budget that they are played on."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.catalog.profit import REFERENCES, Valued, make_room

RESULTS = 300
QUERIES = 3_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A query for one result: when, which, what it costs to compute, and how large it is."""

    moment: float
    key: int
    seconds: float
    bytes: int


def results(chosen: random.Random) -> list[tuple[float, int]]:
    """What results cost and how large they are: independent, and spread over three orders."""
    return [
        (10 ** chosen.uniform(-0.5, 2.5), int(10 ** chosen.uniform(5, 8))) for _ in range(RESULTS)
    ]


def skewed(seed: int) -> Iterator[Asked]:
    """A few results are asked for most of the time, by Zipf's law."""
    chosen = random.Random(seed)
    of, weights = results(chosen), [1 / (rank + 1) for rank in range(RESULTS)]
    for number in range(QUERIES):
        (key,) = chosen.choices(range(RESULTS), weights)
        yield Asked(float(number), key, *of[key])


def shifting(seed: int) -> Iterator[Asked]:
    """Which ones those are changes every now and then."""
    chosen = random.Random(seed)
    of, weights = results(chosen), [1 / (rank + 1) for rank in range(RESULTS)]
    for number in range(QUERIES):
        (rank,) = chosen.choices(range(RESULTS), weights)
        key = (rank + number // (QUERIES // 8) * 37) % RESULTS
        yield Asked(float(number), key, *of[key])


def scanning(seed: int) -> Iterator[Asked]:
    """Between the usual queries somebody asks for one result after the other, each once."""
    chosen = random.Random(seed)
    of, weights = results(chosen), [1 / (rank + 1) for rank in range(RESULTS // 2)]
    scanned = RESULTS // 2
    for number in range(QUERIES):
        if number % 2:
            key, scanned = scanned, scanned + 1
            if scanned == RESULTS:
                scanned = RESULTS // 2
        else:
            (key,) = chosen.choices(range(RESULTS // 2), weights)
        yield Asked(float(number), key, *of[key])


class SimulatedCache(ABC):
    """Results under a budget of bytes."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.kept: dict[int, Asked] = {}
        self.free = budget

    @abstractmethod
    def missed(self, asked: Asked) -> None:
        """A result was computed, and may be kept."""

    @abstractmethod
    def hit(self, asked: Asked) -> None:
        """A kept result was read."""

    def keep(self, asked: Asked) -> None:
        self.kept[asked.key] = asked
        self.free -= asked.bytes
        assert self.free >= 0

    def evict(self, key: int) -> None:
        self.free += self.kept.pop(key).bytes


class Lru(SimulatedCache):
    """What was used longest ago goes."""

    def missed(self, asked: Asked) -> None:
        if asked.bytes > self.budget:
            return
        while self.free < asked.bytes:
            self.evict(next(iter(self.kept)))
        self.keep(asked)

    def hit(self, asked: Asked) -> None:
        self.kept[asked.key] = self.kept.pop(asked.key)


class Gdsf(SimulatedCache):
    """GreedyDual-Size with frequency: Cherkasova, HP Labs 1998."""

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self._age = 0.0
        self._times: dict[int, int] = {}
        self._ranks: dict[int, float] = {}

    def missed(self, asked: Asked) -> None:
        if asked.bytes > self.budget:
            return
        while self.free < asked.bytes:
            least = min(self.kept, key=self._ranks.__getitem__)
            self._age = self._ranks.pop(least)
            del self._times[least]
            self.evict(least)
        self.keep(asked)
        self.hit(asked)

    def hit(self, asked: Asked) -> None:
        times = self._times[asked.key] = self._times.get(asked.key, 0) + 1
        self._ranks[asked.key] = self._age + times * asked.seconds / asked.bytes


class Watchman(SimulatedCache):
    """The one of production, which remembers when evicted results were asked for."""

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self._asked: dict[int, tuple[float, ...]] = {}

    def missed(self, asked: Asked) -> None:
        self.hit(asked)
        room = make_room(
            self._valued(asked),
            [self._valued(each) for each in self.kept.values()],
            self.free,
            asked.moment,
        )
        if room.is_admitted:
            for key in room.evicted:
                self.evict(key)
            self.keep(asked)

    def hit(self, asked: Asked) -> None:
        before = self._asked.get(asked.key, ())
        self._asked[asked.key] = (*before, asked.moment)[-REFERENCES:]

    def _valued(self, asked: Asked) -> Valued[int]:
        return Valued(asked.key, asked.bytes, asked.seconds, self._asked[asked.key])


def saved(cache: SimulatedCache, trace: Iterator[Asked]) -> float:
    """The cost savings ratio: the cost that was saved, of the cost of all that was asked for."""
    saved_seconds = all_seconds = 0.0
    for asked in trace:
        all_seconds += asked.seconds
        if asked.key in cache.kept:
            saved_seconds += asked.seconds
            cache.hit(asked)
        else:
            cache.missed(asked)
    return saved_seconds / all_seconds

"""Which parts of past queries would have been worth keeping."""

from __future__ import annotations

import heapq
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.proposal import Proposal, StorageRates
from holdfast.advice.replay import replay
from holdfast.advice.weights import always

# Each round of the local search replays the queries for each pair of a chosen part and another one.
_MOST_SWAPPED = 12

_Place = tuple[PastQuery, PlanPart]


def choose(
    queries: Sequence[PastQuery],
    rates: StorageRates | None = None,
    *,
    budget: int | None = None,
    least_seconds: float = 0.0,
    most: int = 20,
    weight: Callable[[PastQuery], float] = always,
) -> tuple[Proposal, ...]:
    """The parts that together would have saved most, if the first query had kept each of them.

    Greedy, part by part, by what each saves beside the others (for each of its bytes, where there
    is a budget), then a local search: one goes, or another one takes its place, or that of
    several, as long as that saves more.

    Args:
        queries: that have been run, in any order.
        rates: what writing and reading costs.
        budget: how many bytes all parts may have; None for any number.
        least_seconds: how much each must save, in seconds of tasks.
        most: how many parts may be chosen.
        weight: how much it counts what a query would have saved.

    Returns:
        what saves most first.

    Source: Jindal et al., BigSubs, VLDB 2018, sections 2.2 and 4; FLIP-36, "Long Term Goal".

    >>> join = PlanPart("join", "Join", 10.0, 2**20)
    >>> counts = [PlanPart(f"count {n}", "Aggregate", 1.0, 100, (join,)) for n in range(4)]
    >>> queries = [PastQuery("a", "p", n, "count", n, 11.0, part) for n, part in enumerate(counts)]
    >>> [(each.what, each.reads, round(each.saved_seconds)) for each in choose(queries)]
    [('Join', 3, 30)]
    """
    choice = _Choice(queries, rates or StorageRates(), budget, least_seconds, most, weight)
    choice.add_greedily()
    choice.search_locally()
    return choice.proposals()


class _Choice:
    def __init__(
        self,
        queries: Sequence[PastQuery],
        rates: StorageRates,
        budget: int | None,
        least_seconds: float,
        most: int,
        weight: Callable[[PastQuery], float],
    ) -> None:
        ordered = sorted(queries, key=lambda each: each.started)
        self._rates = rates
        self._budget = budget
        self._least = least_seconds
        self._most = most
        self._weight = weight
        self._parts = _parts_by_key(ordered)
        alone = {key: self._alone(places) for key, places in self._parts.items()}
        self._candidates = {key: gain for key, gain in alone.items() if gain > least_seconds}
        # Some queries need more of the columns.
        self._bytes = {
            key: max(part.bytes for _, part in self._parts[key]) for key in self._candidates
        }
        # Others are replayed in vain.
        self._queries = [
            query
            for query in ordered
            if any(part.key in self._candidates for part in query.root.walk())
        ]
        self._chosen: set[str] = set()
        self._saved = 0.0

    def _alone(self, places: Sequence[_Place]) -> float:
        """What a part saves at most: if nothing else were kept."""
        rates = self._rates
        saved, there = 0.0, set[str]()
        for query, part in places:
            if part.generation in there:
                reading = part.seconds - part.bytes / rates.read
                saved += max(0.0, reading) * self._weight(query)
            else:
                there.add(part.generation)
                saved -= part.bytes / rates.written + part.extra_seconds
        return saved

    def add_greedily(self) -> None:
        # Beside others a part rarely saves more than alone, so few have to be looked at again.
        heap = [(-self._rank(key, gain), key, -1) for key, gain in self._candidates.items()]
        heapq.heapify(heap)
        while heap and len(self._chosen) < self._most:
            rank, key, seen = heapq.heappop(heap)
            if not self._has_room(self._chosen | {key}):
                continue
            if seen == len(self._chosen):
                if -rank <= 0:
                    break
                self._chosen.add(key)
                self._saved = self._total(self._chosen)
                continue
            gain = self._total(self._chosen | {key}) - self._saved
            if gain > self._least:
                heapq.heappush(heap, (-self._rank(key, gain), key, len(self._chosen)))

    def search_locally(self) -> None:
        improved = True
        while improved:
            improved = False
            for tries in self._neighbours():
                totals = [(self._total(each), each) for each in tries if self._has_room(each)]
                saved, best = max(totals, key=lambda each: each[0], default=(0.0, set()))
                # Less would be for the last digits.
                if saved > self._saved + 1e-6:
                    self._chosen, self._saved = best, saved
                    improved = True
                    break

    def _neighbours(self) -> Iterator[list[set[str]]]:
        """Other choices, those that are tried together in one list."""
        others = sorted(self._candidates, key=lambda key: (-self._candidates[key], key))
        others = others[:_MOST_SWAPPED]
        for key in sorted(self._chosen, key=lambda key: (self._candidates[key], key)):
            without = self._chosen - {key}
            yield [without, *(without | {other} for other in others if other != key)]
        if self._budget is not None:
            yield [self._with_room_for(other) for other in others if other not in self._chosen]

    def _with_room_for(self, key: str) -> set[str]:
        """A part, and as many of the chosen ones as there is room for beside it."""
        found = {key}
        ranks = {each: -self._rank(each, self._candidates[each]) for each in self._chosen}
        for each in sorted(ranks, key=lambda each: (ranks[each], each)):
            if len(found) < self._most and self._has_room(found | {each}):
                found.add(each)
        return found

    def proposals(self) -> tuple[Proposal, ...]:
        outcomes = replay(self._queries, self._chosen, self._rates, self._weight)
        found = [
            Proposal(
                key,
                self._parts[key][-1][1].what,
                self._bytes[key],
                statistics.median(part.seconds for _, part in self._parts[key]),
                tuple(self._queries[place] for place in outcome.queries),
                outcome.reads,
                outcome.saved_seconds,
            )
            for key, outcome in outcomes.items()
            if outcome.reads and outcome.saved_seconds > self._least
        ]
        return tuple(sorted(found, key=lambda each: (-each.saved_seconds, each.key)))

    def _rank(self, key: str, gain: float) -> float:
        return gain if self._budget is None else gain / max(self._bytes[key], 1)

    def _has_room(self, chosen: set[str]) -> bool:
        return self._budget is None or sum(self._bytes[key] for key in chosen) <= self._budget

    def _total(self, chosen: set[str]) -> float:
        outcomes = replay(self._queries, chosen, self._rates, self._weight)
        return sum(outcome.saved_seconds for outcome in outcomes.values())


def _parts_by_key(queries: Sequence[PastQuery]) -> Mapping[str, list[_Place]]:
    """The parts that stand in several places, in the order of their queries."""
    found: dict[str, list[_Place]] = defaultdict(list)
    for query in queries:
        for part in query.root.walk():
            if part.key is not None:
                found[part.key].append((query, part))
    return {key: places for key, places in found.items() if len(places) > 1}

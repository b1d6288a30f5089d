"""Past queries once more, as if some of their parts had been kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.proposal import StorageRates
from holdfast.advice.weights import always


@dataclass
class Outcome:
    """What keeping one part comes to.

    Attributes:
        saved_seconds: of tasks; negative where it cost more than it saved.
        reads: how often it is read.
        queries: that keep or read it, by their place.
    """

    saved_seconds: float = 0.0
    reads: int = 0
    queries: list[int] = field(default_factory=list)


def replay(
    queries: Iterable[PastQuery],
    kept: Collection[str],
    rates: StorageRates,
    weight: Callable[[PastQuery], float] = always,
) -> dict[str, Outcome]:
    """What each kept part would have saved, if the first query that computes it had kept it.

    What is below a part that is read is not computed, so that no two parts are counted for the
    same tasks. What is dearer to read than to compute is computed.

    Args:
        queries: in the order in which they ran.
        kept: the keys of the parts.
        rates: what writing and reading costs.
        weight: how much it counts what a query would have saved.

    Returns:
        an outcome for each key.

    Source: Jindal et al., "Selecting Subexpressions to Materialize at Datacenter Scale" (BigSubs),
    VLDB 2018, section 2.2: no two overlapping subexpressions are used for one query.

    >>> part = PlanPart("a", "Aggregate", 10.0, 0)
    >>> queries = [PastQuery("app", "p", n, "count", float(n), 10.0, part) for n in range(3)]
    >>> replay(queries, {"a"}, StorageRates())["a"].saved_seconds
    20.0
    """
    outcomes = {key: Outcome() for key in kept}
    there: set[tuple[str, str]] = set()
    for place, query in enumerate(queries):
        waiting: list[PlanPart] = [query.root]
        while waiting:
            part = waiting.pop()
            key = part.key
            if key is not None and key in outcomes:
                outcome = outcomes[key]
                if not outcome.queries or outcome.queries[-1] != place:
                    outcome.queries.append(place)
                if (key, part.generation) not in there:
                    there.add((key, part.generation))
                    outcome.saved_seconds -= part.bytes / rates.written + part.extra_seconds
                elif (saved := part.seconds - part.bytes / rates.read) > 0:
                    outcome.saved_seconds += saved * weight(query)
                    outcome.reads += 1
                    continue
            waiting.extend(reversed(part.inputs))
    return outcomes

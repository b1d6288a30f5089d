"""Programs that are run one after the other, and compute some of the same, made from a seed."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.implicit import analyst
from benchmarks.implicit.workload import Query


def in_turn(seed: int, programs: int, queries: int) -> list[Query]:
    """What programs ask that report on the same joins.

    Args:
        seed: of the first one.
        programs: how many.
        queries: of each.
    """
    return [
        replace(query, name=f"program {number + 1}, {query.name}", is_first=place == 0)
        for number in range(programs)
        for place, query in enumerate(analyst.session(seed + number, queries))
    ]

"""The advice on past queries, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.advice.choice import choose
from holdfast.advice.learned_rates import LearnedRates
from holdfast.advice.past_query import PastQuery
from holdfast.advice.proposal import Proposal, StorageRates
from holdfast.advice.query_records import read
from holdfast.advice.storage_use import StorageUse


@dataclass(frozen=True, slots=True)
class Advice:
    """What would have been worth keeping.

    Attributes:
        queries: all that are known.
        proposals: what saves most first.
        cut_short: how many operators a log has cut short: these are like no others.
        unreadable: how many lines of logs aren't events.
        failures: why logs could not be read.
        is_of_logs: these are of Spark's logs, and not of what Holdfast has recorded.
        uses: what reading kept results took, and writing them, as Holdfast has recorded it.
    """

    queries: tuple[PastQuery, ...]
    proposals: tuple[Proposal, ...]
    cut_short: int
    unreadable: int
    failures: tuple[str, ...] = ()
    is_of_logs: bool = True
    uses: tuple[StorageUse, ...] = ()

    @property
    def applications(self) -> int:
        """How many programs the queries are of."""
        return len({query.application for query in self.queries})

    @property
    def task_seconds(self) -> float:
        """What the tasks of all queries have taken."""
        return sum(query.root.seconds for query in self.queries)

    @property
    def saved_seconds(self) -> float:
        """What all proposals together would have saved, in seconds of tasks."""
        return sum(proposal.saved_seconds for proposal in self.proposals)

    @property
    def reads(self) -> int:
        """How often what was kept unasked has been read, as far as it is known what that took."""
        return sum(not use.is_write for use in self.uses)

    @property
    def wrong_reads(self) -> int:
        """How often of these it would have taken less to compute the rows."""
        return sum(use.is_wrong for use in self.uses)

    @property
    def bytes(self) -> int:
        """What all proposals would have kept."""
        return sum(proposal.bytes for proposal in self.proposals)


@dataclass(frozen=True, slots=True)
class AdviceLimits:
    """What is not proposed.

    Attributes:
        budget: how many bytes all of it may have; None for any number.
        least_seconds: how many seconds of tasks each must save.
        most: how many proposals there may be.
    """

    budget: int | None
    least_seconds: float
    most: int

    def chosen(
        self, queries: Sequence[PastQuery], rates: StorageRates | None = None
    ) -> tuple[Proposal, ...]:
        """What of these queries would have been worth keeping."""
        return choose(
            queries, rates, budget=self.budget, least_seconds=self.least_seconds, most=self.most
        )


def advice_on_history(contents: Iterable[bytes], limits: AdviceLimits) -> Advice:
    """Says what of recorded queries would have been worth keeping.

    Args:
        contents: the records.
        limits: what is not proposed.
    """
    found = [ran for ran in map(read, contents) if ran is not None]
    queries = tuple(ran.query for ran in found)
    uses = tuple(use for ran in found for use in ran.uses)
    learned = LearnedRates()
    for use in uses:
        learned.noted(use)
    proposals = limits.chosen(queries, learned.rates)
    return Advice(queries, proposals, 0, 0, is_of_logs=False, uses=uses)

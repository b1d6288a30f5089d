"""A query that is about to run, and what is to run in its stead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.advice.asked_parts import AskedPart
from holdfast.advice.asked_sources import AskedSources
from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.rollups import Rollup
from holdfast.advice.worth_keeping import Verdict
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.session_inputs import SessionInputs
from holdfast.spark.catalyst_bridge import Query


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """A query that is about to run.

    Attributes:
        query: as it was asked, with conditions of joins in these.
        inputs: the settings that it runs under.
        parts: the topmost ones that could be kept.
        runs_as: what is run in its stead; as it was asked, where nothing is kept of it implicitly.
        forms: what that reads, or keeps, by keys of parts.
        verdicts: what becomes of its parts that aren't read, and why.
        rollups: what its aggregates are made of, where that is finer groups.
        rolled_up: the query before that was so; None where it isn't.
        alive: keys of aggregates that read what earlier queries' shuffles have left.
        sources: roughly what it reads; None where that isn't known.
    """

    query: Query
    inputs: SessionInputs
    parts: tuple[AskedPart, ...]
    runs_as: Query
    forms: Mapping[str, KeptForm] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    rollups: tuple[Rollup, ...] = ()
    rolled_up: CanonicalNode | None = None
    alive: frozenset[str] = frozenset()
    sources: AskedSources | None = None

    @property
    def is_made_of_others(self) -> bool:
        """Whether what runs is no part of the query with kept rows in its place."""
        return self.rolled_up is not None or bool(self.alive)

    @property
    def digest(self) -> str:
        """That of all of it, with the settings it runs under."""
        return self.inputs.dataset_digest(self.rolled_up or self.query.root)

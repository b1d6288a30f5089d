"""A query that has run, and what became of its parts."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.past_query import PastQuery
from holdfast.advice.rollups import Rollup
from holdfast.advice.storage_use import StorageUse
from holdfast.advice.worth_keeping import Verdict


@dataclass(frozen=True, slots=True)
class RanQuery:
    """A query that has run while what recurs was kept.

    Attributes:
        query: what it has cost.
        digest: of all of it, with the settings it ran under.
        forms: what it has read, or was to keep.
        verdicts: what was decided of its other parts, and why.
        uses: what reading took, or writing what is to be kept, as far as that can be told.
        sources: roughly what it reads, see `AskedSources`; None where that isn't known.
        questions: what it, and others before, have asked of joins that are grouped again and again.
    """

    query: PastQuery
    digest: str = ""
    forms: tuple[KeptForm, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    uses: tuple[StorageUse, ...] = ()
    questions: tuple[Rollup, ...] = ()
    sources: str | None = None

"""A query that is about to run, and what is to run in its stead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.advice.asked_parts import AskedPart
from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.worth_keeping import Verdict
from holdfast.plan.session_inputs import SessionInputs
from holdfast.spark.catalyst_bridge import Query


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """A query that is about to run.

    Attributes:
        query: as it was asked, with conditions of joins in these.
        inputs: the settings that it runs under.
        parts: the topmost ones that could be kept.
        runs_as: what is run in its stead; as it was asked, where nothing is kept of it unasked.
        forms: what that reads, or keeps, by keys of parts.
        verdicts: what becomes of its parts that aren't read, and why.
    """

    query: Query
    inputs: SessionInputs
    parts: tuple[AskedPart, ...]
    runs_as: Query
    forms: Mapping[str, KeptForm] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()

    @property
    def digest(self) -> str:
        """That of all of it, with the settings it runs under."""
        return self.inputs.dataset_digest(self.query.root)

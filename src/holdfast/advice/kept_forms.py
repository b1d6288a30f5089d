"""Which columns are kept of rows that queries need different columns of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.advice.past_query import PastQuery, PlanPart

Columns = frozenset[str]
"""What columns are of the rows that they belong to."""


@dataclass(frozen=True, slots=True)
class KeptForm:
    """Some columns of a part's rows, as they are kept.

    Attributes:
        key: of the part, see `PlanPart`.
        columns: that are kept.
        dataset: what they are called, where rows are kept that others can be made of.
    """

    key: str
    columns: Columns
    dataset: str = ""

    def serves(self, key: str | None, columns: Iterable[str]) -> bool:
        """Whether these columns of a part can be read of it."""
        return key == self.key and self.columns.issuperset(columns)


def without_served(query: PastQuery, forms: Mapping[str, Sequence[KeptForm]]) -> PastQuery:
    """A query, as if what is kept now had been read instead of computed.

    Args:
        query: that has been run, or is to be.
        forms: what is kept, by keys.
    """
    return replace(query, root=_without_served(query.root, forms))


def _without_served(part: PlanPart, forms: Mapping[str, Sequence[KeptForm]]) -> PlanPart:
    kept = forms.get(part.key or "", ())
    if any(form.serves(part.key, part.columns) for form in kept):
        return PlanPart(None, part.what, 0.0, part.bytes)
    return replace(part, inputs=tuple(_without_served(each, forms) for each in part.inputs))


def asked_columns(key: str, queries: Collection[PastQuery]) -> Columns:
    """All columns of a part that queries use.

    Args:
        key: of the part.
        queries: that have been run, or are to be.
    """
    return frozenset(
        column
        for query in queries
        for part in query.root.walk()
        if part.key == key
        for column in part.columns
    )

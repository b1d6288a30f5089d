"""What an aggregate asks for, as it is read of its expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.advice.rollups import Groups
from holdfast.plan.group_counts import OF_CONDITION, product

# A condition on them leaves about one value.
_FEW_VALUES = 64.0


@dataclass
class AskedGroups:
    """Collects by what rows are grouped, so that it can be told which groups fulfil conditions.

    All of it is SQL over columns.

    Attributes:
        by: what rows are grouped by, each with how many values it has, as far as is known.
        measures: what is computed of each group.
        compared: what conditions compare that are grouped by, in the same way.

    >>> asked = AskedGroups()
    >>> asked.add_key("city", 10.0)
    >>> asked.add_measures(["count(1)"])
    >>> asked.add_condition("size < 7", [("size", 50.0)])
    >>> asked.add_condition("day < DATE '2020-01-01'", [("day", 3650.0)])
    >>> [*asked.by], asked.compared
    (['city', 'size', "day < DATE '2020-01-01'"], {"day < DATE '2020-01-01'": {'day': 3650.0}})
    """

    by: dict[str, float | None] = field(default_factory=dict)
    measures: dict[str, None] = field(default_factory=dict)
    compared: dict[str, Mapping[str, float | None]] = field(default_factory=dict)

    def add_key(self, text: str, values: float | None) -> None:
        """Rows are grouped by something. Keys come before conditions.

        Args:
            text: an expression.
            values: how many it has.
        """
        self.by[text] = values

    def add_measures(self, texts: Iterable[str]) -> None:
        """Something is computed of each group."""
        self.measures |= dict.fromkeys(texts)

    def add_condition(self, text: str, pieces: Sequence[tuple[str, float | None]]) -> None:
        """A condition leaves rows out.

        Args:
            text: the condition.
            pieces: what it compares, each with how many values it has; one of them is empty where
                it can't be grouped by.
        """
        compared = dict(pieces)
        is_told = bool(pieces) and all(compared)
        number = product(count for piece, count in pieces if piece not in self.by)
        if is_told and number is not None and number <= _FEW_VALUES:
            self.by |= compared
            return
        self.by[text] = OF_CONDITION
        if is_told and number is not None:
            self.compared[text] = compared

    @property
    def expressions(self) -> Sequence[str]:
        """What rows are grouped by, and what conditions compare."""
        return [*self._values]

    def groups(self, ids: Mapping[str, str]) -> Groups:
        """What is asked for, by what it is of the rows.

        Args:
            ids: that, for each of the expressions and measures.
        """
        return Groups(
            {ids[each]: each for each in self.by},
            {ids[each]: each for each in self.measures},
            {ids[each]: values for each, values in self._values.items()},
            {
                ids[condition]: {ids[each]: each for each in compared}
                for condition, compared in self.compared.items()
            },
        )

    @property
    def _values(self) -> Mapping[str, float | None]:
        found = dict(self.by)
        for compared in self.compared.values():
            found |= compared
        return found

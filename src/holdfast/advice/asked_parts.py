"""Which parts of a query that is about to run could be kept, and by what others know them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from holdfast.advice.refusals import refusal
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import LOGICAL, OperatorDocument
from holdfast.plan.file_sources import all_operators
from holdfast.plan.needed_columns import NeededColumns, joins_by_equality
from holdfast.plan.observed import EVERYTHING
from holdfast.plan.own_code import runs_others_code
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.size_guess import kept_part

_FILTER = LOGICAL + "Filter"
_JOIN = LOGICAL + "Join"
# What costs something to compute, and has few rows for that.
GATHERS = frozenset(LOGICAL + name for name in ("Aggregate", "Distinct", "Deduplicate"))
"""Operators that gather rows."""
# They leave rows as they are.
_ONE_ROW_EACH = frozenset(LOGICAL + name for name in ("Project", "SubqueryAlias", "View"))
_SENSITIVE = "in doubt: the query's rows depend on which columns and conditions reach a reader"
# Computing all of a part's rows takes more in joins and shuffles, but reads the same files.
_SHARE_OF_ROWS = 0.5
_LEAST_USED = 0.01


@dataclass(frozen=True, slots=True)
class AskedPart:
    """A part of a query that could be kept.

    Attributes:
        node: the part.
        top: the node, or the highest one above it that does nothing but leave out some of its
            columns.
        key: the same for parts that compute the same rows, whatever columns of them are used.
        template: the same for parts that compute the same with whatever literals, over whatever
            versions of their files.
        columns: what the columns that the query uses are of the rows.
        used: the places among the top's columns of those that the query uses.
        places: the places of the same columns among the node's.
        extra: how much more it would take to compute all of its rows, and not those alone that
            filters above leave, as is guessed: a share of what its own work takes.
        inputs: the parts that it is made of.
    """

    node: CanonicalNode
    top: CanonicalNode
    key: str
    template: str
    columns: tuple[str, ...]
    used: tuple[int, ...]
    places: tuple[int, ...]
    extra: float
    inputs: tuple[AskedPart, ...]

    def walk(self) -> Iterator[AskedPart]:
        """The part and all below it, upper ones first."""
        waiting = [self]
        while waiting:
            part = waiting.pop()
            yield part
            waiting.extend(reversed(part.inputs))


def asked_parts(
    root: CanonicalNode,
    operators: Sequence[OperatorDocument],
    inputs: SessionInputs,
    template: Callable[[], CanonicalNode],
) -> tuple[AskedPart, ...]:
    """The topmost parts of a query that could be kept, each with those below it.

    These are joins and what gathers rows, where any program computes the same rows, in no order of
    their own, by Spark's own functions alone: what others depend on is for who caches to know. And
    no join that has no equality, whose rows multiply.

    Args:
        root: the query's canonical plan.
        operators: the plan it was made of.
        inputs: the settings that the query runs under.
        template: gives the canonical plan of the same with whatever literals, over whatever
            versions of its files.

    Source: FLIP-36, "Implementation Details", phase 3: at shuffle boundaries.
    """
    return parts_and_refusals(root, operators, inputs, template)[0]


def parts_and_refusals(
    root: CanonicalNode,
    operators: Sequence[OperatorDocument],
    inputs: SessionInputs,
    template: Callable[[], CanonicalNode],
) -> tuple[tuple[AskedPart, ...], Mapping[str, CanonicalNode]]:
    """The parts, see `asked_parts`; and joins and what gathers rows that are none.

    Returns:
        of the latter, the topmost one for each reason why it is never kept unasked.
    """
    if root.scan_sensitive:
        # Beside something kept, Spark may push other conditions down to such a reader.
        return (), {_SENSITIVE: root}
    search = _Search(root, operators, inputs, template)
    return search.below(root), search.refused


class _Search:
    def __init__(
        self,
        root: CanonicalNode,
        operators: Sequence[OperatorDocument],
        inputs: SessionInputs,
        template: Callable[[], CanonicalNode],
    ) -> None:
        self._template = template
        self._templates: dict[int, CanonicalNode] = {}
        self._nodes = {node.handle: node for node in root.walk()}
        self._needed = NeededColumns(operators)
        self._inputs = inputs
        self._operators = {each["i"]: each for each in all_operators([*operators])}
        self._runs_others_code = cache(lambda handle: runs_others_code(self._operators[handle]))
        self.refused: dict[str, CanonicalNode] = {}

    def below(self, root: CanonicalNode) -> tuple[AskedPart, ...]:
        """The topmost parts from a node on."""
        found = []
        waiting = [root]
        while waiting:
            node = waiting.pop()
            part = self._part(node)
            if part is not None:
                found.append(part)
            else:
                waiting += [*node.subqueries, *reversed(node.children)]
        return tuple(found)

    def _part(self, node: CanonicalNode) -> AskedPart | None:
        operator = self._operators[node.handle]
        left = node.children[0].output if node.children else ()
        if operator["c"] not in GATHERS and not joins_by_equality(operator, left):
            if operator["c"] == _JOIN:
                self.refused.setdefault("it joins by no equality, so that rows multiply", node)
            return None
        why = refusal(node, self._runs_others_code)
        if why is not None:
            self.refused.setdefault(why, node)
            return None
        ids = dict(zip(node.output, range(len(node.output)), strict=True))
        top = self._top(node)
        needed = self._needed.of(top.handle, top.output)
        # Where all may be used, they stay as they are.
        used = tuple(
            index for index, each in enumerate(top.output) if needed is None or each in needed
        )
        places = tuple(ids[top.output[each]] for each in used)
        if not places or len(ids) != len(node.output):
            return None
        below = [self.below(each) for each in (*node.children, *node.subqueries)]
        return AskedPart(
            node,
            top,
            self._of_rows(node),
            self._of_rows(self._as_template(node)),
            tuple(dict.fromkeys(node.columns[place].digest for place in places)),
            used,
            places,
            (1 / max(self._part_left(top.handle), _LEAST_USED) - 1) * _SHARE_OF_ROWS,
            tuple(part for each in below for part in each),
        )

    def _of_rows(self, node: CanonicalNode) -> str:
        # The same rows with other columns, which may depend on more, are the same part.
        rows = replace(node, digest=node.rows.digest, observes=EVERYTHING)
        return self._inputs.dataset_digest(rows)

    def _as_template(self, node: CanonicalNode) -> CanonicalNode:
        if not self._templates:
            self._templates = {each.handle: each for each in self._template().walk()}
        return self._templates[node.handle]

    def _top(self, node: CanonicalNode) -> CanonicalNode:
        top, columns = node, {*node.output}
        while (above := self._needed.parent(top.handle)) is not None:
            parent = self._nodes.get(above["i"])
            if above["c"] not in _ONE_ROW_EACH or parent is None or not parent.replaceable:
                break
            # What is computed, or called by another id, is not the part's own.
            if not columns.issuperset(parent.output):
                break
            top = parent
        return top

    def _part_left(self, handle: int) -> float:
        """Which part of a node's rows filters right above it leave."""
        left = 1.0
        above = self._needed.parent(handle)
        while above is not None and above["c"] in {_FILTER, *_ONE_ROW_EACH}:
            if above["c"] == _FILTER:
                left *= kept_part(above["f"][0])
            above = self._needed.parent(above["i"])
        return left

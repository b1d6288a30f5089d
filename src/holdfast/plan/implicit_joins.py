"""Joins whose conditions are written in a filter above them, as in `FROM a, b WHERE a.x = b.y`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import EXPRESSIONS, LOGICAL, OperatorDocument, Value
from holdfast.plan.file_sources import all_operators

_FILTER, _JOIN = LOGICAL + "Filter", LOGICAL + "Join"
_AND = EXPRESSIONS + "And"
_EQUALITIES = frozenset({EXPRESSIONS + "EqualTo", EXPRESSIONS + "EqualNullSafe"})
_ALL_PAIRS = frozenset({"Inner$", "Cross$"})


@dataclass(frozen=True, slots=True)
class ImplicitJoin:
    """A filter over inputs of which each has to agree with an earlier one in something.

    Attributes:
        filter: the handle of the filter.
        inputs: handles of the joined plans, in the order in which each agrees with an earlier one.
        conditions: for each input but the first the conjuncts of the filter that say so, by their
            numbers from the left.
        others: the numbers of all other conjuncts.
        in_order: whether the inputs are as they were written.
    """

    filter: int
    inputs: tuple[int, ...]
    conditions: tuple[tuple[int, ...], ...]
    others: tuple[int, ...]
    in_order: bool


def implicit_joins(
    root: CanonicalNode, operators: Sequence[OperatorDocument]
) -> tuple[ImplicitJoin, ...]:
    """The joins of a plan, subqueries included, that could be written with conditions of their own.

    Those alone in which the filter makes columns of all inputs equal to each other, so that no rows
    multiply. Columns are just compared: what is computed of them might fail on rows that another
    conjunct leaves out.

    Args:
        root: the canonical plan.
        operators: the plan it was made of.
    """
    documents = {each["i"]: each for each in all_operators([*operators])}
    found = (
        _implicit_join(node, documents)
        for node in root.walk()
        if documents[node.handle]["c"] == _FILTER
    )
    return tuple({each.filter: each for each in found if each is not None}.values())


def _implicit_join(
    node: CanonicalNode, documents: dict[int, OperatorDocument]
) -> ImplicitJoin | None:
    inputs = list(_joined(node.children[0], documents))
    conjuncts = list(_conjuncts(documents[node.handle]["f"][0]))
    owners = {column: place for place, each in enumerate(inputs) for column in each.output}
    if len(inputs) < 2 or len(owners) != sum(len(each.output) for each in inputs):
        return None
    pairs = {number: _compared(each, owners) for number, each in enumerate(conjuncts)}
    links = {number: pair for number, pair in pairs.items() if pair is not None}
    order, conditions, used = [0], [], set()
    while len(order) < len(inputs):
        added = next(
            (
                place
                for place in range(len(inputs))
                if place not in order
                and any(place in pair and pair & {*order} for pair in links.values())
            ),
            None,
        )
        if added is None:
            return None
        order.append(added)
        said = [number for number, pair in links.items() if added in pair and pair <= {*order}]
        conditions.append(tuple(said))
        used.update(said)
    return ImplicitJoin(
        node.handle,
        tuple(inputs[place].handle for place in order),
        tuple(conditions),
        tuple(number for number in range(len(conjuncts)) if number not in used),
        order == sorted(order),
    )


def _joined(node: CanonicalNode, documents: dict[int, OperatorDocument]) -> Iterator[CanonicalNode]:
    """What joins that give all pairs of rows are made of, from the left."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        document = documents[each.handle]
        if document["c"] == _JOIN and _gives_all_pairs(document["f"]):
            waiting.extend(reversed(each.children))
        else:
            yield each


def _gives_all_pairs(arguments: list[Value]) -> bool:
    return arguments[2]["c"].rpartition(".")[2] in _ALL_PAIRS and arguments[3] is None


def _conjuncts(condition: Value) -> Iterator[Value]:
    """Those of a condition, from the left."""
    waiting = [condition]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict) and each.get("c") == _AND:
            waiting.extend(reversed(each["f"]))
        else:
            yield each


def _compared(conjunct: Value, owners: dict[int, int]) -> frozenset[int] | None:
    """Of which two inputs columns are equal, if a conjunct says so; None otherwise."""
    if not isinstance(conjunct, dict) or conjunct.get("c") not in _EQUALITIES:
        return None
    sides = {owners.get(each["a"]) if "a" in each else None for each in conjunct["f"][:2]}
    if None in sides or len(sides) != 2:
        return None
    return frozenset(each for each in sides if each is not None)

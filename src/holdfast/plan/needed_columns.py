"""Which columns of a plan's nodes are used above them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from holdfast.plan.document import EXPRESSIONS, LOGICAL, OperatorDocument, Value, parts_of

_PROJECT = LOGICAL + "Project"
# What they put out is written in them: no column of their inputs goes on unless it is named.
_NAMES_ITS_OUTPUT = frozenset(LOGICAL + name for name in ("Aggregate", "Project"))
# They put out the columns of their inputs, and do nothing with those that they don't name.
_PASSES_COLUMNS = frozenset(
    LOGICAL + name
    for name in (
        "Filter",
        "GlobalLimit",
        "Join",
        "LocalLimit",
        "Repartition",
        "ResolvedHint",
        "Sort",
        "SubqueryAlias",
        "View",
    )
)


class NeededColumns:
    """Which columns of a plan's nodes are used above them, by their ids.

    Args:
        operators: the plan's operators in pre-order, as `holdfast.plan.document` describes them.

    >>> a, b = {"a": 1}, {"a": 2}
    >>> def operator(handle, name, inputs, *arguments):
    ...     return {"i": handle, "c": LOGICAL + name, "n": inputs, "t": None, "f": [*arguments],
    ...             "o": []}
    >>> top, between = operator(0, "Project", 1, [a]), operator(1, "Filter", 1, b)
    >>> needed = NeededColumns([top, between, operator(2, "Range", 0)])
    >>> needed.of(2, (1, 2, 3)), needed.of(0, (1,))
    ((1, 2), None)
    """

    def __init__(self, operators: Sequence[OperatorDocument]) -> None:
        self._all: Counter[int] = Counter()
        self._below: dict[int, Counter[int]] = {}
        self._is_bounded: dict[int, bool] = {}
        self._parents: dict[int, OperatorDocument] = {}
        self._plan(operators)

    def of(self, handle: int, output: Sequence[int]) -> tuple[int, ...] | None:
        """Those of a node's columns that are used above it; None where all of them may be.

        Args:
            handle: of the node.
            output: the ids of its columns.
        """
        if not self._is_bounded.get(handle, False):
            return None
        below = self._below[handle]
        return tuple(each for each in dict.fromkeys(output) if self._all[each] > below[each])

    def parent(self, handle: int) -> OperatorDocument | None:
        """The operator whose input a node is; None where it is the root of a plan."""
        return self._parents.get(handle)

    def _plan(self, operators: Sequence[OperatorDocument]) -> Counter[int]:
        """Looks at a plan, or at one inside an expression; gives what all of it names."""
        above: list[tuple[OperatorDocument, bool]] = []
        own: list[Counter[int]] = []
        for operator in operators:
            is_bounded = False
            if above:
                parent, is_bounded = above.pop()
                self._parents[operator["i"]] = parent
            self._is_bounded[operator["i"]] = is_bounded
            name = operator["c"]
            below = name in _NAMES_ITS_OUTPUT or (name in _PASSES_COLUMNS and is_bounded)
            above += [(operator, below)] * operator["n"]
            own.append(self._named(operator))
        finished: list[Counter[int]] = []
        for operator, named in zip(reversed(operators), reversed(own), strict=True):
            whole = Counter(named)
            for _ in range(operator["n"]):
                whole += finished.pop()
            self._below[operator["i"]] = whole
            finished.append(whole)
        return finished[-1] if finished else Counter()

    def _named(self, operator: OperatorDocument) -> Counter[int]:
        """What an operator names, with the plans inside its expressions."""
        found: Counter[int] = Counter()
        named: set[int] = set()
        for part in parts_of([operator["f"], operator["o"]]):
            if "plan" in part:
                found += self._plan(part["plan"])
            elif "a" in part:
                named.add(part["a"])
        self._all.update(named)
        found.update(named)
        return found


def used_columns(
    operators: Sequence[OperatorDocument], outputs: Mapping[int, Sequence[int]]
) -> dict[int, frozenset[int] | None]:
    """Which columns of each node make any difference for the whole plan, by its handle.

    What a projection computes of them counts only where that does; None where all of them may.

    Args:
        operators: the plan's operators in pre-order.
        outputs: the ids of the columns of its nodes.

    >>> def operator(handle, name, inputs, *arguments):
    ...     return {"i": handle, "c": LOGICAL + name, "n": inputs, "f": [*arguments], "o": []}
    >>> top = operator(0, "Project", 1, [{"a": 1}])
    >>> below = operator(1, "Project", 1, [{"a": 1}, {"a": 2}])
    >>> found = used_columns([top, below, operator(2, "Range", 0)], {0: (1,), 1: (1, 2)})
    >>> found[0], sorted(found[1]), sorted(found[2])
    (None, [1], [1])
    """
    found: dict[int, frozenset[int] | None] = {}
    above: list[frozenset[int] | None] = [None]
    for operator in operators:
        used = found[operator["i"]] = above.pop() if above else None
        below = _used_below(operator, used, outputs.get(operator["i"], ()))
        above += [below] * operator["n"]
    return found


def _used_below(
    operator: OperatorDocument, used: frozenset[int] | None, output: Sequence[int]
) -> frozenset[int] | None:
    arguments, name = operator["f"], operator["c"]
    if name not in _NAMES_ITS_OUTPUT:
        if used is None or name not in _PASSES_COLUMNS:
            return None
        return used | _ids([arguments, operator["o"]])
    keys, columns = ([], arguments[0]) if name == _PROJECT else (arguments[0], arguments[1])
    if used is None or not isinstance(columns, list) or len(columns) != len(output):
        return _ids([arguments, operator["o"]])
    chosen = [each for each, column in zip(columns, output, strict=True) if column in used]
    return _ids([keys, chosen])


def _ids(value: Value) -> frozenset[int]:
    return frozenset(part["a"] for part in parts_of(value) if "a" in part)


def joins_by_equality(operator: OperatorDocument, left: Collection[int]) -> bool:
    """Whether a join's rows have to agree in something, so that they don't multiply.

    Args:
        operator: any.
        left: the ids of the columns of its first input.
    """
    if operator["c"] != LOGICAL + "Join":
        return False
    waiting = [operator["f"][3]]
    while waiting:
        condition = waiting.pop()
        if not isinstance(condition, dict):
            continue
        if condition.get("c") == EXPRESSIONS + "And":
            waiting += condition["f"]
        elif condition.get("c") in (EXPRESSIONS + "EqualTo", EXPRESSIONS + "EqualNullSafe"):
            one, other = (_is_of(side, left) for side in condition["f"])
            if None not in (one, other) and one != other:
                return True
    return False


def _is_of(side: Value, left: Collection[int]) -> bool | None:
    """Whether an operand is made of the first input's columns; None if of none, or of both's."""
    found = {part["a"] in left for part in parts_of(side) if "a" in part}
    return found.pop() if len(found) == 1 else None

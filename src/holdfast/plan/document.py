"""What an engine hands over for a plan: plain Python values, as they come out of JSON.

A plan is the list of its operators in pre-order. An operator's and an expression's arguments are
those of its constructor, in order; each is one of

===========================================  ====================================================
`null`, boolean, integer, string             itself
list                                         a sequence or a map (of `scala.Tuple2`)
`{"child": true}`                            one of the operator's children, in its place
`{"plan": [operators]}`                      a subquery's plan inside an expression
`{"c": class, "f": [...], "o": [...]}`       an expression or another product, with its arguments;
                                             `"volatile": true` on an expression that is not
                                             deterministic, `"total": true` on a cast or on
                                             arithmetic that never throws, `"exact": true` on
                                             an aggregate function that depends on no order,
                                             though others of its class do, `"tied": true` on one
                                             that depends on it, though others don't,
                                             `"zoned": true` on what may have another value in
                                             another time zone,
                                             `"worded": true` on a cast of an interval
`{"a": id}`, `{"id": id}`                    a reference to an attribute; any other expression id
`{"alias": id, "of": expression}`            an expression that is given a name
`{"type": json}`, `{"metadata": json}`       a data type, with `"text"` where Spark's JSON leaves
                                             out collations or classes; a field's metadata
`{"number": class, "v": text}`               a number that JSON would not keep exactly
`{"enum": class, "v": name}`, `{"class"}`    an enumeration's value; a class
`{"bytes": base64}`                          a byte array, or a text that is not valid UTF-8
`{"cell": base64}`                           any other value of a literal, laid out as in a row
`{"index": class, "files": [...],            a file listing: `[path, length, modification time,
"partitions": text, "roots": [...]}`         tag]`, in bytes and in milliseconds since 1970, see
                                             `FileVersion`; the values that partitioning columns
                                             have in it; and the paths that were asked for
`{"c": …, "f": [...], "defaults": {...}}`    a relation over files, with what its reader takes from
                                             the session where no option says it
`{"python": base64, "version": text}`        a pickled Python function and the Python that runs it
`{"rdd": id}`                                an RDD of this application
`{"opaque": class}`                          something the engine can't see into; in an expression
                                             with `"content"`, the digest of what tasks are sent of
                                             it, or `"why"` that can't be known; `"of models":
                                             true` on functions of Spark's own models
===========================================  ====================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypedDict, cast

if TYPE_CHECKING:
    from typing_extensions import NotRequired

CATALYST = "org.apache.spark.sql.catalyst."
LOGICAL = CATALYST + "plans.logical."
EXPRESSIONS = CATALYST + "expressions."
EXECUTION = "org.apache.spark.sql.execution."

Value = Any
"""One argument, as the table above lists them."""

# What has other values inside.
_NESTS = (dict, list)


class OperatorDocument(TypedDict):
    """One operator of a plan.

    Attributes:
        i: the handle by which the engine finds the node again.
        c: the class name.
        n: how many children it has; they follow in pre-order.
        t: the salt that was given to this node before, if any.
        f: arguments of the constructor.
        o: arguments of the constructor's further lists.
        s: the output's schema, where the arguments don't determine it.
        out: the ids of the output's attributes, where the arguments don't determine them.
        ties: the ids of columns of groups that have the value of any of their rows, if there are
            some: their types have values that are equal and not the same.
        inputs: the schemas of the children, where the operator can observe their column names.
        rows: the digest of the rows of a table that a program has made from its values; None
            where they can't be compared by value. After a blank follows, in base64, the Python
            function that Spark has them run through, if it has.
        table: how a table is read by SerDes, see `holdfast.plan.hive_tables`, if it was listed.
        files: these files, and their directories: each its path, length, modification time, tag.
    """

    i: int
    c: str
    n: int
    t: str | None
    f: list[Value]
    o: list[Value]
    s: NotRequired[dict[str, Any]]
    out: NotRequired[list[int]]
    ties: NotRequired[list[int]]
    inputs: NotRequired[list[dict[str, Any]]]
    rows: NotRequired[str | None]
    table: NotRequired[dict[str, Any]]
    files: NotRequired[list[list[Any]]]


class FlatDocument(OperatorDocument):
    """An operator as the engine writes it down: with no expression inside another one.

    Attributes:
        x: the expressions in `f` and `o`, operands before what is made of them; `{"x": index}`
            stands for each of them everywhere else.
    """

    x: list[Value]


def nested(operators: list[FlatDocument]) -> list[OperatorDocument]:
    """A plan's operators with each expression in its place, however deep that is.

    An expression that stands in several places is the same object in all of them.

    >>> flat = {"i": 0, "c": "Filter", "n": 0, "t": None, "f": [{"x": 1}], "o": []}
    >>> nested([{**flat, "x": [{"c": "One"}, {"c": "Not", "f": [{"x": 0}]}]}])[0]["f"]
    [{'c': 'Not', 'f': [{'c': 'One'}]}]
    """
    return [_nested_operator(each) for each in operators]


def _nested_operator(operator: FlatDocument) -> OperatorDocument:
    made: list[Value] = []

    def placed(value: Value) -> Value:
        if isinstance(value, list):
            return [placed(item) if isinstance(item, _NESTS) else item for item in value]
        if not isinstance(value, dict):
            return value
        if "x" in value:
            return made[value["x"]]
        if "plan" in value:
            return {**value, "plan": nested(value["plan"])}
        if "type" in value or "metadata" in value:
            return value
        return {
            key: placed(item) if isinstance(item, _NESTS) else item for key, item in value.items()
        }

    for expression in operator["x"]:
        made.append(placed(expression))
    whole: Any = {key: value for key, value in operator.items() if key != "x"}
    whole |= {"f": placed(operator["f"]), "o": placed(operator["o"])}
    return cast(OperatorDocument, whole)


def parts_of(value: Value) -> Iterator[dict[str, Any]]:
    """Every product, reference and atom inside an argument, each once, whatever its depth."""
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += [item for item in reversed(each) if isinstance(item, _NESTS)]
        elif isinstance(each, dict) and id(each) not in seen:
            seen.add(id(each))
            yield each
            if "plan" not in each:
                waiting += [item for item in reversed(each.values()) if isinstance(item, _NESTS)]


OUTPUT_FROM_FIELDS = frozenset(
    LOGICAL + name
    for name in (
        "Aggregate",
        "CTERelationDef",
        "Deduplicate",
        "Distinct",
        "Except",
        "Filter",
        "GlobalLimit",
        "Intersect",
        "Join",
        "LateralJoin",
        "LocalLimit",
        "Offset",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "Sample",
        "Sort",
        "SubqueryAlias",
        "Tail",
        "Union",
        "View",
        "Window",
        "WithCTE",
    )
)
"""Operators whose output follows from their arguments, so that the engine need not describe it."""

NAMED_INPUT_OPERATORS = frozenset(
    LOGICAL + name
    for name in (
        "FlatMapCoGroupsInArrow",
        "FlatMapCoGroupsInPandas",
        "FlatMapGroupsInArrow",
        "FlatMapGroupsInPandas",
        "MapInArrow",
        "MapInPandas",
    )
)
"""Operators that hand whole rows to a Python function, which sees what the columns are called."""

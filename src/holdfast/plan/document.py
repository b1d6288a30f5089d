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
                                             deterministic
`{"a": id}`, `{"id": id}`                    a reference to an attribute; any other expression id
`{"alias": id, "of": expression}`            an expression that is given a name
`{"type": json}`, `{"metadata": json}`       a data type; a field's metadata
`{"number": class, "v": text}`               a number that JSON would not keep exactly
`{"enum": class, "v": name}`, `{"class"}`    an enumeration's value; a class
`{"bytes": base64}`                          a byte array
`{"index": class, "files": [...],            a file listing: `[path, length, modification time]`,
"partitions": text}`                         in bytes and in milliseconds since 1970; and the values
                                             that partitioning columns have in it
`{"python": base64, "version": text}`        a pickled Python function and the Python that runs it
`{"rdd": id}`                                an RDD of this application
`{"opaque": class}`                          something the engine can't see into
===========================================  ====================================================
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

CATALYST = "org.apache.spark.sql.catalyst."
LOGICAL = CATALYST + "plans.logical."
EXPRESSIONS = CATALYST + "expressions."
EXECUTION = "org.apache.spark.sql.execution."

Value = Any
"""One argument, as the table above lists them."""


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
        inputs: the schemas of the children, where the operator can observe their column names.
        sql: an inline table's rows as typed literals, ended by a name that the engine tells.
    """

    i: int
    c: str
    n: int
    t: str | None
    f: list[Value]
    o: list[Value]
    s: NotRequired[dict[str, Any]]
    out: NotRequired[list[int]]
    inputs: NotRequired[list[dict[str, Any]]]
    sql: NotRequired[str | None]


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

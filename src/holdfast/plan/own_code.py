"""Which operators run code that isn't Spark's, of which nobody can tell what it depends on."""

from __future__ import annotations

from holdfast.plan.document import EXPRESSIONS, LOGICAL, OperatorDocument, parts_of

_SPARK = ("org.apache.spark.", "scala.", "java.lang.")
_OBJECTS = EXPRESSIONS + "objects."
# Of Spark's own classes those that call others.
_CALLS_OTHERS = frozenset(
    {
        "ApplyFunctionExpression",
        "CallMethodViaReflection",
        "ComplexTypedAggregateExpression",
        "HiveGenericUDF",
        "HiveGenericUDTF",
        "HiveSimpleUDF",
        "HiveUDAFFunction",
        "ScalaAggregator",
        "ScalaUDAF",
        "ScalaUDF",
        "SimpleTypedAggregateExpression",
        "UserDefinedGenerator",
        "V2Aggregator",
    }
)
# What it stands for is elsewhere in the plan.
_REFERENCE = LOGICAL + "CTERelationRef"


def runs_others_code(operator: OperatorDocument) -> bool:
    """Whether an operator runs functions of users, or of libraries, or may do so.

    >>> plain = {"i": 0, "c": LOGICAL + "Filter", "n": 1, "t": None, "f": [{"a": 1}], "o": []}
    >>> function = {"c": EXPRESSIONS + "PythonUDF", "f": ["name", {"python": "", "version": ""}]}
    >>> runs_others_code(plain), runs_others_code({**plain, "f": [function]})
    (False, True)
    """
    if operator["c"] == _REFERENCE or not operator["c"].startswith(_SPARK):
        return True
    return any(_is_others(part) for part in parts_of([operator["f"], operator["o"]]))


def _is_others(part: dict[str, object]) -> bool:
    if "python" in part or "rdd" in part:
        return True
    for key in ("c", "opaque", "class", "index"):
        name = part.get(key)
        if isinstance(name, str) and (
            not name.startswith(_SPARK)
            or name.startswith(_OBJECTS)
            or name.rpartition(".")[2] in _CALLS_OTHERS
        ):
            return True
    return False

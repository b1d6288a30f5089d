"""Makes expressions canonical: what they compute stays, what nobody can observe goes.

Gone: expression ids (an attribute becomes its position in the operator's input), aliases,
qualifiers, the order of commutative operands. In doubt stays everything, and the doubt is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.plan.document import CATALYST, EXPRESSIONS, Value

if TYPE_CHECKING:
    from holdfast.plan.canonical_plan import CanonicalNode

Canonical = Any
"""Nested tuples of strings, integers, booleans and None."""

_COMMUTATIVE = frozenset(
    EXPRESSIONS + name
    for name in (
        "Add",
        "Multiply",
        "EqualTo",
        "EqualNullSafe",
        "BitwiseAnd",
        "BitwiseOr",
        "BitwiseXor",
    )
)
_ASSOCIATIVE = frozenset(EXPRESSIONS + name for name in ("And", "Or"))
_MIRRORED = {
    EXPRESSIONS + "GreaterThan": EXPRESSIONS + "LessThan",
    EXPRESSIONS + "GreaterThanOrEqual": EXPRESSIONS + "LessThanOrEqual",
}
_SEEDED = frozenset(EXPRESSIONS + name for name in ("Rand", "Randn", "RandStr", "Uniform"))
_ORDER_DEPENDENT = frozenset(
    EXPRESSIONS + "aggregate." + name
    for name in (
        "AnyValue",
        "ApproximatePercentile",
        "CollectList",
        "CollectSet",
        "First",
        "Last",
        "ListAgg",
        "MaxBy",
        "MinBy",
        "Mode",
    )
)
# Not deterministic whatever their operands are; Catalyst takes the last for deterministic, but it
# makes up its own initialization vectors.
_RANDOM = frozenset(
    EXPRESSIONS + name
    for name in (
        "CallMethodViaReflection",
        "InputFileBlockLength",
        "InputFileBlockStart",
        "InputFileName",
        "MonotonicallyIncreasingID",
        "Shuffle",
        "SparkPartitionID",
        "Uuid",
        "AesEncrypt",
    )
)
_READS_THE_MOMENT = re.compile(
    r"(Current(?!Row\$).*|Now|LocalTimestamp.*|SessionUser|UnixTimestampNow)"
)
_NAMES_THE_MOMENT = re.compile(r"\s*(now|today|tomorrow|yesterday)\b.*", re.IGNORECASE | re.DOTALL)
_OWN_IDS = frozenset(
    EXPRESSIONS + name
    for name in (
        "Exists",
        "LateralSubquery",
        "ListQuery",
        "PythonUDAF",
        "PythonUDF",
        "PythonUDTF",
        "ScalarSubquery",
        "aggregate.AggregateExpression",
    )
)
_PYTHON_CALLS = frozenset(EXPRESSIONS + name for name in ("PythonUDF", "PythonUDAF", "PythonUDTF"))
_PRODUCTS = (EXPRESSIONS, CATALYST + "plans.", CATALYST + "util.", "scala.Tuple")
_CASTS = EXPRESSIONS + "Cast"
# Spark makes casts of them, unless they are given a format.
_PARSERS = frozenset(EXPRESSIONS + name for name in ("ParseToDate", "ParseToTimestamp"))
_ALIASED_LAMBDA = EXPRESSIONS + "NamedLambdaVariable"
_LAMBDA = EXPRESSIONS + "LambdaFunction"
_OUTER = EXPRESSIONS + "OuterReference"
_LITERAL = EXPRESSIONS + "Literal"
_WITH = EXPRESSIONS + "With"
_COMMON_DEFINITION = EXPRESSIONS + "CommonExpressionDef"
_COMMON_REFERENCE = EXPRESSIONS + "CommonExpressionRef"

# The kinds of `PythonUDF` that are called once for each row; the others are handed rows in batches,
# and see what comes together in one.
_CALLED_BY_ROW = frozenset({100, 101})
_PYTHON_FUNCTION = EXPRESSIONS + "PythonUDF"
_KIND_OF_FUNCTION = 4

PythonFunctionDigest = Callable[[str], str | None]
"""The digest of a Python function from its base64 pickle; None where its content can't be known."""

SubqueryCanonicalizer = Callable[[list[Any], tuple["Scope", ...]], "CanonicalNode"]


class Scope:
    """What an operator's expressions can refer to: the attributes of its inputs, by position.

    Args:
        inputs: the output ids of each child.
    """

    def __init__(self, inputs: Sequence[Sequence[int]]) -> None:
        self._inputs = inputs
        self._positions: dict[int, int] | None = None

    def position(self, attribute: int) -> int | None:
        """Where the attribute with this id stands among all inputs' columns, from 0."""
        if self._positions is None:
            self._positions = {}
            column = 0
            for ids in self._inputs:
                for each in ids:
                    self._positions.setdefault(each, column)
                    column += 1
        return self._positions.get(attribute)


class ExpressionCanonicalizer:
    """Makes the arguments of one operator canonical, and remembers what was met on the way.

    Args:
        scope: what the operator's expressions refer to.
        outer: the scopes around the plan that the operator is in, the nearest first.
        subquery: makes a nested plan canonical, given the scopes around it.
        python_digest: digests Python functions.

    Attributes:
        doubts: why the operator's rows can't be told from its arguments, if they can't.
        subqueries: the plans inside the expressions.
        layout_sensitive: a value depends on how rows are dealt to tasks.
        reach: how many enclosing plans outwards the farthest reference leads; 0 for none.
    """

    def __init__(
        self,
        scope: Scope,
        outer: tuple[Scope, ...],
        subquery: SubqueryCanonicalizer,
        python_digest: PythonFunctionDigest,
    ) -> None:
        self._scope = scope
        self._outer = outer
        self._subquery = subquery
        self._python_digest = python_digest
        self._lambda_variables: list[int] = []
        self._common_expressions: list[int] = []
        self._volatile_seen = 0
        self._attributes_seen = 0
        self.doubts: list[str] = []
        self.subqueries: list[CanonicalNode] = []
        self.layout_sensitive = False
        self.reach = 0

    def canonical(self, value: Value) -> Canonical:
        """The canonical form of one argument."""
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, list):
            return ("seq", *[self.canonical(item) for item in value])
        if "a" in value:
            return self._attribute(value["a"])
        if "alias" in value:
            return self.canonical(value["of"])
        if "c" in value:
            return self._product(value)
        return self._atom(value)

    def _doubt(self, reason: str) -> Canonical:
        self.doubts.append(reason)
        return ("doubt",)

    def _attribute(self, attribute: int) -> Canonical:
        self._attributes_seen += 1
        position = self._scope.position(attribute)
        if position is not None:
            return ("column", position)
        return self._outer_attribute(attribute)

    def _outer_attribute(self, attribute: int) -> Canonical:
        for distance, scope in enumerate(self._outer):
            position = scope.position(attribute)
            if position is not None:
                self.reach = max(self.reach, distance + 1)
                return ("outer column", distance, position)
        return self._doubt("a reference to an attribute that no input has")

    def _atom(self, value: dict[str, Any]) -> Canonical:
        match value:
            case {"type": data_type}:
                return ("type", freeze_json(data_type))
            case {"number": kind, "v": text}:
                return ("number", kind, text)
            case {"enum": kind, "v": name}:
                return ("enum", kind, name)
            case {"class": name}:
                return ("class", name)
            case {"bytes": base64}:
                return ("bytes", base64)
            case {"metadata": metadata}:
                return ("metadata", freeze_json(metadata))
            case {"python": pickled, "version": version}:
                digest = self._python_digest(pickled)
                if digest is None:
                    return self._doubt("a Python function whose content can't be known")
                return ("python", version, digest)
            case {"plan": operators}:
                return self._nested(operators)
            case {"id": _}:
                return self._doubt("an expression id that something may refer to")
            case {"opaque": name}:
                return self._doubt(f"a {short(name)}, whose content can't be known")
            case _:
                return self._doubt(f"an argument of the form {sorted(value)}")

    def _nested(self, operators: list[Any]) -> Canonical:
        node = self._subquery(operators, (self._scope, *self._outer))
        self.subqueries.append(node)
        self.reach = max(self.reach, node.reach - 1)
        return ("plan", node.digest)

    def _product(self, value: dict[str, Any]) -> Canonical:
        name: str = value["c"]
        if "o" not in value:
            return self._plain_product(name, value["f"])
        if not name.startswith(EXPRESSIONS):
            return self._doubt(f"the expression {short(name)}, which Holdfast doesn't know")
        if _READS_THE_MOMENT.fullmatch(short(name)):
            self._doubt(f"{short(name)}, which depends on when or where it is computed")
        volatile_before, attributes_before = self._volatile_seen, self._attributes_seen
        canonical = self._expression(name, value["f"], value["o"])
        if self._attributes_seen == attributes_before:
            self._check_constant(name, value["f"])
        volatile = bool(value.get("volatile"))
        volatile_below = self._volatile_seen > volatile_before
        if name in _RANDOM or (volatile and (name in _PYTHON_CALLS or not volatile_below)):
            self._note_volatile(name)
        self._volatile_seen += volatile
        if name in _ORDER_DEPENDENT or (name in _PYTHON_CALLS and not _is_called_by_row(value)):
            self.layout_sensitive = True
        return canonical

    def _note_volatile(self, name: str) -> None:
        # A seed that stands in the plan fixes the values, as far as the layout does.
        if name in _SEEDED:
            self.layout_sensitive = True
        else:
            self._doubt(f"{short(name)}, which is not deterministic")

    def _plain_product(self, name: str, fields: list[Value]) -> Canonical:
        if fields and not name.startswith(_PRODUCTS):
            return self._doubt(f"a {short(name)}, which Holdfast doesn't know")
        return (name, *[self.canonical(field) for field in fields])

    def _expression(self, name: str, fields: list[Value], other: list[Value]) -> Canonical:
        if name == _ALIASED_LAMBDA:
            return self._lambda_variable(fields[3]["id"], fields[1], fields[2])
        if name == _LAMBDA:
            return self._lambda(fields)
        if name == _OUTER:
            return self._outer_reference(fields[0])
        if name == _WITH:
            return self._with_common(fields)
        if name == _COMMON_REFERENCE:
            return self._common_reference(_common_id(fields[0]), fields[1], fields[2])
        if name in _ASSOCIATIVE:
            return (name, *sorted(self._operands(name, fields), key=repr))
        if name in _PYTHON_CALLS:
            fields = fields[1:]  # The name of the function is not observable.
        if name in _OWN_IDS:
            fields = [field for field in fields if not is_id(field)]
        arguments = [self.canonical(field) for field in fields]
        arguments += [self.canonical(field) for field in other]
        if name in _COMMUTATIVE:
            arguments[:2] = sorted(arguments[:2], key=repr)
        elif name in _MIRRORED:
            name = _MIRRORED[name]
            arguments[:2] = [arguments[1], arguments[0]]
        elif name == EXPRESSIONS + "In":
            arguments[1] = ("seq", *sorted(arguments[1][1:], key=repr))
        return (name, *arguments)

    def _operands(self, name: str, fields: list[Value]) -> list[Canonical]:
        """The operands of a chain of one associative operator, left to right."""
        operands, waiting = [], list(reversed(fields))
        while waiting:
            field = waiting.pop()
            if isinstance(field, dict) and field.get("c") == name:
                waiting.extend(reversed(field["f"]))
            else:
                operands.append(self.canonical(field))
        return operands

    def _outer_reference(self, reference: Value) -> Canonical:
        self._attributes_seen += 1
        if isinstance(reference, dict) and "a" in reference:
            return self._outer_attribute(reference["a"])
        return self._doubt("an outer reference to something other than an attribute")

    def _lambda(self, fields: list[Value]) -> Canonical:
        function, variables, hidden = fields
        bound = [
            variable["f"][3]["id"] for variable in variables if variable.get("c") == _ALIASED_LAMBDA
        ]
        if len(bound) != len(variables):
            return self._doubt("a lambda function over something other than variables")
        self._lambda_variables.extend(bound)
        canonical = (_LAMBDA, self.canonical(function), self.canonical(variables), hidden)
        del self._lambda_variables[len(self._lambda_variables) - len(bound) :]
        return canonical

    def _lambda_variable(self, variable: int, data_type: Value, nullable: Value) -> Canonical:
        self._attributes_seen += 1
        if variable not in self._lambda_variables:
            return self._doubt("a lambda variable that nothing binds")
        place = self._lambda_variables[::-1].index(variable)
        return ("lambda variable", place, self.canonical(data_type), nullable)

    def _with_common(self, fields: list[Value]) -> Canonical:
        child, definitions = fields
        ids = [_common_id(each["f"][1]) for each in definitions if each["c"] == _COMMON_DEFINITION]
        if len(ids) != len(definitions):
            return self._doubt("common expressions of a form that Holdfast doesn't know")
        values = [self.canonical(definition["f"][0]) for definition in definitions]
        self._common_expressions.extend(ids)
        canonical = (_WITH, self.canonical(child), *values)
        del self._common_expressions[len(self._common_expressions) - len(ids) :]
        return canonical

    def _common_reference(self, common: int, data_type: Value, nullable: Value) -> Canonical:
        if common not in self._common_expressions:
            return self._doubt("a common expression that nothing defines")
        place = self._common_expressions[::-1].index(common)
        return ("common expression", place, self.canonical(data_type), nullable)

    def _check_constant(self, name: str, fields: list[Value]) -> None:
        """Spark replaces a constant 'today' that is made a date by the day of the query."""
        if name == _CASTS:
            target = fields[1].get("type") if isinstance(fields[1], dict) else None
            if not isinstance(target, str) or not target.startswith(("date", "time")):
                return
        elif name not in _PARSERS or fields[1] is not None:
            return
        child = fields[0]
        if isinstance(child, dict) and child.get("c") == _LITERAL:
            literal, kind = child["f"]
            if kind.get("type") != "string" or literal is None:
                return
            if not (isinstance(literal, str) and _NAMES_THE_MOMENT.fullmatch(literal)):
                return
        self._doubt("a cast of a text that may name the current day or time")


def _common_id(value: Value) -> int:
    """The number in a `CommonExpressionId`."""
    number: int = value["f"][0]
    return number


def _is_called_by_row(call: dict[str, Any]) -> bool:
    return call["c"] == _PYTHON_FUNCTION and call["f"][_KIND_OF_FUNCTION] in _CALLED_BY_ROW


def is_id(value: Value) -> bool:
    """Whether an argument is an expression id that names the expression itself."""
    return isinstance(value, dict) and "id" in value


def short(name: str) -> str:
    """A class name without its package.

    >>> short("org.apache.spark.sql.catalyst.expressions.Cast")
    'Cast'
    """
    return name.rpartition(".")[2]


def freeze_json(value: Any) -> str:
    """The one text of a JSON value, whatever the order of its keys.

    >>> freeze_json({"b": 1, "a": "long"})
    '{"a": "long", "b": 1}'
    """
    return json.dumps(value, sort_keys=True)

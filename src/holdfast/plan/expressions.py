"""Makes expressions canonical: what they compute stays, what can't be observed goes.

Gone: expression ids (an attribute becomes what it stands for in the operator's input), aliases,
qualifiers, the order of commutative operands where none may throw, other ways to write the same. In
doubt everything stays, and the doubt is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.plan.deep import Walk, walked
from holdfast.plan.determinism import (
    depends_on_order,
    depends_on_ties,
    is_known_aggregate,
    is_random,
    never_throws,
)
from holdfast.plan.document import CATALYST, EXPRESSIONS, Value
from holdfast.plan.observed import EVERYTHING, Observed, of_class, of_expression, of_type
from holdfast.plan.reasons import Reason, Why
from holdfast.plan.terms import (
    Canonical,
    Term,
    chained,
    digests,
    embedded,
    term,
    undetermined,
)
from holdfast.plan.traits import OBSERVES_SCAN
from holdfast.plan.value_digest import Undigestible

if TYPE_CHECKING:
    from holdfast.plan.canonical_plan import CanonicalNode

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
# SQL's functions without a seed are given one that isn't shown.
_HIDES_SEED = True
_SEEDED = frozenset(EXPRESSIONS + name for name in ("Rand", "Randn", "RandStr", "Uniform"))
_OF_TASKS = frozenset(
    EXPRESSIONS + name for name in ("MonotonicallyIncreasingID", "SparkPartitionID")
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
_CAST = EXPRESSIONS + "Cast"
_ZONE_OF_CAST = 2
_LITERAL = EXPRESSIONS + "Literal"
_NAME_OF_FILE = EXPRESSIONS + "InputFileName"
_WITH = EXPRESSIONS + "With"
_WINDOW_EXPRESSION = EXPRESSIONS + "WindowExpression"
_COMMON_DEFINITION = EXPRESSIONS + "CommonExpressionDef"
_COMMON_REFERENCE = EXPRESSIONS + "CommonExpressionRef"
_AGGREGATED = EXPRESSIONS + "aggregate.AggregateExpression"
_BETWEEN = EXPRESSIONS + "Between"
_IN = EXPRESSIONS + "In"
_IF = EXPRESSIONS + "If"
_CASE = EXPRESSIONS + "CaseWhen"

# Without options, Spark has them read only the fields that are used: of a broken record there are
# others then, as with files.
_READ_WHAT_IS_USED = frozenset(EXPRESSIONS + name for name in ("CsvToStructs", "JsonToStructs"))
_OPTIONS = 1
# An analyzed call of a function that is written in SQL has its body as an argument, which Spark
# runs in its place.
_SQL_FUNCTION = "org.apache.spark.sql.catalyst.analysis.SQLScalarFunction"
_BODY = 2

# The kinds of `PythonUDF` that are called once for each row; the others are handed rows in batches,
# and see what comes together in one.
_CALLED_BY_ROW = frozenset({100, 101})
_PYTHON_FUNCTION = EXPRESSIONS + "PythonUDF"
_JVM_FUNCTION = EXPRESSIONS + "ScalaUDF"
_STRUCT = EXPRESSIONS + "CreateNamedStruct"
_MODELS_DIGITS = re.compile(r"_[0-9a-f]{12}$")
_KIND_OF_FUNCTION = 4

PythonFunctionDigest = Callable[[str], str]
"""The digest of a Python function from its base64 pickle; `Undigestible` where none can be."""

SubqueryCanonicalizer = Callable[[list[Any], tuple["Scope", ...]], "CanonicalNode"]


class Scope:
    """What an operator's expressions can refer to: the attributes of its inputs.

    Args:
        inputs: of each input the ids of its output's attributes, and the terms they stand for.
    """

    def __init__(self, inputs: Iterable[tuple[Sequence[int], Sequence[Term]]]) -> None:
        self._inputs = list(inputs)
        self._terms: dict[int, Term] | None = None

    def term(self, attribute: int) -> Term | None:
        """What the attribute with this id stands for."""
        if self._terms is None:
            self._terms = {}
            for ids, terms in self._inputs:
                for each, column in zip(ids, terms, strict=True):
                    self._terms.setdefault(each, column)
        return self._terms.get(attribute)

    def widened(self, ids: Sequence[int], terms: Sequence[Term]) -> None:
        """Adds an input."""
        self._inputs.append((ids, terms))
        self._terms = None


class ExpressionCanonicalizer:
    """Makes the arguments of one operator canonical, and remembers what was met on the way.

    Args:
        scope: what the operator's expressions refer to.
        outer: the scopes around the plan that the operator is in, the nearest first.
        subquery: makes a nested plan canonical, given the scopes around it.
        python_digest: digests Python functions.
        runs_in_scan: whether tasks evaluate the operator as they read the files of one relation.

    Attributes:
        doubts: why the operator's rows can't be known from its arguments, if they can't.
        subqueries: the plans inside the expressions.
        partitioned: why a value depends on how rows are partitioned among tasks, if one does.
        reach: how many enclosing plans outwards the farthest reference leads; 0 for none.
        observes_scan: a value tells which file is being read.
        scan_sensitive: a value depends on which parts of it are used.
        observes: what of the process around it a value may depend on.
        ties: why a value depends on the order of rows with equal sort keys, if one does.
        inherited: why a value that is used is not determined by its rows, if one isn't.
    """

    def __init__(
        self,
        scope: Scope,
        outer: tuple[Scope, ...],
        subquery: SubqueryCanonicalizer,
        python_digest: PythonFunctionDigest,
        runs_in_scan: Callable[[], bool] = lambda: False,
    ) -> None:
        self._scope = scope
        self._outer = outer
        self._subquery = subquery
        self._python_digest = python_digest
        self._runs_in_scan = runs_in_scan
        self._lambda_variables: list[int] = []
        self._common_expressions: list[int] = []
        self._common_terms: dict[int, tuple[Term, int]] = {}
        self._volatile_seen = 0
        self._attributes_seen = 0
        self._throwing_seen = 0
        self.doubts: list[Reason] = []
        self.subqueries: list[CanonicalNode] = []
        self.partitioned: list[Reason] = []
        self.reach = 0
        self.observes_scan = False
        self.scan_sensitive = False
        self.observes: frozenset[Observed] = frozenset()
        self.ties: list[Reason] = []
        self.inherited: list[Reason] = []

    def canonical(self, value: Value) -> Canonical:
        """The canonical form of one argument."""
        return walked(self._walk(value))

    def terms(self, values: Iterable[Value]) -> list[Term]:
        """The terms of expressions; what is none becomes a term with a doubt."""
        return [self._as_term(self.canonical(value)) for value in values]

    def columns(self, values: Sequence[Value], salt: Callable[[], str], dealt: str) -> list[Term]:
        """The terms of expressions, each with why its value isn't determined by the rows.

        Args:
            values: the expressions.
            salt: tells the operator from every other.
            dealt: says how the rows are distributed to tasks.
        """
        found = []
        for place, value in enumerate(values):
            doubts, partitioned = len(self.doubts), len(self.partitioned)
            inherited = len(self.inherited)
            (column,) = self.terms([value])
            if len(self.doubts) > doubts:
                column = term("of this operator", salt(), place, column)
            if len(self.partitioned) > partitioned:
                column = term("of tasks", dealt, column)
            reasons = (
                *self.inherited[inherited:],
                *self.doubts[doubts:],
                *self.partitioned[partitioned:],
            )
            found.append(replace(column, undetermined=tuple(dict.fromkeys(reasons))))
        return found

    def _as_term(self, value: Canonical) -> Term:
        return value if isinstance(value, Term) else term("value", value)

    def _walk(self, value: Value) -> Walk[Canonical]:
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, list):
            items = []
            for item in value:
                items.append(embedded((yield self._walk(item))))
            return ("seq", *items)
        if "a" in value:
            return self._attribute(value["a"])
        if "alias" in value:
            return (yield self._walk(value["of"]))
        if "c" in value:
            return (yield self._product(value))
        return self._atom(value)

    def _doubt(self, reason: Reason) -> Term:
        self.doubts.append(reason)
        return term("doubt")

    def _attribute(self, attribute: int) -> Term:
        self._attributes_seen += 1
        found = self._scope.term(attribute) or self._outer_attribute(attribute)
        self._throwing_seen += found.throws
        self.inherited += found.undetermined
        return found

    def _outer_attribute(self, attribute: int) -> Term:
        for distance, scope in enumerate(self._outer):
            found = scope.term(attribute)
            if found is not None:
                self.reach = max(self.reach, distance + 1)
                return term("outer column", distance, found)
        return self._doubt(Why.UNREADABLE.of("a reference to an attribute that no input has"))

    def _atom(self, value: dict[str, Any]) -> Canonical:
        match value:
            case {"type": data_type}:
                text = value.get("text")
                self.observes |= of_type(f"{data_type} {text}")
                return ("type", freeze_json(data_type), text)
            case {"number": kind, "v": text}:
                return ("number", kind, text)
            case {"enum": kind, "v": name}:
                return ("enum", kind, name)
            case {"class": name}:
                self.observes |= of_class(name)
                return ("class", name)
            case {"bytes": base64}:
                return ("bytes", base64)
            case {"cell": base64}:
                return ("cell", base64)
            case {"metadata": metadata}:
                return ("metadata", freeze_json(metadata))
            case {"python": pickled, "version": version}:
                try:
                    digest = self._python_digest(pickled)
                except Undigestible as error:
                    return self._doubt(Why.PYTHON.of(error))
                return ("python", version, digest)
            case {"plan": operators}:
                return self._nested(operators)
            case {"id": _}:
                return self._doubt(
                    Why.UNREADABLE.of("an expression id that something may refer to")
                )
            case {"opaque": _, "content": digest}:
                # What its code looks at isn't known. A function's class has another name each time.
                self.observes = EVERYTHING
                return ("content", digest)
            case {"opaque": _, "why": why}:
                return self._doubt(Why.OBJECT.of(why))
            case {"opaque": name}:
                return self._doubt(Why.OPAQUE.of(short(name)))
            case _:
                return self._doubt(Why.UNREADABLE.of(f"an argument of the form {sorted(value)}"))

    def _nested(self, operators: list[Any]) -> Canonical:
        node = self._subquery(operators, (self._scope, *self._outer))
        self.subqueries.append(node)
        self.inherited += undetermined(node.columns)
        self.reach = max(self.reach, node.reach - 1)
        return ("plan", node.rows.digest, digests(node.columns))

    def _product(self, value: dict[str, Any]) -> Walk[Canonical]:
        name: str = value["c"]
        if "o" not in value:
            return (yield self._plain_product(name, value["f"]))
        if name == _SQL_FUNCTION:
            # Where it is declared not to be deterministic, its body may be so nevertheless.
            self._volatile_seen += bool(value.get("volatile"))
            return (yield self._walk(value["f"][_BODY]))
        if not name.startswith(EXPRESSIONS):
            return self._doubt(Why.UNKNOWN_EXPRESSION.of(short(name)))
        self._check_name(name)
        self.observes |= of_expression(name, zoned="zoned" in value, worded="worded" in value)
        if name in _READ_WHAT_IS_USED and not value["f"][_OPTIONS]:
            self.scan_sensitive = True
        volatile_before, attributes_before = self._volatile_seen, self._attributes_seen
        throwing_before = self._throwing_seen
        canonical = yield self._expression(value)
        self._throwing_seen += not (value.get("total") or never_throws(name))
        if name == _AGGREGATED:
            # Its value is there before anything above it is evaluated.
            self._throwing_seen = throwing_before
        throws = self._throwing_seen > throwing_before
        if throws != canonical.throws:
            canonical = replace(canonical, throws=throws)
        if self._attributes_seen == attributes_before:
            self._check_constant(name, value["f"])
        volatile = bool(value.get("volatile"))
        volatile_below = self._volatile_seen > volatile_before
        if is_random(name) or (volatile and (name in _PYTHON_CALLS or not volatile_below)):
            self._note_volatile(name, value["f"])
        self._volatile_seen += volatile
        in_order = "tied" in value or (depends_on_order(name) and not value.get("exact"))
        if in_order or (name in _PYTHON_CALLS and not _is_called_by_row(value)):
            self.partitioned.append(Why.PARTITIONED.of(short(name)))
        if name == _WINDOW_EXPRESSION and depends_on_ties(value):
            self.ties.append(Why.TIES.of(short(_function_of(value))))
        return canonical

    def _check_name(self, name: str) -> None:
        if _READS_THE_MOMENT.fullmatch(short(name)):
            self._doubt(Why.MOMENT.of(short(name)))
        if not is_known_aggregate(name):
            self._doubt(Why.UNKNOWN_AGGREGATE.of(short(name)))
        if name in OBSERVES_SCAN:
            self.observes_scan = True

    def _note_volatile(self, name: str, fields: list[Value]) -> None:
        # A seed that the query says fixes the values, as far as the layout does.
        if name in _OF_TASKS or (name in _SEEDED and fields[-1] is not _HIDES_SEED):
            self.partitioned.append(Why.PARTITIONED.of(short(name)))
        elif name in OBSERVES_SCAN and self._runs_in_scan():
            # Files are listed by name; where they are split depends on how tasks read them.
            if name != _NAME_OF_FILE:
                self.partitioned.append(Why.PARTITIONED.of(short(name)))
        elif name == _JVM_FUNCTION and "of models" in fields[0]:
            # They are marked as not deterministic to be called once for each row.
            pass
        else:
            self._doubt(Why.RANDOM.of(short(name)))

    def _plain_product(self, name: str, fields: list[Value]) -> Walk[Canonical]:
        if fields and not name.startswith(_PRODUCTS):
            return self._doubt(Why.OPAQUE.of(short(name)))
        parts = []
        for each in fields:
            parts.append(embedded((yield self._walk(each))))
        return (name, *parts)

    def _expression(self, value: dict[str, Any]) -> Walk[Term]:
        name, fields = value["c"], value["f"]
        if name == _ALIASED_LAMBDA:
            variable: Term = yield self._lambda_variable(fields[3]["id"], fields[1], fields[2])
            return variable
        if name == _LAMBDA:
            function: Term = yield self._lambda(fields)
            return function
        if name == _OUTER:
            return self._outer_reference(fields[0])
        if name == _WITH:
            with_common: Term = yield self._with_common(fields)
            return with_common
        if name == _COMMON_REFERENCE:
            common: Term = yield self._common_reference(fields)
            return common
        if name == _BETWEEN:
            # Its other arguments are what the query says; the last one is what Spark computes.
            return self._as_term((yield self._walk(fields[3])))
        if name == _CAST and not value.get("zoned"):
            fields = [*fields[:_ZONE_OF_CAST], *fields[_ZONE_OF_CAST + 1 :]]
        if name in _PYTHON_CALLS:
            fields = fields[1:]  # The name of the function is not observable.
        if name == _JVM_FUNCTION and "of models" in fields[0]:
            fields = [fields[0], fields[1], [*map(_without_digits, fields[2])], *fields[3:]]
        if name in _OWN_IDS:
            fields = [field for field in fields if not is_id(field)]
        arguments = []
        throwing_before = self._throwing_seen
        for each in (*fields, *value["o"]):
            arguments.append((yield self._walk(each)))
        # Where the left side decides, the right one isn't evaluated: it draws nothing, and doesn't
        # throw. So an operand is, with null on its left side.
        if value.get("volatile"):
            return term(name, *arguments)
        throws = self._throwing_seen > throwing_before
        decides = name == _IN or not any(map(_is_value, fields))
        return _combined(name, arguments, order_counts=throws and decides)

    def _outer_reference(self, reference: Value) -> Term:
        self._attributes_seen += 1
        if isinstance(reference, dict) and "a" in reference:
            found = self._outer_attribute(reference["a"])
            self._throwing_seen += found.throws
            self.inherited += found.undetermined
            return found
        return self._doubt(
            Why.UNREADABLE.of("an outer reference to something other than an attribute")
        )

    def _lambda(self, fields: list[Value]) -> Walk[Term]:
        function, variables, hidden = fields
        bound = [
            variable["f"][3]["id"] for variable in variables if variable.get("c") == _ALIASED_LAMBDA
        ]
        if len(bound) != len(variables):
            return self._doubt(
                Why.UNREADABLE.of("a lambda function over something other than variables")
            )
        self._lambda_variables.extend(bound)
        body = yield self._walk(function)
        parameters = yield self._walk(variables)
        del self._lambda_variables[len(self._lambda_variables) - len(bound) :]
        return term(_LAMBDA, body, parameters, hidden)

    def _lambda_variable(self, variable: int, data_type: Value, nullable: Value) -> Walk[Term]:
        self._attributes_seen += 1
        if variable not in self._lambda_variables:
            return self._doubt(Why.UNREADABLE.of("a lambda variable that nothing binds"))
        place = self._lambda_variables[::-1].index(variable)
        return term("lambda variable", place, (yield self._walk(data_type)), nullable)

    def _with_common(self, fields: list[Value]) -> Walk[Term]:
        child, definitions = fields
        ids = [_common_id(each["f"][1]) for each in definitions if each["c"] == _COMMON_DEFINITION]
        if len(ids) != len(definitions):
            return self._doubt(
                Why.UNREADABLE.of("common expressions of a form that Holdfast doesn't know")
            )
        values = []
        for definition in definitions:
            values.append(self._as_term((yield self._walk(definition["f"][0]))))
        # What is computed once or each time it is named is the same, unless it draws lots.
        if not any(definition.get("volatile") for definition in definitions):
            depth = len(self._lambda_variables)
            self._common_terms.update(zip(ids, ((value, depth) for value in values), strict=True))
            return self._as_term((yield self._walk(child)))
        self._common_expressions.extend(ids)
        body = yield self._walk(child)
        del self._common_expressions[len(self._common_expressions) - len(ids) :]
        return term(_WITH, body, *values)

    def _common_reference(self, fields: list[Value]) -> Walk[Term]:
        common = _common_id(fields[0])
        if common in self._common_terms:
            self._attributes_seen += 1
            found, depth = self._common_terms[common]
            self._throwing_seen += found.throws
            if depth != len(self._lambda_variables):
                return self._doubt(
                    Why.UNREADABLE.of(
                        "a common expression that is named in another lambda function"
                    )
                )
            return found
        if common not in self._common_expressions:
            return self._doubt(Why.UNREADABLE.of("a common expression that nothing defines"))
        place = self._common_expressions[::-1].index(common)
        data_type = yield self._walk(fields[1])
        return term("common expression", place, data_type, fields[2])

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
        self._doubt(Why.MOMENT_IN_TEXT.of())


def _combined(name: str, arguments: list[Canonical], *, order_counts: bool) -> Term:
    """An expression of its canonical arguments, in the one form of all that compute the same.

    Args:
        name: of its class.
        arguments: in the order that they are written in.
        order_counts: one of them may throw, unless the value of one before it decides.
    """
    if name in _ASSOCIATIVE:
        return chained(name, [each for each in arguments if isinstance(each, Term)])
    if name == _IF:
        condition, value, otherwise = arguments
        branch = ("scala.Tuple2", embedded(condition), embedded(value))
        name, arguments = _CASE, [("seq", branch), otherwise]
    elif order_counts:
        pass
    elif name in _COMMUTATIVE:
        arguments[:2] = sorted(arguments[:2], key=lambda each: repr(embedded(each)))
    elif name in _MIRRORED:
        name = _MIRRORED[name]
        arguments[:2] = [arguments[1], arguments[0]]
    elif name == _IN:
        arguments[1] = ("seq", *sorted(set(arguments[1][1:]), key=repr))
    return term(name, *arguments)


def _without_digits(value: Value) -> Value:
    """A struct whose fields don't have the random digits in their names that models give them."""
    if not isinstance(value, dict) or value.get("c") != _STRUCT:
        return value
    named = [
        {**each, "f": [_MODELS_DIGITS.sub("", each["f"][0]), each["f"][1]]}
        if place % 2 == 0 and each.get("c") == _LITERAL and isinstance(each["f"][0], str)
        else each
        for place, each in enumerate(value["f"][0])
    ]
    return {**value, "f": [named]}


def _is_value(value: Value) -> bool:
    """Whether an argument is a literal, or a cast of one that never throws, and not null."""
    while isinstance(value, dict) and value.get("c") == _CAST and value.get("total"):
        value = value["f"][0]
    return isinstance(value, dict) and value.get("c") == _LITERAL and value["f"][0] is not None


def _function_of(window_expression: dict[str, Any]) -> str:
    """The class of what a window computes."""
    function = window_expression["f"][0]
    if function.get("c") == _AGGREGATED:
        function = function["f"][0]
    return str(function.get("c", "a window function"))


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

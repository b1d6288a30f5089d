"""Operands in another order, and in other brackets: the same in mathematics, and not to Spark."""

from __future__ import annotations

from random import Random

from tests.fuzz.family import SIZE, Family
from tests.fuzz.node import Node
from tests.fuzz.pair import Pair
from tests.fuzz.plans import dataframe

_COLUMNS = {
    "long": ("x", "y", "z"),
    "int": ("i", "j"),
    "short": ("h", "g"),
    "byte": ("t", "u"),
    "double": ("a", "b", "c"),
    "float": ("f", "e"),
    "dec": ("m", "n"),
    "wide": ("o", "p"),
    "text": ("s", "r"),
    "bool": ("q", "w"),
}
_LITERALS = {
    "long": ("9223372036854775807L", "-1L", "1L"),
    "int": ("2147483647", "1", "-1"),
    "short": ("32767S", "1S"),
    "byte": ("127Y", "1Y"),
    "double": ("0.1D", "0.2D", "1e308D", "-1e308D", "-0.0D", "DOUBLE('NaN')"),
    "float": ("FLOAT('0.1')", "FLOAT('3e38')"),
    "dec": ("0.05BD", "99999999.99BD"),
    "wide": ("CAST('9999999999999999999999999999.9999999999' AS DECIMAL(38, 10))",),
    "text": ("'b' COLLATE UTF8_LCASE", "'B' COLLATE UTF8_LCASE"),
    "bool": ("true", "CAST(NULL AS BOOLEAN)"),
}
_INTEGERS = ("long", "int", "short", "byte")
_NUMBERS = (*_INTEGERS, "double", "float", "dec", "wide")
# What throws for some rows, and what decides that it isn't evaluated.
_THROWING = ("10 / x > 1", "i + 2147483647 > j", "CAST(s AS INT) = 1", "a / c < 1", "h * 200S > g")
_DECIDING = ("x <> 0", "i < 0", "s RLIKE '^[0-9]+$'", "q", "a IS NOT NULL", "y > 5")
_COMMUTING = {
    "number": ("{} + {}", "{} * {}"),
    "tried": ("try_add({}, {})", "try_multiply({}, {})"),
    "extreme": ("greatest({}, {})", "least({}, {})"),
    "bits": ("{} & {}", "{} | {}", "{} ^ {}"),
    "condition": ("{} AND {}", "{} OR {}"),
    "equal": ("{} = {}", "{} <=> {}"),
}
_SETTINGS = (
    "setting('spark.sql.ansi.enabled', 'false')",
    "setting('spark.sql.decimalOperations.allowPrecisionLoss', 'false')",
)


def pair(rng: Random) -> Pair:
    """A query, and the same with its operands in another order or in other brackets."""
    shape, operators, operands = _chosen(rng)
    first, second = (dataframe(_query(shape, _nested(rng, operators, operands))) for _ in range(2))
    return Pair(first, second, setup=rng.choice(["", "", *_SETTINGS]))


def family(rng: Random) -> Family:
    """A query with its operands in several orders and brackets."""
    shape, operators, operands = _chosen(rng)
    plans = [dataframe(_query(shape, _nested(rng, operators, operands))) for _ in range(SIZE)]
    return Family.of_plans(plans, setup=rng.choice(["", "", *_SETTINGS]))


def _chosen(rng: Random) -> tuple[str, tuple[str, ...], list[Node]]:
    """What is asked of an expression, its operators, and its operands."""
    kind = rng.choice([*_COMMUTING, "number", "number", "number", "tried", "condition"])
    count = rng.choice([2, 3, 3, 4])
    if kind == "condition":
        texts = rng.sample(_THROWING, rng.choice([1, 1, 2]))
        texts += rng.sample(_DECIDING, max(1, count - len(texts)))
    else:
        types = {"bits": _INTEGERS, "extreme": (*_NUMBERS, "text", "text"), "equal": _NUMBERS}
        first = rng.choice(types.get(kind, _NUMBERS))
        texts = [
            rng.choice(_COLUMNS[each] if rng.random() < 0.85 else _LITERALS[each])
            # Of several types, there are casts between them.
            for each in (
                first if rng.random() < 0.8 else rng.choice(_NUMBERS) for _ in range(count)
            )
            if first != "text" or each == "text"
        ]
        if len(texts) < 2:
            texts = [*_COLUMNS["text"]]
        if kind == "equal":
            texts = [f"{texts[0]} + {texts[1]}", rng.choice([*texts, "10 DIV x"])]
    forms = _COMMUTING[kind]
    operators = forms if rng.random() < 0.2 else (rng.choice(forms),)
    shape = rng.choice(_SHAPES[kind in ("condition", "equal")])
    # In other rows, others throw.
    shape = shape.replace("k = 3", f"k = {rng.randrange(7)}")
    return shape, operators, [*map(Node, texts)]


_SHAPES = {
    False: (
        "SELECT k, max({}) AS v FROM numbers GROUP BY k",
        "SELECT k, max({}) AS v FROM numbers WHERE k = 3 GROUP BY k",
        "SELECT k, min({}) AS v, count(*) AS c FROM numbers WHERE k = 3 GROUP BY k",
        "SELECT i, max({}) AS v FROM numbers WHERE k = 3 GROUP BY i",
        "SELECT DISTINCT {} AS v FROM numbers WHERE k < 3",
        "SELECT k, {} AS v FROM numbers WHERE k > 4 ORDER BY k",
        "SELECT k, row_number() OVER (PARTITION BY {} ORDER BY k) AS v FROM numbers WHERE k < 4",
        "SELECT t.k, other.k2 FROM numbers AS t JOIN other ON {} = k2",
    ),
    True: (
        "SELECT k, count(*) AS v FROM numbers WHERE {} GROUP BY k",
        "SELECT k, count(*) AS v FROM numbers WHERE k = 3 AND ({}) GROUP BY k",
        "SELECT k, bool_or({}) AS v FROM numbers GROUP BY k",
        "SELECT k, x, y FROM numbers WHERE {}",
        "SELECT t.k, o.k2 FROM numbers AS t JOIN other AS o ON k = k2 AND ({})",
        "SELECT k, max(if({}, 1, 2)) AS v FROM numbers WHERE k < 3 GROUP BY k",
    ),
}


def _query(shape: str, expression: Node) -> Node:
    return Node(shape, (expression,), "plan")


def _nested(rng: Random, operators: tuple[str, ...], operands: list[Node]) -> Node:
    """The operands in some order, each two neighbours in brackets until one is left."""
    left = rng.sample(operands, len(operands))
    while len(left) > 1:
        place = rng.randrange(len(left) - 1)
        made = Node(f"({rng.choice(operators)})", (left[place], left[place + 1]))
        left[place : place + 2] = [made]
    return left[0]

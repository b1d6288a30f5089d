"""Rows that stand in the plan itself: the same but for one value."""

from __future__ import annotations

from random import Random

from tests.fuzz.expressions import LITERALS, literal, literals
from tests.fuzz.family import SIZE, Family
from tests.fuzz.node import Node
from tests.fuzz.pair import Pair
from tests.fuzz.plans import dataframe

_PYTHON_VALUES = {
    "DOUBLE": ("0.0", "-0.0", "float('nan')", "1.0", "None", "1e300"),
    "BIGINT": ("0", "1", "None", "2**62"),
    "STRING": ("''", "'a'", "'A'", "'\\ud7ff'", "'\\0'", "None", "'\\ufffd'"),
    "BINARY": ("b''", "b'\\xff'", "b'\\xfe'", "None"),
    "ARRAY<DOUBLE>": ("[0.0]", "[-0.0]", "[None]", "[]", "None"),
    "MAP<STRING, INT>": ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}", "dict()", "None"),
    "DECIMAL(10, 2)": (
        "__import__('decimal').Decimal('1.0')",
        "__import__('decimal').Decimal('2')",
    ),
}
_ARROW_VALUES = {
    "pa.string()": ("b'a'", "b'\\xff'", "b'\\xfe'", "b''", "b'A'", "b'\\xef\\xbf\\xbd'"),
    "pa.binary()": ("b'a'", "b'\\xff'", "b'\\xfe'", "b''"),
    "pa.float64()": (
        *(
            "b'\\0\\0\\0\\0\\0\\0\\0\\0'",
            "b'\\0\\0\\0\\0\\0\\0\\0\\x80'",
            "b'\\0\\0\\0\\0\\0\\0\\xf8\\x7f'",
        ),
        "b'\\0\\0\\0\\0\\0\\0\\xf8\\x3f'",
    ),
}


def pair(rng: Random) -> Pair:
    """Local rows, and the same with one value changed."""
    return rng.choice([_values, _values, _values, _python, _arrow, _expressions])(rng)


def _values(rng: Random) -> Pair:
    kinds = [rng.choice(list(LITERALS)) for _ in range(rng.randint(1, 3))]
    rows = [[literal(rng, kind) for kind in kinds] for _ in range(rng.randint(1, 3))]
    return _changed(rng, rows, kinds)


def _changed(rng: Random, rows: list[list[Node]], kinds: list[str]) -> Pair:
    other = [list(row) for row in rows]
    row, column = rng.randrange(len(rows)), rng.randrange(len(kinds))
    rows[row][column], other[row][column] = literals(rng, kinds[column])
    return Pair(dataframe(_table(rows)), dataframe(_table(other)))


def _table(rows: list[list[Node]]) -> Node:
    lines = [Node(f"({', '.join(['{}'] * len(row))})", tuple(row)) for row in rows]
    names = ", ".join(f"c{place}" for place in range(len(rows[0])))
    return Node(
        f"SELECT * FROM VALUES {', '.join(['{}'] * len(rows))} AS t({names})", tuple(lines), "plan"
    )


def _python(rng: Random) -> Pair:
    kind = rng.choice(list(_PYTHON_VALUES))
    one, other = rng.sample(_PYTHON_VALUES[kind], 2)
    text = f"spark.createDataFrame([({{}},), ({one},)], 'v {kind}')"
    return Pair(Node(text, (Node(one),)), Node(text, (Node(other),)))


def _arrow(rng: Random) -> Pair:
    kind = rng.choice(list(_ARROW_VALUES))
    one, other = rng.sample(_ARROW_VALUES[kind], 2)
    raw = "pa.binary(8)" if kind == "pa.float64()" else "pa.binary()"
    first, second = (
        Node(
            f"spark.createDataFrame(pa.table([pa.array([{value}], {raw}).view({kind})], names=['v']))"
        )
        for value in (one, other)
    )
    return Pair(first, second, setup="import pyarrow as pa")


def _expressions(rng: Random) -> Pair:
    """Literals in a projection, over rows that are all the same."""
    kind = rng.choice(list(LITERALS))
    one, other = literals(rng, kind)
    text = rng.choice(["SELECT {} AS v FROM range(2)", "SELECT array({}) AS v FROM range(1)",
                       "SELECT id, named_struct('x', {}) AS v FROM range(2)",
                       "SELECT id FROM range(3) WHERE {} IS NOT NULL",
                       "SELECT typeof({}) AS t, {} AS v FROM range(1)"])  # fmt: skip
    holes = text.count("{}")
    return Pair(
        dataframe(Node(text, (one,) * holes, "plan")),
        dataframe(Node(text, (other,) * holes, "plan")),
    )


def family(rng: Random) -> Family:
    """Local rows with one value that is another one each time, of its type and of others."""
    kinds = [rng.choice(list(LITERALS)) for _ in range(rng.randint(1, 3))]
    rows = [[literal(rng, kind) for kind in kinds] for _ in range(rng.randint(1, 3))]
    row, column = rng.randrange(len(rows)), rng.randrange(len(kinds))
    values = [Node(text, kind=kinds[column]) for text in LITERALS[kinds[column]]]
    values += [literal(rng, rng.choice(list(LITERALS))) for _ in range(SIZE)]
    tables = []
    for value in values:
        changed = [list(each) for each in rows]
        changed[row][column] = value
        tables.append(dataframe(_table(changed)))
    return Family.of_plans(tables)

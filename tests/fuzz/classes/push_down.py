"""Conditions over what is kept, which its reader answers from statistics and dictionaries."""

from __future__ import annotations

from random import Random

from tests.fuzz.expressions import COMPARISONS, literal, literals
from tests.fuzz.family import SIZE, Family
from tests.fuzz.node import Node
from tests.fuzz.pair import Pair
from tests.fuzz.plans import Query, dataframe, query

_COMPARED = ("long", "int", "short", "double", "float", "dec", "str", "lcase", "bin", "date")
_LATER = ("ts", "ntz", "dti", "bool")
_FIELDS = {"p": "long", "q": "double", "r": "str"}
_SETTINGS = (
    "spark.sql.parquet.filterPushdown",
    "spark.sql.parquet.filterPushdown.string.startsWith",
    "spark.sql.parquet.recordLevelFilter.enabled",
    "spark.sql.parquet.aggregatePushdown",
    "spark.sql.parquet.enableVectorizedReader",
    "spark.sql.optimizer.nestedSchemaPruning.enabled",
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources",
)


def pair(rng: Random) -> Pair:
    """A query, and one over it that filters by a column, an element or a field."""
    if rng.random() < 0.6:
        first, condition = _few_values(rng)
    else:
        first = query(rng, rng.choice([0, 0, 1]))
        condition = _condition(rng, *rng.choice(list(first.scope.items())))
    above = Node("SELECT * FROM ({}) AS t WHERE {}", (first.sql, condition), "plan")
    if rng.random() < 0.2:
        count = "count(*) AS c, count_if({}) AS d"
        above = Node(f"SELECT {count} FROM ({{}}) AS t", (condition, first.sql), "plan")
    state = ""
    if rng.random() < 0.15:
        key = rng.choice(_SETTINGS)
        value = "" if key.endswith("Sources") else rng.choice(["true", "false"])
        state = f"setting({key!r}, {value!r})"
    return Pair(
        dataframe(first.sql),
        dataframe(above),
        first_state=f"setting({key!r}, None)" if state else "",
        second_state=state,
        expects="" if state else "a filter above",
    )


def family(rng: Random) -> Family:
    """A query, and many that filter it, each by another condition."""
    first = query(rng, rng.choice([0, 0, 1]))
    conditions = [_condition(rng, *rng.choice(list(first.scope.items()))) for _ in range(SIZE - 1)]
    if rng.random() < 0.7:
        kind = rng.choice((*_COMPARED, "double", "double", "float", *_LATER))
        first, name = _value(rng, kind, *literals(rng, kind))
        conditions = [_condition(rng, name, kind) for _ in range(SIZE - 1)]
    above = (Node("SELECT * FROM ({}) AS t WHERE {}", (first.sql, c), "plan") for c in conditions)
    return Family.of_plans(map(dataframe, [first.sql, *above]))


def _few_values(rng: Random) -> tuple[Query, Node]:
    """One or two values of a type, in all rows, by themselves or inside of others."""
    kind = rng.choice((*_COMPARED, "double", "double", "float", *_LATER))
    one, asked = literals(rng, kind)
    other = literal(rng, kind) if rng.random() < 0.4 else None
    made, name = _value(rng, kind, one, other)
    return made, _condition(rng, name, kind, asked)


def _value(rng: Random, kind: str, one: Node, other: Node | None) -> tuple[Query, str]:
    """One or two values in all rows, and the name under which a condition finds them."""
    value = one if other is None else Node("if(k = 1, {}, {})", (one, other), kind)
    inside, name = rng.choice(
        [("{}", "v"), ("{}", "v"), ("named_struct('p', k, 'v', {})", "v.v"), ("array({})", "v[0]")]
    )
    sql = Node(f"SELECT k, {inside} AS v FROM zeros", (value,), "plan")
    return Query(sql, {"k": "long", "v": "any"}), name


def _condition(rng: Random, name: str, kind: str, asked: Node | None = None) -> Node:
    if kind == "struct":
        field = rng.choice(list(_FIELDS))
        name, kind = f"{name}.{field}", _FIELDS[field]
    elif kind.startswith("array<"):
        name, kind = f"{name}[0]", kind[6:-1]
    if kind not in _COMPARED + _LATER:
        return Node(f"{name} IS {rng.choice(['', 'NOT '])}NULL", kind="bool")
    one, other = (asked, literal(rng, kind)) if asked else literals(rng, kind)
    forms = [*(f"{name} {sign} {{}}" for sign in COMPARISONS), f"{{}} = {name}"]
    form = rng.choice([*forms, *forms, f"{name} IN ({{}}, {{}})", f"NOT {name} = {{}}",
                       f"{name} IN ({{}})", f"{name} NOT IN ({{}})", f"{name} IS NULL",
                       f"{name} BETWEEN {{}} AND {{}}", f"{name} = {{}} OR {name} = {{}}"])  # fmt: skip
    if kind in ("str", "lcase") and rng.random() < 0.3:
        form = rng.choice([f"{name} LIKE 'a%'", f"startswith({name}, {{}})", f"{name} LIKE '%'"])
    return Node(form, (one, other)[: form.count("{}")], "bool")

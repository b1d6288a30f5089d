"""Queries: a table, and steps over it, each a query over the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.fuzz.expressions import TYPES, expression, filled, literal, mutated
from tests.fuzz.node import Node
from tests.fuzz.tables import OTHER, SOURCES, Scope

_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_AGGREGATES = {
    "a": ("long", ("sum({int})", "count(*)", "count({double})", "count(DISTINCT {str})",
                   "max({long})", "count_if({bool})", "bit_xor({long})", "sum(DISTINCT {int})",
                   "count(DISTINCT {lcase})", "sum({int}) FILTER (WHERE {bool})")),
    "d": ("double", ("max({double})", "min({double})", "percentile({int}, 0.5)", "avg({int})",
                     "max_by({double}, {long})", "stddev_pop({int})", "mode({double})")),
    "s": ("str", ("max({str})", "min({str})", "max(CAST({lcase} AS STRING))",
                  "array_join(sort_array(collect_set({str})), ',')", "max(to_json({struct}))")),
    "al": ("array<long>", ("sort_array(collect_list({long}))", "sort_array(collect_set({long}))",
                           "array(count(*))")),
}  # fmt: skip
_WINDOWS = (
    "row_number() OVER (PARTITION BY {long} ORDER BY {all})",
    "count(*) OVER (PARTITION BY {double})",
    "sum({int}) OVER (PARTITION BY {str} ORDER BY {all} ROWS 1 PRECEDING)",
    "lag({long}) OVER (ORDER BY {all})",
    "max({long}) OVER (PARTITION BY {lcase})",
    "rank() OVER (ORDER BY {double})",
    "dense_rank() OVER (ORDER BY {str} DESC NULLS LAST)",
    "first_value({long}) IGNORE NULLS OVER (PARTITION BY {bool} ORDER BY {all})",
)


@dataclass(frozen=True)
class Query:
    """A query that was generated, and the columns that it puts out."""

    sql: Node
    scope: Scope
    ordered: bool = False


_Step = Callable[[Random, Query], Query]


def source(rng: Random) -> Query:
    """A table, or some of its columns."""
    name = rng.choice(["wide", "wide", "files", "files", "zeros"])
    scope = SOURCES[name]
    if rng.random() < 0.4:
        return Query(Node(f"SELECT * FROM {name}", kind="plan"), scope)
    kept = {each: kind for each, kind in scope.items() if rng.random() < 0.5} or {"k": "long"}
    return Query(Node(f"SELECT {', '.join(kept)} FROM {name}", kind="plan"), kept)


def query(rng: Random, steps: int) -> Query:
    """A query of some steps over a table."""
    made = source(rng)
    for _ in range(steps):
        made = rng.choice(_STEPS)(rng, made)
    return made


def mutation(rng: Random, made: Query) -> Node:
    """The query with something changed; it may be one that Spark refuses."""
    return mutated(rng, made.sql, made.scope)


def dataframe(sql: Node) -> Node:
    """The Python expression that makes the DataFrame of a query."""
    return Node('spark.sql(r"""{} """)', (sql,))


def _node(rng: Random, scope: Scope, text: str, *plans: Node, depth: int = 2) -> Node:
    """A template: `{plan}` is the next plan, `{all}` an order without ties, the rest expressions."""
    waiting = list(plans)

    def fill(hole: str) -> Node | str:
        if hole == "all":
            # As texts, zeros of both signs and NaN differ.
            return f"CAST(struct({', '.join(scope)}) AS STRING)"
        return waiting.pop(0) if hole == "plan" else expression(rng, scope, hole, depth)

    return Node.filled(text, fill, "plan")


def _filter(rng: Random, on: Query) -> Query:
    sql = _node(rng, on.scope, "SELECT * FROM ({plan}) AS t WHERE {bool}", on.sql)
    return Query(sql, on.scope, on.ordered)


def _compute(rng: Random, on: Query) -> Query:
    """Some columns are computed anew, some go."""
    scope: Scope = {}
    columns = []
    for name, kind in on.scope.items():
        if rng.random() < 0.5:
            scope[name] = kind
            columns.append(f"{{{kind}}} AS {name}" if rng.random() < 0.6 else name)
    added = rng.choice(TYPES)
    scope["e"] = added
    columns.append(f"{{{added}}} AS e")
    sql = _node(rng, on.scope, f"SELECT {', '.join(columns)} FROM ({{plan}}) AS t", on.sql)
    # The plan comes last in the text.
    return Query(sql, scope, on.ordered)


def _group(rng: Random, on: Query) -> Query:
    key = rng.choice(["long", "str", "double", "lcase", "bool"])
    scope: Scope = {"g": key}
    columns = [f"{{{key}}} AS g"]
    for name, (kind, functions) in _AGGREGATES.items():
        if rng.random() < 0.6:
            scope[name] = kind
            columns.append(f"{rng.choice(functions)} AS {name}")
    by = rng.choice(["1", "1", "ALL"])
    having = rng.choice(["", "", " HAVING count(*) > 1"])
    text = f"SELECT {', '.join(columns)} FROM ({{plan}}) AS t GROUP BY {by}{having}"
    if rng.random() < 0.15:
        text = f"SELECT {', '.join(columns)} FROM ({{plan}}) AS t GROUP BY CUBE (g)"
    if key in ("str", "lcase", "double"):
        # Of keys that are equal but not the same, any may stand for its group.
        columns[0] = f"count(DISTINCT {{{key}}}) AS g"
        scope["g"] = "long"
        text = f"SELECT {', '.join(columns)} FROM ({{plan}}) AS t GROUP BY {{{key}}}{having}"
    return Query(_node(rng, on.scope, text, on.sql, depth=1), scope)


def _join(rng: Random, on: Query) -> Query:
    how = rng.choice(_JOINS)
    both = {**on.scope, **OTHER}
    condition = rng.choice(
        ["k2 = {long}", "k2 <=> {long}", "s2 = {str}", "d2 = {double}", "i2 {compare} {int}",
         "k2 = {long} AND {bool}", "{bool}"]
    )  # fmt: skip
    sql = _node(rng, both, f"SELECT * FROM ({{plan}}) AS t {how} other ON {condition}", on.sql)
    return Query(sql, on.scope if how.startswith("LEFT S") or "ANTI" in how else both)


def _window(rng: Random, on: Query) -> Query:
    text = rng.choice(_WINDOWS)
    sql = _node(rng, on.scope, f"SELECT *, {text} AS w FROM ({{plan}}) AS t", on.sql, depth=1)
    return Query(sql, {**on.scope, "w": "any"})


def _unique(rng: Random, on: Query) -> Query:
    kept = [
        name for name, kind in on.scope.items() if kind in ("long", "int", "str", "bool", "date")
    ]
    if not kept:
        return on
    sql = Node(f"SELECT DISTINCT {', '.join(kept)} FROM ({{}}) AS t", (on.sql,), "plan")
    return Query(sql, {name: on.scope[name] for name in kept})


def _order(rng: Random, on: Query) -> Query:
    limit = rng.choice(["", f" LIMIT {rng.randint(1, 5)}", f" LIMIT 3 OFFSET {rng.randint(1, 3)}"])
    direction = rng.choice(["", " DESC", " NULLS LAST", " DESC NULLS FIRST"])
    kind = rng.choice(["long", "double", "str", "ts"])
    text = f"SELECT * FROM ({{plan}}) AS t ORDER BY {{{kind}}}{direction}, {{all}}{limit}"
    return Query(_node(rng, on.scope, text, on.sql, depth=1), on.scope, ordered=True)


def _set(rng: Random, on: Query) -> Query:
    names = [name for name, kind in on.scope.items() if kind in ("long", "int", "str", "date")]
    if not names:
        return on
    listed = ", ".join(names)
    how = rng.choice(["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
    text = (
        f"SELECT {listed} FROM ({{plan}}) AS t {how} SELECT {listed} FROM ({{plan}}) AS u "
        "WHERE {bool}"
    )
    scope = {name: on.scope[name] for name in names}
    sql = _node(rng, on.scope, text, on.sql, on.sql, depth=1)
    return Query(sql, scope)


def _spread(rng: Random, on: Query) -> Query:
    outer = rng.choice(["", "OUTER "])
    kind = rng.choice(["array<long>", "array<double>", "array<str>"])
    made = rng.choice(["explode", "posexplode"])
    names = "e" if made == "explode" else "p, e"
    text = f"SELECT * FROM ({{plan}}) AS t LATERAL VIEW {outer}{made}({{{kind}}}) x AS {names}"
    scope = {**on.scope, "e": kind[6:-1]} | ({"p": "int"} if made == "posexplode" else {})
    return Query(_node(rng, on.scope, text, on.sql, depth=1), scope)


def _ask(rng: Random, on: Query) -> Query:
    """A subquery, correlated or not."""
    mine = next((name for name, kind in on.scope.items() if kind == "long"), None)
    if mine is None:
        return on
    inner = filled(rng, OTHER, "{bool}", "text", 2)
    text = rng.choice(
        [
            f"t.{mine} IN (SELECT k2 FROM other WHERE {{inner}})",
            f"EXISTS (SELECT 1 FROM other o WHERE o.k2 = t.{mine} AND {{inner}})",
            f"NOT EXISTS (SELECT 1 FROM other o WHERE o.k2 = t.{mine} AND {{inner}})",
            f"t.{mine} < (SELECT max(i2) FROM other o WHERE o.k2 = t.{mine} AND {{inner}})",
            f"t.{mine} >= (SELECT min(k2) FROM other WHERE {{inner}})",
        ]
    )
    text = text.replace("{inner}", "{}")
    sql = Node(f"SELECT * FROM ({{}}) AS t WHERE {text}", (on.sql, inner), "plan")
    return Query(sql, on.scope, on.ordered)


def _twice(rng: Random, on: Query) -> Query:
    """A common table expression that is read twice."""
    text = "WITH c AS ({plan}) SELECT * FROM c WHERE {bool} UNION ALL SELECT * FROM c WHERE {bool}"
    return Query(_node(rng, on.scope, text, on.sql, depth=1), on.scope)


def _pivot(rng: Random, on: Query) -> Query:
    if not {"k", "i", "s"} <= on.scope.keys():
        return on
    one, other = literal(rng, "str"), literal(rng, "str")
    text = (
        "SELECT * FROM (SELECT k, i, s FROM ({}) AS t) PIVOT (sum(i) FOR s IN ({} AS p1, {} AS p2))"
    )
    return Query(
        Node(text, (on.sql, one, other), "plan"), {"k": "long", "p1": "long", "p2": "long"}
    )


_STEPS: tuple[_Step, ...] = (
    *(_filter, _filter, _compute, _compute, _compute, _group, _group, _join, _window, _unique),
    *(_order, _set, _spread, _ask, _ask, _twice, _pivot),
)

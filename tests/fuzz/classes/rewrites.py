"""Queries written in another way that provably have the same rows: hits are hoped for."""

from __future__ import annotations

from random import Random

from tests.fuzz.expressions import expression
from tests.fuzz.family import SIZE, Family
from tests.fuzz.node import Node
from tests.fuzz.pair import Pair
from tests.fuzz.plans import dataframe, source

_NEGATED = {"<=": ">", "<": ">=", ">": "<=", ">=": "<", "=": "<>"}


def pair(rng: Random) -> Pair:
    """A query, and one that Spark's own cache would take for it."""
    parts, forms = _forms(rng)
    name, first, second = rng.choice(forms)
    return Pair(
        dataframe(Node.filled(first, parts.__getitem__, "plan")),
        dataframe(Node.filled(second, parts.__getitem__, "plan")),
        expects=name,
    )


def family(rng: Random) -> Family:
    """Several such queries over the same table, with the same conditions."""
    parts, forms = _forms(rng)
    chosen = [text for _, *texts in rng.sample(forms, SIZE // 2) for text in texts]
    return Family.of_plans(
        dataframe(Node.filled(text, parts.__getitem__, "plan")) for text in chosen
    )


def _forms(rng: Random) -> tuple[dict[str, Node], list[tuple[str, str, str]]]:
    """What fills the holes, and for each way of writing a query in another way both texts."""
    on = source(rng)
    while "k" not in on.scope:
        on = source(rng)
    one, other = (expression(rng, on.scope, "bool", 1) for _ in range(2))
    number = expression(rng, on.scope, "long", 1)
    names = list(on.scope)
    shuffled = rng.sample(names, len(names))
    sign = rng.choice(list(_NEGATED))
    forms = [
            (
                "filters in a row",
                "SELECT * FROM (SELECT * FROM ({p}) WHERE {a}) WHERE {b}",
                "SELECT * FROM ({p}) WHERE {a} AND {b}",
            ),
            (
                "filters swapped",
                "SELECT * FROM (SELECT * FROM ({p}) WHERE {a}) WHERE {b}",
                "SELECT * FROM (SELECT * FROM ({p}) WHERE {b}) WHERE {a}",
            ),
            ("and swapped", "SELECT * FROM ({p}) WHERE {a} AND {b}", "SELECT * FROM ({p}) WHERE {b} AND {a}"),
            ("or swapped", "SELECT * FROM ({p}) WHERE {a} OR {b}", "SELECT * FROM ({p}) WHERE {b} OR {a}"),
            (
                "columns reordered",
                f"SELECT {', '.join(names)} FROM ({{p}}) WHERE {{a}}",
                f"SELECT {', '.join(shuffled)} FROM ({{p}}) WHERE {{a}}",
            ),
            (
                "select of select",
                "SELECT k, v + 1 AS w FROM (SELECT k, {n} AS v FROM ({p}))",
                "SELECT k, ({n}) + 1 AS w FROM ({p})",
            ),
            ("no-op cast", "SELECT k, {n} AS v FROM ({p})", "SELECT CAST(k AS BIGINT) AS k, {n} AS v FROM ({p})"),
            ("negation", f"SELECT * FROM ({{p}}) WHERE NOT (k {sign} {{n}})", f"SELECT * FROM ({{p}}) WHERE k {_NEGATED[sign]} {{n}}"),
            ("between", "SELECT * FROM ({p}) WHERE k BETWEEN {n} AND 5L", "SELECT * FROM ({p}) WHERE k >= {n} AND k <= 5L"),
            ("not null", "SELECT * FROM ({p}) WHERE k IS NOT NULL", "SELECT * FROM ({p}) WHERE NOT isnull(k)"),
            ("if as case", "SELECT if({a}, k, {n}) AS v FROM ({p})", "SELECT CASE WHEN {a} THEN k ELSE {n} END AS v FROM ({p})"),
            (
                "join swapped",
                "SELECT k, s2 FROM ({p}) AS t JOIN other ON k = k2",
                "SELECT k, s2 FROM other JOIN ({p}) AS t ON k2 = k",
            ),
            (
                "keys swapped",
                "SELECT k, {n} AS g, count(*) AS c FROM ({p}) GROUP BY k, 2",
                "SELECT k, {n} AS g, count(*) AS c FROM ({p}) GROUP BY 2, k",
            ),
            (
                "aggregates reordered",
                "SELECT k, count(*) AS c, max({n}) AS m FROM ({p}) GROUP BY k",
                "SELECT k, max({n}) AS m, count(*) AS c FROM ({p}) GROUP BY k",
            ),
            ("distinct as group", "SELECT DISTINCT k, {n} AS v FROM ({p})", "SELECT k, {n} AS v FROM ({p}) GROUP BY ALL"),
            ("renamed", "SELECT k AS a FROM ({p}) WHERE {a}", "SELECT k AS b FROM ({p}) WHERE {a}"),
            ("the same", "SELECT * FROM ({p}) WHERE {a}", "SELECT * FROM ({p}) WHERE {a}"),
            ("a column of all", "SELECT * FROM ({p}) WHERE {a}", "SELECT k FROM (SELECT * FROM ({p}) WHERE {a})"),
    ]  # fmt: skip
    return {"p": on.sql, "a": one, "b": other, "n": number}, forms

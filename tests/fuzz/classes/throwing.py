"""Conditions that throw for rows which others leave out, over what is kept though nobody asked."""

from __future__ import annotations

from random import Random

from tests.fuzz.expressions import filled
from tests.fuzz.node import Node
from tests.fuzz.pair import start
from tests.fuzz.plans import dataframe
from tests.fuzz.script import Build, Run, Script, Step
from tests.fuzz.tables import WIDE, Scope

_ABOVE = 6
_THROWING = (
    "CAST(if({} > {}, 'x', '1') AS INT) = 1",
    "assert_true({} < {}) IS NULL",
    "1 / ({} - {}) < 5",
    "{} % ({} - 2) >= -9",
    "if({} = {}, raise_error('no'), true)",
    "array(1, 2)[CAST({} - {} AS INT)] IS NOT NULL",
    "element_at(array(1), CAST({} - {} AS INT)) = 1",
    "CAST({} * 100 + {} AS TINYINT) IS NOT NULL",
    "({} + 1) * 4611686018427387904 > {}",
    "to_date(CAST(1000 + {} + {} AS STRING), 'yyyy-MM') IS NOT NULL",
    "make_date(2020, CAST({} + 8 + {} AS INT), 31) IS NOT NULL",
    "(SELECT k2 FROM other WHERE i2 > {} - 2) >= {}",
    "CAST(s AS INT) + {} > {}",
    "CAST(n * 1000000 AS DECIMAL(9, 2)) + {} > {}",
)
_KEPT = (
    "SELECT * FROM {} JOIN other ON k = k2",
    "SELECT * FROM {} LEFT JOIN other ON k = k2 AND i2 > 1",
    "SELECT t.*, u.s2, u.i2, u.k2, u.d2 FROM {} AS t CROSS JOIN other AS u",
    "SELECT * FROM {} LEFT SEMI JOIN other ON k = k2",
    "SELECT k, i, s, n, count(*) AS c, max(d) AS d FROM {} GROUP BY k, i, s, n",
    "SELECT *, row_number() OVER (PARTITION BY k ORDER BY i, s, d) AS c FROM {}",
    "SELECT DISTINCT k, i, s, n FROM {}",
    "SELECT k, i, s, n FROM {} UNION ALL SELECT k2, i2, s2, 1.5 FROM other",
    "SELECT * FROM {} LATERAL VIEW explode(al) AS e",
)
_FORMS = (
    "SELECT * FROM ({kept}) AS v WHERE {conditions}",
    "SELECT * FROM ({kept}) AS v WHERE {conditions}",
    "SELECT k, count(*) AS q FROM ({kept}) AS v WHERE {conditions} GROUP BY k",
    "SELECT k, i FROM (SELECT k, i, s, n FROM ({kept}) AS v) AS w WHERE {conditions}",
    "SELECT i, sum(k) AS q FROM ({kept}) AS v GROUP BY k, i, s, n HAVING {conditions}",
    "SELECT v.k, o.i2 AS oi FROM ({kept}) AS v JOIN other AS o ON v.k = o.k2 AND {conditions}",
    "SELECT v.i FROM ({kept}) AS v LEFT ANTI JOIN other AS o ON v.k = o.k2 AND {conditions}",
    "SELECT * FROM (SELECT *, {throwing} AS z FROM ({kept}) AS v) AS w WHERE z AND {plain}",
    "SELECT * FROM (SELECT * FROM ({kept}) AS v WHERE {plain}) AS w WHERE {throwing}",
    "SELECT k, {throwing} AS z FROM ({kept}) AS v WHERE {plain}",
    "SELECT count(*) FILTER (WHERE {throwing}) AS q FROM ({kept}) AS v WHERE {plain}",
)
# What compares both sides of a join stands above it, where Spark has had other conditions below.
_OF_BOTH_SIDES = _KEPT[:3]
_OVER_BOTH = tuple(each for each in _FORMS if "other" not in each and "k, i, s, n" not in each)
_PLAIN = ("k = 1", "i < 3", "i <> 2", "s = 'a'", "k > 1", "i BETWEEN 2 AND 6", "n < 4", "k IS NULL")


def script(rng: Random, label: str) -> Script:
    """Something is kept that nobody asked for, and queries over it may throw.

    Args:
        rng: the source of chance.
        label: of the case.
    """
    text = rng.choice([*_KEPT, *_OF_BOTH_SIDES])
    kept = Node(text, (Node(rng.choice(["wide", "files", "files"])),), "plan")
    both = text in _OF_BOTH_SIDES and rng.random() < 0.8
    steps: list[Step] = [start(rng)]
    steps += [Build("kept", dataframe(kept), unasked=True), Run("kept")]
    for number in range(_ABOVE):
        name = f"above_{number}"
        plan = dataframe(_above(rng, kept, both))
        steps += [Build(name, plan), Run(name, may_answer=True, expects_read="kept unasked")]
    return Script(label, tuple(steps), _ABOVE)


def _above(rng: Random, kept: Node, both: bool) -> Node:
    text = rng.choice(_OVER_BOTH if both else _FORMS)
    throwing = _throwing(rng, both)
    conditions = [throwing, _plain(rng), *([_plain(rng)] if rng.random() < 0.4 else [])]
    rng.shuffle(conditions)
    parts = {
        "kept": kept,
        "throwing": throwing,
        "plain": _plain(rng),
        "conditions": Node(" AND ".join(["{}"] * len(conditions)), tuple(conditions), "bool"),
    }
    template, children, rest = "", [], text
    while "{" in rest:
        before, _, rest = rest.partition("{")
        hole, _, rest = rest.partition("}")
        template += before + "{}"
        children.append(parts[hole])
    return Node(template + rest, tuple(children), "plan")


def _throwing(rng: Random, both: bool) -> Node:
    text = rng.choice(_THROWING)
    values = [Node(rng.choice(["k", "i", "k", "i", "1", "3", "0"])) for _ in range(2)]
    if both:
        values = [Node(rng.choice(["k", "i"])), Node(rng.choice(["k2", "i2"]))]
        rng.shuffle(values)
    return Node(f"({text})", tuple(values), "bool")


def _plain(rng: Random) -> Node:
    if rng.random() < 0.7:
        return Node(rng.choice(_PLAIN), kind="bool")
    scope: Scope = {name: WIDE[name] for name in ("k", "i", "s")}
    return Node("({})", (filled(rng, scope, "{bool}", "bool", 1),), "bool")

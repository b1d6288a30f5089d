"""Conditions that throw for rows which others leave out, over what is kept though nobody asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.fuzz.expressions import filled
from tests.fuzz.node import Node, listed
from tests.fuzz.pair import start
from tests.fuzz.plans import dataframe
from tests.fuzz.script import Build, Run, Script, Step
from tests.fuzz.tables import WIDE, Scope

_ABOVE = 6
# Spark takes an array's element for not null where its index is, so that rows depend on the plan:
# Spark's own cache gives others, too.
_THROWING = listed(r"""
CAST(if({} > {}, 'x', '1') AS INT) = 1 ~ assert_true({} < {}) IS NULL ~ 1 / ({} - {}) < 5
{} % ({} - 2) >= -9 ~ if({} = {}, raise_error('no'), true)
array(1, 2)[coalesce(CAST({} - {} AS INT), 0)] IS NOT NULL
element_at(array(1), coalesce(CAST({} - {} AS INT), 1)) = 1
CAST({} * 100 + {} AS TINYINT) IS NOT NULL ~ ({} + 1) * 4611686018427387904 > {}
to_date(CAST(1000 + {} + {} AS STRING), 'yyyy-MM') IS NOT NULL
make_date(2020, CAST({} + 8 + {} AS INT), 31) IS NOT NULL
(SELECT k2 FROM other WHERE i2 > {} - 2) >= {} ~ CAST(s AS INT) + {} > {}
CAST(n * 1000000 AS DECIMAL(9, 2)) + {} > {}
""")
# Of a value that is above 50 in few rows, and within 30 of zero in all others.
_RARELY_THROWING = listed(r"""
CAST(if({} > 50, 'x', '1') AS INT) = 1 ~ assert_true({} < 50) IS NULL
1 / greatest(0, 50 - {}) >= 0 ~ 30 % greatest(0, 50 - {}) >= 0
if({} > 50, raise_error('no'), true) ~ array(1, 2)[coalesce(CAST(({}) / 30 AS INT), 0)] < 3
element_at(array(1), 1 + coalesce(CAST(({}) / 30 AS INT), 0)) = 1
CAST(({}) * 3 AS TINYINT) > -100 ~ CAST({} AS BIGINT) * 300000000000000000L > -1
make_date(2020, greatest(1, CAST(({}) / 4 AS INT)), 1) > DATE'2019-01-01'
CAST(({}) * 200000 AS DECIMAL(9, 2)) > -1e9
""")
_KEPT = (
    "SELECT * FROM {} JOIN {} ON k = k2",
    "SELECT * FROM {} LEFT JOIN {} ON k = k2 AND i2 > 1",
    "SELECT t.*, u.s2, u.i2, u.k2, u.d2 FROM {} AS t CROSS JOIN {} AS u",
    "SELECT * FROM {} LEFT SEMI JOIN {} ON k = k2",
    "SELECT k, i, s, n, count(*) AS c, max(d) AS d FROM {} GROUP BY k, i, s, n",
    "SELECT *, row_number() OVER (PARTITION BY k ORDER BY i, s, d) AS c FROM {}",
    "SELECT DISTINCT k, i, s, n FROM {}",
    "SELECT k, i, s, n FROM {} UNION ALL SELECT k2, i2, s2, 1.5 FROM {}",
    "SELECT * FROM {} LATERAL VIEW explode(al) AS e",
)
# What Spark can't compute below what is kept, large in the rows that `_GUARDS` leave out.
_VALUES = {
    _KEPT[0]: ("i - i2", "i + i2", "k + i2", "k * i2", "k + k2"),
    _KEPT[1]: ("i - i2", "i + i2", "k + i2", "k * i2"),
    _KEPT[2]: ("i - i2", "i + i2", "k + i2"),
    _KEPT[4]: ("CAST(d AS INT)", "i + c", "CAST(d AS INT) + c"),
    _KEPT[5]: ("c + i", "c + k"),
    _KEPT[8]: ("e", "e + k"),
}
_GUARDS = ("k = 1", "k < 9", "k <= 3", "k IN (1, 2)", "k <> 60", "k BETWEEN 1 AND 3", "i < 50", "i <= 6",
           "s <> 'z'", "n < 50", "s = 'a' AND k > 0", "i < 4 OR k = 2")  # fmt: skip
_FORMS = (
    "SELECT * FROM ({kept}) AS v WHERE {conditions}",
    "SELECT * FROM ({kept}) AS v WHERE {conditions}",
    "SELECT k, count(*) AS q FROM ({kept}) AS v WHERE {conditions} GROUP BY k",
    "SELECT k, i FROM (SELECT k, i, s, n FROM ({kept}) AS v) AS w WHERE {conditions}",
    "SELECT i, sum(k) AS q FROM ({kept}) AS v GROUP BY k, i, s, n HAVING {conditions}",
    "SELECT v.k, o.i2 AS oi FROM ({kept}) AS v JOIN {other} AS o ON v.k = o.k2 AND {conditions}",
    "SELECT v.i FROM ({kept}) AS v LEFT ANTI JOIN {other} AS o ON v.k = o.k2 AND {conditions}",
    "SELECT * FROM (SELECT *, {throwing} AS z FROM ({kept}) AS v) AS w WHERE z AND {plain}",
    "SELECT * FROM (SELECT * FROM ({kept}) AS v WHERE {plain}) AS w WHERE {throwing}",
    "SELECT k, {throwing} AS z FROM ({kept}) AS v WHERE {plain}",
    "SELECT count(*) FILTER (WHERE {throwing}) AS q FROM ({kept}) AS v WHERE {plain}",
)
# What compares both sides of a join stands above it, where Spark has had other conditions below.
_OF_BOTH_SIDES = _KEPT[:3]
_OVER_BOTH = tuple(each for each in _FORMS if "other" not in each and "k, i, s, n" not in each)
_PLAIN = listed(r"""
k = 1 ~ i < 3 ~ i <> 2 ~ s = 'a' ~ k > 1 ~ i BETWEEN 2 AND 6 ~ n < 4 ~ k IS NULL
""")


def script(rng: Random, label: str) -> Script:
    """Something is kept that no program asked for, and queries over it may throw."""
    chosen = _guarded if rng.random() < 0.7 else _anyhow
    kept, ask = chosen(rng)
    steps: list[Step] = [start(rng)]
    steps += [Build("kept", dataframe(kept), unasked=True), Run("kept")]
    for number in range(_ABOVE):
        name = f"above_{number}"
        steps += [
            Build(name, dataframe(ask())),
            Run(name, may_answer=True, expects_read="kept unasked"),
        ]
    return Script(label, tuple(steps), _ABOVE)


def _guarded(rng: Random) -> tuple[Node, Callable[[], Node]]:
    """Throws for few rows, which other conditions leave out, unless they come too late."""
    text = rng.choice([*_VALUES, *_OF_BOTH_SIDES])
    kept = _filled(text, "guarded", "partners")
    forms = _OVER_BOTH if text in _OF_BOTH_SIDES else _FORMS[:3] + _FORMS[7:]

    def ask() -> Node:
        throwing = Node(f"({rng.choice(_RARELY_THROWING)})", (_one(rng, _VALUES[text]),), "bool")
        # Later conditions are for what earlier ones have left.
        conditions = [throwing, _one(rng, _GUARDS), *([_plain(rng)] if rng.random() < 0.2 else [])]
        if rng.random() < 0.2:
            rng.shuffle(conditions)
        return _above(rng, rng.choice(forms), kept, conditions, _one(rng, _GUARDS))

    return kept, ask


def _anyhow(rng: Random) -> tuple[Node, Callable[[], Node]]:
    """Throws for rows as they come."""
    text = rng.choice([*_KEPT, *_OF_BOTH_SIDES])
    kept = _filled(text, rng.choice(["wide", "files", "files"]), "other")
    both = text in _OF_BOTH_SIDES and rng.random() < 0.8

    def ask() -> Node:
        conditions = [_throwing(rng, both), _plain(rng)]
        conditions += [_plain(rng)] if rng.random() < 0.4 else []
        rng.shuffle(conditions)
        form = rng.choice(_OVER_BOTH if both else _FORMS)
        return _above(rng, form, kept, conditions, _plain(rng))

    return kept, ask


def _filled(text: str, *tables: str) -> Node:
    names = tables[: text.count("{}")]
    return Node(text, tuple(map(Node, names)), "plan")


def _one(rng: Random, texts: Sequence[str]) -> Node:
    return Node(rng.choice(texts), kind="bool")


def _above(rng: Random, form: str, kept: Node, conditions: list[Node], plain: Node) -> Node:
    parts = {
        "kept": kept,
        "other": Node("partners" if str(kept.children[0]) == "guarded" else "other"),
        "throwing": next(each for each in conditions if each.children),
        "plain": plain,
        "conditions": Node(" AND ".join(["{}"] * len(conditions)), tuple(conditions), "bool"),
    }
    return Node.filled(form, parts.__getitem__, "plan")


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

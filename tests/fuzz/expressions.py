"""Expressions of every type over a table's columns, and their mutations."""

from __future__ import annotations

from random import Random

from tests.fuzz.node import Node, listed_by_key
from tests.fuzz.tables import Scope

LITERALS = listed_by_key(r"""
long: 0L ~ 1L ~ -1L ~ 2L ~ 7L ~ 9223372036854775807L ~ CAST(NULL AS BIGINT)
int: 0 ~ 1 ~ -1 ~ 2 ~ 5 ~ CAST(NULL AS INT)
short: 0S ~ 1S ~ -3S
double: 0.0D ~ -0.0D ~ 1.5D ~ DOUBLE('NaN') ~ DOUBLE('Infinity') ~ -2.5D ~ 1e-300D ~ 2D
  CAST(NULL AS DOUBLE)
float: CAST(0.0 AS FLOAT) ~ -0.0F ~ FLOAT('NaN') ~ 1.5F ~ 1F
dec: 0.50BD ~ 0.5BD ~ 1.00BD ~ CAST(1 AS DECIMAL(12, 2)) ~ CAST(2 AS DECIMAL(10, 0))
str: '' ~ 'a' ~ 'A' ~ 'b ' ~ 'b' ~ 'NULL' ~ '\u0000' ~ 'é' ~ 'e\u0301' ~ CAST(X'ff' AS STRING)
  CAST(X'fe' AS STRING) ~ CAST(NULL AS STRING) ~ '1'
lcase: 'a' COLLATE UTF8_LCASE ~ 'A' COLLATE UTF8_LCASE ~ 'b' COLLATE UTF8_LCASE
bool: true ~ false ~ CAST(NULL AS BOOLEAN)
bin: X'' ~ X'ff' ~ X'fe' ~ X'61'
date: DATE'2020-02-29' ~ DATE'2020-03-01' ~ DATE'1582-10-10'
ts: TIMESTAMP'2020-03-29 01:30:00' ~ TIMESTAMP'2020-03-29 02:30:00Z'
ntz: TIMESTAMP_NTZ'2020-03-29 02:30:00' ~ TIMESTAMP_NTZ'2020-03-30 01:30:00'
dti: INTERVAL '1' DAY ~ INTERVAL '24' HOUR ~ INTERVAL '1 01' DAY TO HOUR
array<long>: array(1L, NULL) ~ array(7L) ~ CAST(array() AS ARRAY<BIGINT>)
array<double>: array(0.0D) ~ array(-0.0D) ~ array(DOUBLE('NaN'), NULL)
array<str>: array('a', 'A') ~ array('')
struct: named_struct('p', 1L, 'q', 0.0D, 'r', 'a')
map: map('a', 1L) ~ map('a', 2L, 'b', 2L)
""")
"""Literals by type, among them those that are equal but not the same."""

LOOKALIKES: dict[str, tuple[str, str]] = {
    "double": ("0.0D", "-0.0D"),
    "float": ("0.0F", "-0.0F"),
    "dec": ("0.5BD", "0.50BD"),
    "str": ("CAST(X'ff' AS STRING)", "CAST(X'fe' AS STRING)"),
    "lcase": ("'a' COLLATE UTF8_LCASE", "'A' COLLATE UTF8_LCASE"),
    "dti": ("INTERVAL '1' DAY", "INTERVAL '24' HOUR"),
    "ts": ("TIMESTAMP'2020-03-29 01:30:00'", "TIMESTAMP'2020-03-29 02:30:00+01:00'"),
}
"""Two of a type that are equal to some, and not the same."""

_NUMBERS = ("long", "int", "double", "float", "dec")
_ORDERED = (*_NUMBERS, "str", "lcase", "bin", "date", "ts", "ntz", "dti", "bool")
COMPARISONS = ("=", "<=>", "<", "<=", ">", ">=", "<>")

# Holes name the type of what fills them.
_TEMPLATES = listed_by_key(r"""
long: try_add({long}, {long}) ~ try_subtract({long}, {long}) ~ try_multiply({long}, {long})
  coalesce({long}, {long}) ~ if({bool}, {long}, {long}) ~ greatest({long}, {long})
  CASE WHEN {bool} THEN {long} WHEN {bool} THEN {long} ELSE {long} END ~ {struct}.p
  CAST({int} AS BIGINT) ~ least({long}, {long}) ~ nullif({long}, {long})
  try_cast({str} AS BIGINT) ~ CAST({bool} AS BIGINT) ~ {long} & {long} ~ pmod({long}, 3L)
  xxhash64({str}, {long}) ~ try_element_at({map}, {str}) ~ get({array<long>}, {int})
  aggregate({array<long>}, 0L, (s, e) -> coalesce(s, 0L) + coalesce(e, 1L)) ~ unix_micros({ts})
  bround({long}, -1) ~ round({long}, -1) ~ nvl2({str}, {long}, {long})
int: length({str}) ~ size({array<long>}) ~ year({date}) ~ day({date}) ~ hour({ts})
  coalesce({int}, {int}) ~ if({bool}, {int}, {int}) ~ hash({double}, {str})
  datediff({date}, {date}) ~ instr({str}, {str}) ~ ascii({str}) ~ cardinality({map})
  try_cast({str} AS INT) ~ levenshtein({str}, {str}) ~ CAST({short} AS INT) ~ dayofweek({date})
  weekofyear({date}) ~ array_position({array<str>}, {str})
short: CAST({bool} AS SMALLINT) ~ coalesce({short}, {short})
double: {double} + {double} ~ {double} * {double} ~ {double} - {double} ~ -{double} ~ abs({double})
  coalesce({double}, {double}) ~ if({bool}, {double}, {double}) ~ CAST({float} AS DOUBLE)
  CAST({long} AS DOUBLE) ~ nanvl({double}, {double}) ~ round({double}, 1) ~ bround({double}, 0)
  {struct}.q ~ get({array<double>}, {int}) ~ greatest({double}, {double}) ~ sqrt({double})
  CAST({dec} AS DOUBLE) ~ rint({double}) ~ array_max({array<double>})
  try_divide({double}, {double}) ~ atan2({double}, {double}) ~ try_cast({str} AS DOUBLE)
  signum({double}) ~ nullif({double}, {double})
float: CAST({double} AS FLOAT) ~ {float} + {float} ~ -{float} ~ coalesce({float}, {float})
dec: try_add({dec}, {dec}) ~ round({dec}, 1) ~ CAST({int} AS DECIMAL(12, 2)) ~ -{dec}
str: concat({str}, {str}) ~ upper({str}) ~ lower({str}) ~ trim({str}) ~ substring({str}, 1, 2)
  coalesce({str}, {str}) ~ if({bool}, {str}, {str}) ~ CAST({long} AS STRING) ~ {struct}.r
  CAST({double} AS STRING) ~ CAST({date} AS STRING) ~ CAST({ts} AS STRING) ~ hex({bin})
  to_json(struct({long} AS a, {str} AS b)) ~ to_json({struct}) ~ to_json({map})
  concat_ws('-', {str}, {str}) ~ replace({str}, {str}, {str}) ~ lpad({str}, 4, {str})
  date_format({ts}, 'yyyy-MM-dd HH:mm VV') ~ typeof({double}) ~ array_join({array<str>}, ',')
  CAST({array<double>} AS STRING) ~ CAST({struct} AS STRING) ~ CAST({map} AS STRING)
  to_csv(struct({str} AS a, {double} AS b)) ~ try_element_at({array<str>}, 1) ~ base64({bin})
  regexp_replace({str}, 'a', {str}) ~ split_part({str}, 'a', 1) ~ translate({str}, 'a', 'b')
  make_valid_utf8({str}) ~ CAST({dti} AS STRING) ~ CAST({dec} AS STRING) ~ reverse({str})
  CAST({lcase} AS STRING) ~ sha2({bin}, 256) ~ format_string('%s|%s', {str}, {long})
  to_char({dec}, '999.99') ~ CAST({bin} AS STRING) ~ quote({str})
lcase: {str} COLLATE UTF8_LCASE ~ coalesce({lcase}, {lcase}) ~ upper({lcase})
bool: {long} {compare} {long} ~ {double} {compare} {double} ~ {str} {compare} {str}
  {lcase} {compare} {lcase} ~ {float} {compare} {float} ~ {dec} {compare} {dec}
  {date} {compare} {date} ~ {ts} {compare} {ts} ~ {ntz} {compare} {ntz} ~ {bin} {compare} {bin}
  {int} {compare} {int} ~ {bool} AND {bool} ~ {bool} OR {bool} ~ NOT {bool} ~ {long} IS NULL
  {double} IS NOT NULL ~ isnan({double}) ~ {str} IS NULL ~ {struct} IS NULL
  {long} IN ({long}, {long}) ~ {double} IN ({double}, {double}) ~ {str} IN ({str}, {str})
  {str} LIKE 'a%' ~ {str} LIKE '%A' ~ startswith({str}, {str}) ~ contains({str}, {str})
  {lcase} LIKE 'A%' ~ endswith({str}, {str}) ~ {long} BETWEEN {long} AND {long}
  exists({array<long>}, e -> e {compare} {long}) ~ forall({array<double>}, e -> e = {double})
  array_contains({array<double>}, {double}) ~ coalesce({bool}, {bool}) ~ {str} RLIKE 'a'
  {dti} {compare} {dti} ~ is_valid_utf8({str}) ~ {bool} <=> {bool}
  array_contains({array<str>}, {str}) ~ arrays_overlap({array<double>}, {array<double>})
  map_contains_key({map}, {str}) ~ equal_null({double}, {double}) ~ ({str}) ILIKE 'A%'
bin: CAST({str} AS BINARY) ~ concat({bin}, {bin}) ~ substring({bin}, 1, 1) ~ unhex({str})
date: date_add({date}, {int}) ~ CAST({ts} AS DATE) ~ last_day({date}) ~ trunc({date}, 'MM')
  try_cast({str} AS DATE) ~ next_day({date}, 'MO') ~ CAST({ntz} AS DATE)
ts: date_trunc('hour', {ts}) ~ {ts} + {dti} ~ CAST({ntz} AS TIMESTAMP) ~ CAST({date} AS TIMESTAMP)
  to_utc_timestamp({ts}, 'Asia/Tokyo') ~ try_cast({str} AS TIMESTAMP) ~ {ts} + INTERVAL '1' MONTH
ntz: CAST({ts} AS TIMESTAMP_NTZ) ~ {ntz} + {dti} ~ date_trunc('day', {ntz})
dti: {ts} - {ts} ~ {dti} + {dti} ~ -{dti} ~ make_dt_interval(0, {int})
array<long>: array({long}, {long}) ~ transform({array<long>}, e -> e % 2)
  sort_array({array<long>}) ~ filter({array<long>}, e -> e {compare} {long})
  array_distinct({array<long>}) ~ transform({array<long>}, (e, j) -> e - j)
  slice({array<long>}, 1, 2) ~ map_values({map}) ~ array_union({array<long>}, {array<long>})
  array_compact({array<long>}) ~ zip_with({array<long>}, {array<long>}, (y, z) -> coalesce(y, z))
array<double>: array({double}, {double}) ~ array_distinct({array<double>})
  sort_array({array<double>}) ~ transform({array<double>}, e -> e * -1.0D)
  array_union({array<double>}, {array<double>}) ~ array_except({array<double>}, {array<double>})
  array_intersect({array<double>}, {array<double>}) ~ array_repeat({double}, 2)
  concat({array<double>}, {array<double>})
array<str>: array({str}, {str}) ~ split({str}, 'a') ~ map_keys({map}) ~ array_sort({array<str>})
struct: named_struct('p', {long}, 'q', {double}, 'r', {str}) ~ if({bool}, {struct}, {struct})
  from_json({str}, 'p BIGINT, q DOUBLE, r STRING') ~ coalesce({struct}, {struct})
  from_csv({str}, 'p BIGINT, q DOUBLE, r STRING')
map: map(coalesce({str}, 'n'), {long}) ~ map_filter({map}, (y, z) -> z > {long})
  transform_values({map}, (y, z) -> z % 2)
  map_from_arrays(array(coalesce({str}, 'n')), array({long}))
""")
TYPES = tuple(LITERALS)


def literal(rng: Random, kind: str) -> Node:
    """One of a type's literals."""
    return Node(rng.choice(LITERALS[kind]), kind=kind)


def literals(rng: Random, kind: str) -> tuple[Node, Node]:
    """Two of a type's literals, which may be hard to tell from each other."""
    if kind in LOOKALIKES and rng.random() < 0.4:
        one, other = rng.sample(LOOKALIKES[kind], 2)
        return Node(one, kind=kind), Node(other, kind=kind)
    return literal(rng, kind), literal(rng, kind)


def column(rng: Random, scope: Scope, kind: str) -> Node | None:
    """One of the columns of a type; None where there is none."""
    names = [name for name, each in scope.items() if each == kind]
    return Node(rng.choice(names), kind=kind) if names else None


def expression(rng: Random, scope: Scope, kind: str, depth: int) -> Node:
    """An expression of a type over columns, so many calls deep at most."""
    if kind == "compare":
        return Node(rng.choice(COMPARISONS), kind=kind)
    if kind not in LITERALS:
        return Node("NULL")
    found = column(rng, scope, kind)
    if depth <= 0 or rng.random() < 0.15:
        if found is not None and rng.random() < 0.7:
            return found
        return literal(rng, kind)
    return filled(rng, scope, rng.choice(_TEMPLATES[kind]), kind, depth)


def filled(rng: Random, scope: Scope, text: str, kind: str, depth: int = 1) -> Node:
    """A template whose holes name types, with an expression in each of them."""
    made = Node.filled(text, lambda hole: expression(rng, scope, hole, depth - 1), kind)
    # An operator inside of another one needs its brackets.
    return made if kind == "text" else Node("({})", (made,), kind)


def mutated(rng: Random, plan: Node, scope: Scope) -> Node:
    """A plan with one of its nodes replaced by another of its type, or with two swapped."""
    places = [place for place in plan.places() if _is_changed(plan.at(place))]
    if not places:
        return plan
    place = rng.choice(places)
    node = plan.at(place)
    if node.kind == "plan":
        return plan.with_at(place, next(each for each in node.children if each.kind == "plan"))
    match rng.randrange(4):
        case 0:
            pairs = [
                (one, other)
                for one in range(len(node.children))
                for other in range(one)
                if node.children[one].kind == node.children[other].kind
            ]
            if pairs:
                one, other = rng.choice(pairs)
                swapped = node.with_at((one,), node.children[other])
                return plan.with_at(place, swapped.with_at((other,), node.children[one]))
        case 1:
            inner = [child for below in node.children for child in below.walk()]
            same = [child for child in inner if child.kind == node.kind]
            if same:
                return plan.with_at(place, rng.choice(same))
        case 2 if node.kind in LITERALS:
            return plan.with_at(place, literal(rng, node.kind))
    return plan.with_at(place, expression(rng, scope, node.kind, rng.randrange(3)))


def _is_changed(node: Node) -> bool:
    if node.kind == "plan":
        return any(child.kind == "plan" for child in node.children)
    return node.kind == "compare" or node.kind in LITERALS

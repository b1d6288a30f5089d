"""The same query under two values of one setting: any of Spark's, by its own list of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from tests.fuzz.expressions import TYPES, expression
from tests.fuzz.family import SIZE, Family
from tests.fuzz.node import Node, listed
from tests.fuzz.pair import Pair
from tests.fuzz.plans import dataframe
from tests.fuzz.setting_values import Change, any_setting
from tests.fuzz.tables import WIDE

# What settings are known to change: formats, parsers, names, orders, rules of types.
_SENSITIVE = listed(r"""
to_json(struct(i, s)) ~ to_json(array(struct(k, d))) ~ to_json(map('k', s)) ~ to_json(st)
from_json('{"a": 1, "A": 2}', 'a INT') ~ from_json('{"a": "2020-1-1"}', 'a DATE')
from_json(concat('[', i, ']'), 'a INT')
schema_of_json('{"a": 01}', map('allowNumericLeadingZeros', 'true'))
from_csv(concat(i, ',', s), 'a INT, b STRING, c STRING') ~ to_csv(struct(d, s))
CAST(ts AS STRING) ~ CAST(nt AS TIMESTAMP) ~ unix_timestamp(CAST(ts AS STRING)) ~ hour(ts)
CAST('2020-03-29 02:30:00' AS TIMESTAMP) ~ try_to_timestamp('2020-1-1 1:1:1')
size(CAST(NULL AS ARRAY<INT>)) ~ CAST(map('a', NULL) AS STRING)
CAST(named_struct('a', NULL, 'b', 1) AS STRING) ~ concat(X'61', X'62') ~ elt(1, X'61', X'62')
n / 3 ~ CAST(1 AS DECIMAL(38, 18)) * CAST(1 AS DECIMAL(38, 18)) ~ CAST(0.1 AS DECIMAL(38, 20)) / 7
array_distinct(ad) ~ greatest(d, 0.0D, -0.0D) ~ s = 'A' ~ s LIKE 'a\\%' ~ 'a\tb' ~ typeof(1.5)
typeof(NULL) ~ typeof(TIMESTAMP'2020-01-01') ~ NULL IN (SELECT k2 FROM other) ~ format_number(d, 2)
CAST(d AS STRING) ~ hash(-0.0D, 0.0D) ~ xxhash64(al) ~ date_add(dt, 1)
regexp_extract(s, '(a)', 1) ~ to_number('1', '9') ~ bround(2.5D)
CAST(CAST('a' AS CHAR(3)) AS STRING) ~ sentences('a b. c') ~ array_sort(array(3, NULL, 1))
sequence(DATE'2020-01-01', DATE'2020-03-01', INTERVAL 1 MONTH) ~ extract(WEEK FROM dt)
st = named_struct('p', 1L, 'q', 0.0D, 'r', 'a') ~ current_timezone() ~ version() ~ current_schema()
collation(s) ~ lower(c) ~ percentile_approx(i, 0.5) OVER ()
first_value(i) OVER (ORDER BY k, s, i)
""")
# What Spark refuses under some settings, and takes under others.
_FAILING = listed(r"""
i / 0 ~ CAST(s AS INT) ~ CAST(300 AS TINYINT) ~ 2147483647 + i ~ array(1, 2)[i]
date_format(ts, 'YYYY-MM-dd HH:mm') ~ map('a', 1, 'a', 2)
map_from_arrays(array(d, 0.0D, -0.0D), array(1, 2, 3)) ~ s IN (1, 2)
to_date('2020-1-1', 'yyyy-MM-dd') ~ hash(m) ~ make_date(2021, 2, 30) ~ format_string('%0$s', 'a')
parse_url('http://a b/c', 'HOST') ~ url_decode('%') ~ conv('7fffffffffffffffff', 16, 10)
decode(encode(s, 'UTF-16'), 'US-ASCII') ~ encode('é', 'US-ASCII')
""")
_QUERIES = listed(r"""
SELECT count(*) AS c FROM wide GROUP BY d ~ SELECT a.i, b.k2 FROM wide a JOIN other b ON a.i = b.k2
SELECT K, i FROM wide ~ SELECT i AS a, k FROM wide ORDER BY 2, 1
SELECT k, sum(i) AS x FROM wide GROUP BY 1
SELECT k, count(*) AS c, grouping__id FROM wide GROUP BY k, i WITH CUBE
SELECT k FROM wide WHERE k NOT IN (SELECT k2 FROM other)
SELECT k, (SELECT count(*) FROM other WHERE k2 = k) AS c FROM wide
SELECT sum(n) AS s, avg(n) AS a FROM wide
SELECT * FROM wide TABLESAMPLE (50 PERCENT) REPEATABLE (3)
SELECT i, k FROM wide DISTRIBUTE BY k SORT BY i ~ SELECT `(i|k)` FROM wide
SELECT max(struct(k, s)) AS t FROM wide HAVING count(*) > 0
SELECT stddev(i) AS s, corr(i, i) AS c, skewness(i * 0) AS z FROM wide
SELECT k FROM wide UNION SELECT s FROM wide ~ SELECT * FROM files WHERE n > 1.5
SELECT id, d FROM many WHERE id % 1000 = 1
""")


# What a setting is about, by words in its name; the rest is for all of them.
_ABOUT = {
    "json": ("to_json", "from_json", "schema_of_json"),
    "csv": ("csv",),
    "time": ("ts", "date", "timestamp", "hour", "nt"),
    "decimal": ("n /", "DECIMAL", "1.5"),
    "map": ("map",),
    "binary": ("X'", "encode"),
    "string": ("STRING", "LIKE"),
}


def sensitive(rng: Random, keys: Iterable[str]) -> list[str]:
    """Expressions over `wide` that settings may change: some by their names, some by chance."""
    names = " ".join(keys).lower()
    words = [word for about, words in _ABOUT.items() if about in names for word in words]
    fitting = [text for text in _SENSITIVE if any(word in text for word in words)]
    picked = rng.sample(fitting, min(6, len(fitting))) + rng.sample(_SENSITIVE, 5)
    if rng.random() < 0.1:
        picked.append(rng.choice(_FAILING))
    return list(dict.fromkeys(picked))


def changes(settings: Sequence[Change]) -> tuple[str, str]:
    """The statements of both states of some settings."""
    first, second = (
        "\n".join(f"setting({change[0]!r}, {change[place]!r})" for change in settings)
        for place in (1, 2)
    )
    return first, second


def pair(rng: Random) -> Pair:
    """A query, and the same query under other values of some settings."""
    settings = [any_setting(rng) for _ in range(rng.choice([1, 2, 4]))]
    sql = _query(rng, settings)
    first, second = changes(settings)
    return Pair(dataframe(sql), dataframe(sql), first_state=first, second_state=second)


def family(rng: Random) -> Family:
    """A query under as many settings, one changed at a time."""
    settings = [any_setting(rng) for _ in range(SIZE)]
    states = [f"only({{{key!r}: {value!r}}})" for key, *values in settings for value in values]
    sql = _query(rng, rng.sample(settings, 3))
    return Family.of_states(dataframe(sql), ["only({})", *rng.sample(states, len(states))])


def _query(rng: Random, settings: Sequence[Change]) -> Node:
    texts = sensitive(rng, [key for key, _, _ in settings])
    columns = ", ".join(f"{text} AS c{place}" for place, text in enumerate(texts))
    sql = Node(f"SELECT {columns} FROM wide", kind="plan")
    if rng.random() < 0.25:
        sql = Node(rng.choice(_QUERIES), kind="plan")
    elif rng.random() < 0.15:
        made = [expression(rng, WIDE, rng.choice(TYPES), 2) for _ in range(4)]
        holes = ", ".join(f"{{}} AS c{place}" for place in range(4))
        sql = Node(f"SELECT {holes} FROM files", tuple(made), "plan")
    return sql
